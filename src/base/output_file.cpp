#include "base/output_file.hpp"

#include <fcntl.h>
#include <signal.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>

#include "base/format.hpp"

namespace penstock::base {
namespace {

tl::unexpected<Error> cannot_write(const std::string& path) {
  return fail(ErrorCode::permission, "cannot write {}: {}; name a file in a folder of yours", path,
              strerror(errno));
}

/// While it lives, a pipe without a reader is an error of write() and no signal.
class NoPipeSignal {
 public:
  NoPipeSignal() {
    sigset_t pending;
    ::sigpending(&pending);
    pending_before_ = ::sigismember(&pending, SIGPIPE) == 1;
    ::sigemptyset(&pipe_);
    ::sigaddset(&pipe_, SIGPIPE);
    ::pthread_sigmask(SIG_BLOCK, &pipe_, &before_);
  }
  ~NoPipeSignal() {
    const timespec at_once{};
    if (!pending_before_) ::sigtimedwait(&pipe_, nullptr, &at_once);
    ::pthread_sigmask(SIG_SETMASK, &before_, nullptr);
  }
  NoPipeSignal(const NoPipeSignal&) = delete;
  NoPipeSignal& operator=(const NoPipeSignal&) = delete;

 private:
  sigset_t pipe_, before_;
  bool pending_before_;
};

bool is_pipe(const std::string& path) {
  struct stat status;
  return ::stat(path.c_str(), &status) == 0 && S_ISFIFO(status.st_mode);
}

/// Opens what is there, and does not wait for a reader of a pipe.
Result<UniqueFd> open_existing(const std::string& path, mode_t mode) {
  UniqueFd fd(::open(path.c_str(), O_WRONLY | O_CREAT | O_CLOEXEC | O_NONBLOCK, mode));
  if (fd.get() < 0 && errno == ENXIO && is_pipe(path))
    return fail(ErrorCode::permission,
                "cannot write {}: it is a pipe that no process reads; start its reader first, or "
                "name a file",
                path);
  if (fd.get() < 0) return cannot_write(path);
  const int flags = ::fcntl(fd.get(), F_GETFL);
  if (flags < 0 || ::fcntl(fd.get(), F_SETFL, flags & ~O_NONBLOCK) != 0) return cannot_write(path);
  return fd;
}

}  // namespace

Result<OutputFile> OutputFile::open(const std::string& path) {
  if (path.empty()) return OutputFile({}, {}, false);
  constexpr mode_t by_umask = 0666;
  UniqueFd fd(::open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, by_umask));
  if (fd.get() >= 0) return OutputFile(path, std::move(fd), true);
  return OutputFile(path, PENSTOCK_TRY(open_existing(path, by_umask)), false);
}

OutputFile& OutputFile::operator=(OutputFile&& other) noexcept {
  std::swap(path_, other.path_);
  std::swap(fd_, other.fd_);
  std::swap(made_, other.made_);
  return *this;
}

void OutputFile::remove_unused() const {
  if (made_ && fd_.get() >= 0) ::unlink(path_.c_str());
}

Result<void> OutputFile::write(std::string_view text) {
  if (path_.empty()) return {};
  made_ = false;
  if (::ftruncate(fd_.get(), 0) != 0 && errno != EINVAL)  // pipes and terminals have no length
    return cannot_write(path_);
  const NoPipeSignal guard;
  while (!text.empty()) {
    const ssize_t done = ::write(fd_.get(), text.data(), text.size());
    if (done < 0 && errno == EINTR) continue;
    if (done < 0) return cannot_write(path_);
    text.remove_prefix(static_cast<std::size_t>(done));
  }
  return {};
}

}  // namespace penstock::base

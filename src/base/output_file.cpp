#include "base/output_file.hpp"

#include <fcntl.h>
#include <string.h>
#include <unistd.h>

#include <cerrno>

#include "base/format.hpp"

namespace penstock::base {
namespace {

tl::unexpected<Error> cannot_write(const std::string& path) {
  return fail(ErrorCode::permission, "cannot write {}: {}; name a file in a folder of yours", path,
              strerror(errno));
}

}  // namespace

Result<OutputFile> OutputFile::open(const std::string& path) {
  if (path.empty()) return OutputFile({}, {}, false);
  constexpr mode_t by_umask = 0666;
  UniqueFd fd(::open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, by_umask));
  if (fd.get() >= 0) return OutputFile(path, std::move(fd), true);
  fd = UniqueFd(::open(path.c_str(), O_WRONLY | O_CREAT | O_CLOEXEC, by_umask));
  if (fd.get() < 0) return cannot_write(path);
  return OutputFile(path, std::move(fd), false);
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
  while (!text.empty()) {
    const ssize_t done = ::write(fd_.get(), text.data(), text.size());
    if (done < 0 && errno == EINTR) continue;
    if (done < 0) return cannot_write(path_);
    text.remove_prefix(static_cast<std::size_t>(done));
  }
  return {};
}

}  // namespace penstock::base

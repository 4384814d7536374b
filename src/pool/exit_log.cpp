#include "pool/exit_log.hpp"

#include <fcntl.h>
#include <sys/inotify.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <mutex>
#include <optional>

#include "base/env.hpp"
#include "base/fork.hpp"
#include "base/format.hpp"
#include "pool/job_counts.hpp"

namespace penstock::pool {

namespace {

std::string name_of(std::uint64_t pool_id, std::uint32_t slot, std::uint64_t generation) {
  return fmt::format("{:x}.{}.{}", pool_id, slot, generation);
}

base::UniqueFd make(const std::string& folder, const std::string& name) {
  const std::string path = fmt::format("{}/{}", folder, name);
  return base::UniqueFd(::open(path.c_str(), O_WRONLY | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600));
}

void note(const std::string& name) {
  const std::string folder = base::env_text("PENSTOCK_EXIT_LOG");
  if (!folder.empty()) (void)make(folder, name);
}

/// Opens a file that this process holds until it ends; its close then reports the end.
base::ProcessFd presence_in(const std::string& folder) {
  base::UniqueFd file = make(folder, fmt::format("process.{}", ::getpid()));
  // The launcher notices an end when a low descriptor is closed. Linux defers the closes of an
  // ending process and does the last one first, so a high descriptor is closed before those.
  constexpr int high = 1000;
  const int moved = ::fcntl(file.get(), F_DUPFD_CLOEXEC, high);
  return base::ProcessFd(moved >= 0 ? moved : file.release());
}

}  // namespace

ExitLogEntry::ExitLogEntry(std::uint64_t pool_id, std::uint32_t slot, std::uint64_t generation) {
  const std::string folder = base::env_text("PENSTOCK_EXIT_LOG");
  if (folder.empty()) return;
  if (make(folder, name_of(pool_id, slot, generation)).get() < 0) return;
  path_ = folder + "/" + name_of(pool_id, slot, generation);
  process_ = ::getpid();
  static std::mutex mutex;
  static base::ProcessFd* const presence = new base::ProcessFd;  // outlives all exit handlers
  const std::lock_guard guard(mutex);
  if (presence->get() < 0) *presence = presence_in(folder);
}

void ExitLogEntry::sign_off() {
  if (path_.empty() || process_ != ::getpid()) return;
  write_job_counts(path_.substr(0, path_.rfind('/')));
  ::unlink(path_.c_str());
}

void note_abort(int code) {
  note(fmt::format("abort.{}.{}", ::getpid(), code));
}

namespace {

thread_local int errors_within = 0;

std::string error_note(std::int64_t pid, std::int64_t thread) {
  return fmt::format("error.{}.{}", pid, thread);
}

}  // namespace

ErrorNote::ErrorNote() {
  if (errors_within++ == 0) note(error_note(::getpid(), ::gettid()));
}

ErrorNote::~ErrorNote() {
  if (--errors_within > 0) return;
  const std::string folder = base::env_text("PENSTOCK_EXIT_LOG");
  if (!folder.empty()) ::unlink((folder + "/" + error_note(::getpid(), ::gettid())).c_str());
}

void note_finalize() {
  note(fmt::format("finalize.{}", ::getpid()));
}

Result<ExitLog> ExitLog::watch(const std::string& folder, std::uint64_t pool_id) {
  base::UniqueFd events(::inotify_init1(IN_CLOEXEC | IN_NONBLOCK));
  if (events.get() < 0 ||
      ::inotify_add_watch(events.get(), folder.c_str(),
                          IN_CREATE | IN_DELETE | IN_CLOSE_WRITE | IN_ONLYDIR) < 0) {
    return fail(ErrorCode::internal, "cannot watch {}: {}", folder, std::strerror(errno));
  }
  return ExitLog(folder, pool_id, std::move(events));
}

bool ExitLog::stayed(std::uint32_t slot, std::uint64_t generation) const {
  return ::access((folder_ + "/" + name_of(pool_id_, slot, generation)).c_str(), F_OK) == 0;
}

bool ExitLog::error_pending(const Event& fails) const {
  return ::access((folder_ + "/" + error_note(fails.pid, fails.thread)).c_str(), F_OK) == 0;
}

namespace {

std::optional<ExitLog::Event> parse(const inotify_event& event, std::uint64_t pool_id) {
  using Kind = ExitLog::Event::Kind;
  ExitLog::Event found;
  if (event.len == 0) return std::nullopt;
  if ((event.mask & IN_DELETE) != 0) {
    std::uint64_t of_pool = 0;
    found.kind = Kind::left;
    const int read =
        std::sscanf(event.name, "%lx.%u.%lu", &of_pool, &found.slot, &found.generation);
    return read == 3 && of_pool == pool_id ? std::optional(found) : std::nullopt;
  }
  const bool made = (event.mask & IN_CREATE) != 0;
  if (std::sscanf(event.name, "process.%ld", &found.pid) == 1) {
    found.kind = made ? Kind::attached : Kind::ended;
    return found;
  }
  if (!made) return std::nullopt;  // notes are reported once
  if (std::sscanf(event.name, "abort.%ld.%d", &found.pid, &found.abort_code) == 2)
    found.kind = Kind::aborts;
  else if (std::sscanf(event.name, "error.%ld.%ld", &found.pid, &found.thread) == 2)
    found.kind = Kind::fails;
  else if (std::sscanf(event.name, "finalize.%ld", &found.pid) == 1)
    found.kind = Kind::finalizes;
  else
    return std::nullopt;
  return found;
}

}  // namespace

std::vector<ExitLog::Event> ExitLog::events() {
  std::vector<Event> found;
  alignas(inotify_event) char buffer[4096];
  for (;;) {
    const ssize_t bytes = ::read(events_.get(), buffer, sizeof buffer);
    if (bytes <= 0) return found;
    for (ssize_t at = 0; at < bytes;) {
      const auto* event = reinterpret_cast<const inotify_event*>(buffer + at);
      at += static_cast<ssize_t>(sizeof(inotify_event) + event->len);
      if (const auto parsed = parse(*event, pool_id_)) found.push_back(*parsed);
    }
  }
}

}  // namespace penstock::pool

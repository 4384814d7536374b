#include "pool/roll.hpp"

#include <fcntl.h>
#include <sys/inotify.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>

#include "base/env.hpp"
#include "base/format.hpp"

namespace penstock::pool {

RollEntry::RollEntry(std::uint64_t pool_id, std::uint32_t slot, std::uint64_t generation) {
  const std::string folder = base::env_text("PENSTOCK_ROLL");
  if (folder.empty()) return;
  path_ = fmt::format("{}/{:x}.{}.{}", folder, pool_id, slot, generation);
  UniqueFd file(::open(path_.c_str(), O_WRONLY | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600));
  if (file.get() < 0) return;
  // The launcher hears of an end when a low descriptor is closed. Linux puts off each close of an
  // ending process and then does the last one first, so a high one is closed before those.
  constexpr int high = 1000;
  const int moved = ::fcntl(file.get(), F_DUPFD_CLOEXEC, high);
  file_ = base::ProcessFd(moved >= 0 ? moved : file.release());
}

void RollEntry::sign_off() {
  if (file_.get() >= 0) ::unlink(path_.c_str());
}

Result<Roll> Roll::watch(const std::string& folder, std::uint64_t pool_id) {
  UniqueFd events(::inotify_init1(IN_CLOEXEC | IN_NONBLOCK));
  if (events.get() < 0 ||
      ::inotify_add_watch(events.get(), folder.c_str(), IN_CLOSE_WRITE | IN_ONLYDIR) < 0) {
    return fail(Code::internal, "cannot watch {}: {}", folder, std::strerror(errno));
  }
  return Roll(folder, pool_id, std::move(events));
}

std::vector<Roll::Entry> Roll::ended() {
  std::vector<Entry> found;
  alignas(inotify_event) char buffer[4096];
  for (;;) {
    const ssize_t bytes = ::read(events_.get(), buffer, sizeof buffer);
    if (bytes <= 0) return found;
    for (ssize_t at = 0; at < bytes;) {
      const auto* event = reinterpret_cast<const inotify_event*>(buffer + at);
      at += static_cast<ssize_t>(sizeof(inotify_event) + event->len);
      Entry entry;
      std::uint64_t pool_id = 0;
      if (event->len == 0 ||
          std::sscanf(event->name, "%lx.%u.%lu", &pool_id, &entry.slot, &entry.generation) != 3) {
        continue;
      }
      const bool stayed = ::access((folder_ + "/" + event->name).c_str(), F_OK) == 0;
      if (stayed && pool_id == pool_id_) found.push_back(entry);
    }
  }
}

}  // namespace penstock::pool

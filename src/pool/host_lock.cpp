#include "pool/host_lock.hpp"

#include <sys/file.h>

#include <cerrno>
#include <cstring>

#include "base/format.hpp"
#include "base/pace.hpp"
#include "base/wait.hpp"

namespace penstock::pool {

Result<HostLock> HostLock::acquire(int fd, std::uint64_t timeout_ns,
                                   const std::function<bool()>& unless) {
  // Each poll is a system call, and the holder needs the core: sleep early, and long if hundreds of
  // processes start together.
  base::WaitPolicy policy{
      .spins = 4, .yields = 20, .sleep_ns = 200'000, .late_sleep_ns = 30'000'000};
  base::Waiter waiter("another process of this host to leave the pool's lock", timeout_ns, {},
                      policy);
  constexpr std::uint64_t lines_a_look = 20;  // read from the device by a look-up of a name
  base::Pace pace;
  for (;;) {
    if (::flock(fd, LOCK_EX | LOCK_NB) == 0) return HostLock(fd);
    if (errno != EWOULDBLOCK && errno != EINTR) {
      return fail(ErrorCode::unavailable,
                  "the pool's file cannot be locked: {}; put the pool on a file system with flock",
                  std::strerror(errno));
    }
    if (unless && pace.due()) {
      if (unless())
        return fail(
            ErrorCode::already_exists,
            "the pool's lock is not needed: another process of this host has done the work");
      pace.looked(lines_a_look);
    }
    PENSTOCK_TRY(waiter.pause());
  }
}

HostLock::~HostLock() {
  if (fd_ >= 0) ::flock(fd_, LOCK_UN);
}

}  // namespace penstock::pool

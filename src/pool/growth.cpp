#include "pool/growth.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <sys/statvfs.h>

#include <cerrno>
#include <cstring>

#include "base/env.hpp"
#include "base/format.hpp"

namespace penstock::pool {

bool has_holes(const std::vector<OpenPart>& parts) {
  constexpr std::uint64_t block_bytes = 512;  // unit of st_blocks on every file system
  struct stat status;
  if (parts.size() != 1 || parts.front().device) return false;
  if (::fstat(parts.front().fd.get(), &status) != 0 || !S_ISREG(status.st_mode)) return false;
  return static_cast<std::uint64_t>(status.st_blocks) * block_bytes <
         static_cast<std::uint64_t>(status.st_size);
}

Result<void> reserve_range(int fd, const Info& info, std::uint64_t offset, std::uint64_t bytes) {
  int done;
  do {
    done =
        ::fallocate(fd, FALLOC_FL_KEEP_SIZE, static_cast<off_t>(offset), static_cast<off_t>(bytes));
  } while (done != 0 && errno == EINTR);
  if (done == 0 || (errno != ENOSPC && errno != EDQUOT && errno != ENOMEM)) return {};
  const int error = errno;
  struct statvfs room;
  const std::uint64_t free =
      ::fstatvfs(fd, &room) == 0 ? static_cast<std::uint64_t>(room.f_bavail) * room.f_frsize : 0;
  return fail(ErrorCode::no_space,
              "pool {} grows as it is used, and {} more are not to be had: {} ({} free); free "
              "space there, or for /dev/shm: mount -o remount,size=... /dev/shm (in a container: "
              "--shm-size)",
              info.spec, base::format_bytes(bytes), std::strerror(error), base::format_bytes(free));
}

}  // namespace penstock::pool

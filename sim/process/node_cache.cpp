#include "sim/process/node_cache.hpp"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/statvfs.h>

#include <cerrno>
#include <cstring>
#include <filesystem>

#include "base/env.hpp"
#include "base/format.hpp"
#include "base/log.hpp"
#include "base/unique_fd.hpp"
#include "base/wait.hpp"
#include "pool/host_identity.hpp"
#include "pool/node_caches.hpp"

namespace penstock::sim {

namespace {

using base::UniqueFd;
using coherence::PoolMapping;

std::uint64_t bytes_of(const PoolMapping& place) {
  return 2 * place.bytes + place.bytes / line_bytes + LineLocks::bytes;
}

tl::unexpected<Error> system_failure(const std::string& path, const char* what) {
  const ErrorCode code =
      errno == EACCES || errno == EPERM ? ErrorCode::permission : ErrorCode::unavailable;
  return fail(code,
              "{}, a node's cache of a pool in simulated mode, cannot be {}: {}; it belongs to the "
              "pool and must be writable to all who attach: penstock pool rm removes both",
              path, what, std::strerror(errno));
}

/// The file may vanish between its opening and the lock; then it is made again.
Result<UniqueFd> open_locked(const std::string& path, mode_t permissions) {
  base::Waiter waiter("the lock of a node's cache", 0);
  for (;;) {
    UniqueFd fd(::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, permissions));
    if (fd.get() < 0) return system_failure(path, "opened");
    struct stat status;
    const bool locked = ::flock(fd.get(), LOCK_SH | LOCK_NB) == 0;
    if (locked && ::fstat(fd.get(), &status) == 0 && status.st_nlink > 0) return fd;
    PENSTOCK_TRY(waiter.pause());
  }
}

/// Gives it the pool's owner and permissions. Only the owner can, and only the first time changes
/// anything.
void share_as(const struct stat& pool, const UniqueFd& fd) {
  [[maybe_unused]] const int given = ::fchown(fd.get(), static_cast<uid_t>(-1), pool.st_gid);
  [[maybe_unused]] const int allowed = ::fchmod(fd.get(), pool.st_mode & 0666);
}

Result<void> size_it(const UniqueFd& fd, const std::string& path, std::uint64_t bytes) {
  struct stat status;
  if (::fstat(fd.get(), &status) != 0) return system_failure(path, "examined");
  if (static_cast<std::uint64_t>(status.st_size) == bytes) return {};
  if (status.st_size != 0) {
    return fail(ErrorCode::wrong_format, "{} has {} bytes, but {} are needed; remove it: rm {}",
                path, status.st_size, bytes, path);
  }
  rlimit limit;
  if (::getrlimit(RLIMIT_FSIZE, &limit) == 0 && limit.rlim_cur < bytes) {
    return fail(ErrorCode::no_space,
                "{} needs {}, but this process may write files of at most {}; run: ulimit -f "
                "unlimited",
                path, base::format_bytes(bytes), base::format_bytes(limit.rlim_cur));
  }
  if (::ftruncate(fd.get(), static_cast<off_t>(bytes)) != 0) return system_failure(path, "sized");
  return {};
}

/// Lines take space when they are touched, and view and shadow have as many lines as the pool.
void warn_if_tight(const UniqueFd& fd, const std::string& path, const PoolMapping& place) {
  struct statvfs room;
  struct stat status;
  if (::fstatvfs(fd.get(), &room) != 0 || ::fstat(fd.get(), &status) != 0) return;
  const std::uint64_t free = static_cast<std::uint64_t>(room.f_bavail) * room.f_frsize;
  const auto taken = static_cast<std::uint64_t>(status.st_blocks) * 512;
  if (free + taken >= 2 * place.bytes) return;
  base::log(base::Level::warn,
            "{} may grow to {} and {} are free there: a process that finds it full dies of SIGBUS; "
            "use a smaller pool (--size), or one in another folder",
            path, base::format_bytes(bytes_of(place)), base::format_bytes(free));
}

Result<UniqueFd> open_file(const PoolMapping& place, const std::string& path) {
  struct stat of_pool;
  if (::stat(place.path.c_str(), &of_pool) != 0) return system_failure(place.path, "examined");
  auto fd = open_locked(path, of_pool.st_mode & 0666);
  if (!fd) return fd;
  share_as(of_pool, *fd);
  PENSTOCK_TRY(size_it(*fd, path, bytes_of(place)));
  warn_if_tight(*fd, path, place);
  // The pool may have been removed while this file was made: no other process would then remove the
  // file.
  if (::stat(place.path.c_str(), &of_pool) != 0) {
    ::unlink(path.c_str());
    return fail(ErrorCode::not_found, "pool {} was removed while this process attached",
                place.path);
  }
  return fd;
}

NodeView::Storage storage_in(const PoolMapping& place, std::byte* memory) {
  return {.device = place.base,
          .view = memory,
          .shadow = memory + place.bytes,
          .held = reinterpret_cast<std::uint8_t*>(memory + 2 * place.bytes),
          .bytes = place.bytes,
          .locks = LineLocks(memory + 2 * place.bytes + place.bytes / line_bytes),
          .users_fetch = true};
}

}  // namespace

Result<std::unique_ptr<NodeCache>> NodeCache::open(const PoolMapping& place) {
  UniqueFd fd;
  std::string path = "the private cache of an observer";
  int flags = MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE;
  if (!place.observer) {
    const auto host = PENSTOCK_TRY(pool::this_host());
    path = pool::node_cache_path(place.path, place.pool_id, host, place.node);
    auto opened = PENSTOCK_TRY(open_file(place, path));
    fd = std::move(opened);
    flags = MAP_SHARED;
  }
  const UniqueFd mapped = fd.get() < 0 ? UniqueFd() : base::reopened(fd);
  if (fd.get() >= 0 && mapped.get() < 0) return system_failure(path, "opened once more");
  void* memory = ::mmap(nullptr, bytes_of(place), PROT_READ | PROT_WRITE, flags, mapped.get(), 0);
  if (memory == MAP_FAILED) return system_failure(path, "mapped");
  ::madvise(memory, bytes_of(place), MADV_NOHUGEPAGE);  // huge pages would fill a sparse file
  return std::make_unique<NodeCache>(place, static_cast<std::byte*>(memory), fd.release());
}

NodeCache::NodeCache(const PoolMapping& place, std::byte* memory, int fd)
    : memory_(memory), bytes_(bytes_of(place)), fd_(fd), view_(storage_in(place, memory)) {}

NodeCache::~NodeCache() {
  ::munmap(memory_, bytes_);
}

}  // namespace penstock::sim

#include "fuzz/pool_in_memory.hpp"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstring>

#include "device/mapping.hpp"
#include "device/pool_file.hpp"
#include "device/superblock.hpp"
#include "fuzz/expect.hpp"

namespace penstock::fuzz {

namespace {

constexpr std::uint64_t guard_bytes = 4 << 20;

void guard(std::byte* at) {
  // Something else may be mapped there already; then it is not the pool either.
  (void)::mmap(at, guard_bytes, PROT_NONE,
               MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED_NOREPLACE, -1, 0);
}

}  // namespace

PoolInMemory::PoolInMemory(const PoolShape& shape)
    : fd_(::memfd_create("penstock-fuzz", MFD_CLOEXEC)),
      spec_(fmt::format("/proc/self/fd/{}", fd_)),
      superblock_{.magic = device::magic,
                  .layout_version = device::layout_version,
                  .header_bytes = device::page_bytes,
                  .pool_id = 0x1234567,
                  .bytes = shape.bytes,
                  .mode = static_cast<std::uint32_t>(shape.mode),
                  .part_count = 1,
                  .max_processes = shape.max_processes,
                  .max_nodes = shape.max_nodes,
                  .part_bytes = shape.bytes} {
  expect(fd_ >= 0 && ::posix_fallocate(fd_, 0, static_cast<off_t>(shape.bytes)) == 0);
  expect(::fchmod(fd_, 0600) == 0);  // no process uses a pool that everybody may write to
  superblock_.stripe_bytes = device::stripe_bytes_for(shape.bytes, 1, device::huge_page_bytes);
  need(pool::lay_out(superblock_));
  const auto parts = device::open_parts(spec_, device::Access::write);
  need(parts);
  need(device::write_superblock(parts->front(), superblock_));
  pool_file_ = device::pool_file_of(*parts);
  void* at = ::mmap(nullptr, shape.bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd_, 0);
  expect(at != MAP_FAILED);
  base_ = static_cast<std::byte*>(at);
}

PoolInMemory::~PoolInMemory() {
  ::munmap(base_, superblock_.bytes);
  ::close(fd_);
}

void PoolInMemory::keep() {
  kept_.assign(base_, base_ + pool::metadata_bytes(superblock_));
}

void PoolInMemory::restore() const {
  std::memcpy(base_, kept_.data(), kept_.size());
}

FrozenPool::FrozenPool(const PoolShape& shape) : file_(shape) {
  auto attached = pool::Pool::attach({.spec = file_.spec(), .rank = 7, .job = "fuzz"});
  need(attached);
  pool_ = std::move(*attached);
  guard(base() - guard_bytes);
  guard(base() + bytes());
}

FrozenPool::~FrozenPool() = default;

void FrozenPool::freeze() {
  void* at =
      ::mmap(base(), bytes(), PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_FIXED, file_.fd(), 0);
  expect(at == base());
}

void FrozenPool::reset() const {
  expect(::madvise(base(), bytes(), MADV_DONTNEED) == 0);
}

}  // namespace penstock::fuzz

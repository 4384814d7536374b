#include "device/mapping.hpp"

#include <sys/mman.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "base/checked.hpp"
#include "base/env.hpp"
#include "base/format.hpp"

namespace penstock::device {

namespace {

int protection(Access access) {
  return access == Access::write ? PROT_READ | PROT_WRITE : PROT_READ;
}

tl::unexpected<Error> map_error(const OpenPart& part, std::uint64_t offset, std::uint64_t bytes,
                                int error) {
  if (error == ENOMEM) {
    return fail(ErrorCode::no_space,
                "{} of {} cannot be mapped: address space or mappings are used up; run: ulimit -v "
                "unlimited; sysctl vm.max_map_count",
                base::format_bytes(bytes), part.part.path);
  }
  if (error == EINVAL && part.device) {
    return fail(ErrorCode::mismatch,
                "{} cannot be mapped at {:#x} for {}: its alignment is {}; run: daxctl "
                "reconfigure-device --mode=devdax --align=2M --force {}",
                part.part.path, offset, base::format_bytes(bytes),
                base::format_bytes(part.alignment),
                part.part.path.substr(part.part.path.rfind('/') + 1));
  }
  return fail(ErrorCode::unavailable, "{} cannot be mapped: {}", part.part.path,
              std::strerror(error));
}

/// An unused range of addresses, aligned for huge pages.
Result<Mapping> reserve_addresses(const OpenPart& first, std::uint64_t bytes,
                                  std::uint64_t alignment) {
  const auto padded = base::checked_add(bytes, alignment);
  void* at = padded ? ::mmap(nullptr, *padded, PROT_NONE,
                             MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0)
                    : MAP_FAILED;
  if (at == MAP_FAILED) return map_error(first, 0, bytes, ENOMEM);
  auto* begin = static_cast<std::byte*>(at);
  auto* aligned = reinterpret_cast<std::byte*>(
      base::align_up(reinterpret_cast<std::uintptr_t>(begin), alignment));
  const std::uint64_t before = static_cast<std::uint64_t>(aligned - begin);
  if (before > 0) ::munmap(begin, before);
  if (alignment > before) ::munmap(aligned + bytes, alignment - before);
  return Mapping(aligned, bytes);
}

Result<void> map_at(std::byte* at, const OpenPart& part, std::uint64_t offset, std::uint64_t bytes,
                    Access access) {
  const auto map = [&](int flags) {
    return ::mmap(at, bytes, protection(access), flags | MAP_FIXED, part.fd.get(),
                  static_cast<off_t>(offset));
  };
  // On a file system that maps its device, flushed data stay, also in a file that grows.
  void* got = part.device ? MAP_FAILED : map(MAP_SHARED_VALIDATE | MAP_SYNC);
  if (got == MAP_FAILED) got = map(MAP_SHARED);
  if (got == MAP_FAILED) return map_error(part, offset, bytes, errno);
  return {};
}

}  // namespace

Mapping::~Mapping() {
  if (base_ != nullptr) ::munmap(base_, bytes_);
}

Result<Mapping> map_header(const OpenPart& part, Access access) {
  const std::uint64_t bytes = std::max(page_bytes, part.alignment);
  void* at = ::mmap(nullptr, bytes, protection(access), MAP_SHARED, part.fd.get(), 0);
  if (at == MAP_FAILED) return map_error(part, 0, bytes, errno);
  return Mapping(static_cast<std::byte*>(at), bytes);
}

Result<Mapping> map_pool(const std::vector<OpenPart>& parts, const Superblock& superblock,
                         Access access) {
  std::uint64_t alignment = huge_page_bytes;
  for (const OpenPart& part : parts) alignment = std::max(alignment, part.alignment);
  auto mapping = reserve_addresses(parts.front(), superblock.bytes, alignment);
  if (!mapping) return mapping;

  const std::uint64_t count = parts.size();
  const std::uint64_t data_bytes = superblock.bytes / count;
  std::byte* at = mapping->base();
  for (std::uint64_t done = 0; done < data_bytes;) {
    // the last row of stripes may be shorter
    const std::uint64_t stripe = std::min(superblock.stripe_bytes, data_bytes - done);
    for (const OpenPart& part : parts) {
      PENSTOCK_TRY(map_at(at, part, superblock.data_offset + done, stripe, access));
      at += stripe;
    }
    done += stripe;
  }
  // only a hint: not every file system has huge pages
  ::madvise(mapping->base(), superblock.bytes, MADV_HUGEPAGE);
  return mapping;
}

std::uint64_t stripe_bytes_for(std::uint64_t part_data_bytes, std::uint32_t parts,
                               std::uint64_t unit) {
  const std::uint64_t rows = max_mappings / parts;
  return base::align_up((part_data_bytes + rows - 1) / rows, unit);
}

}  // namespace penstock::device

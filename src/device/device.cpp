#include "device/device.hpp"

#include <sys/mman.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>

#include "base/env.hpp"
#include "base/format.hpp"
#include "base/unique_fd.hpp"
#include "device/part.hpp"
#include "device/pool_file.hpp"

namespace penstock::device {

namespace {

Result<void> check_mode(const Superblock& superblock, const OpenOptions& options) {
  const auto mode = static_cast<coherence::Mode>(superblock.mode);
  if (!options.mode || *options.mode == mode) return {};
  return fail(ErrorCode::mismatch,
              "pool {} is in {} mode, {} mode was asked for; unset PENSTOCK_MODE, or recreate it: "
              "penstock pool create {} --mode {} --overwrite",
              options.spec, coherence::mode_name(mode), coherence::mode_name(*options.mode),
              base::shell_quote(options.spec), coherence::mode_name(*options.mode));
}

}  // namespace

Result<Device> Device::open(const OpenOptions& options, LayOut lay_out) {
  const Access access = options.read_only ? Access::read : Access::write;
  auto parts = PENSTOCK_TRY(open_parts(options.spec, access));
  if (!options.read_only) {
    PENSTOCK_TRY(check_owners(parts, options.spec));
  }
  Device device;
  device.spec_ = options.spec;
  device.superblock_ = PENSTOCK_TRY(check_superblocks(parts, options.spec, lay_out));
  PENSTOCK_TRY(check_mode(device.superblock_, options));
  const auto mode = static_cast<coherence::Mode>(device.superblock_.mode);
  if (mode != coherence::Mode::simulated) {
    PENSTOCK_TRY(coherence::bind(mode, options.flush));
  }
  device.mapping_ = PENSTOCK_TRY(map_pool(parts, device.superblock_, access));
  device.view_ = PENSTOCK_TRY(coherence::view(mode,
                                              {.base = device.mapping_.base(),
                                               .bytes = device.mapping_.bytes(),
                                               .path = parts.front().part.path,
                                               .pool_id = device.superblock_.pool_id,
                                               .node = options.node,
                                               .observer = options.read_only},
                                              options.flush));

  auto for_locks = base::reopened(parts.front().fd);
  if (for_locks.get() < 0)
    return fail(ErrorCode::unavailable, "pool {} cannot be opened once more, by /proc/self/fd: {}",
                options.spec, std::strerror(errno));
  device.lock_file_ = base::ProcessFd(for_locks.release());
  device.file_ = pool_file_of(parts);
  device.owner_ = owner_of(parts.front());
  device.durability_ = durability_of(parts, mode);
  if (!options.read_only)
    device.growth_ = Growth::of(parts, device.superblock_, options.spec);  // takes the descriptors
  return device;
}

Result<void> Device::reserve(std::uint64_t offset, std::uint64_t bytes) const {
  if (!growth_.grows() || !origin_.here()) return {};
  return growth_.reserve(offset, bytes);
}

std::uint64_t Device::give_back(std::uint64_t offset, std::uint64_t bytes) const {
  if (!growth_.grows() || !origin_.here()) return 0;
  return growth_.give_back(offset, bytes);
}

Result<void> Device::sync(std::uint64_t offset, std::uint64_t bytes) const {
  if (durability_ != Durability::file || bytes == 0) return {};
  const std::uint64_t first = offset / page_bytes * page_bytes;
  const std::uint64_t end = std::min(offset + bytes, mapping_.bytes());
  if (::msync(view_.base + first, end - first, MS_SYNC) == 0) return {};
  return fail(ErrorCode::unavailable,
              "{} of pool {} could not be written to its file system: {}; see the kernel log: "
              "dmesg",
              base::format_bytes(bytes), spec_, std::strerror(errno));
}

}  // namespace penstock::device

#include "offload/region.hpp"

#include <vector>

#include "base/checked.hpp"
#include "base/format.hpp"
#include "pool/checksummed_line.hpp"

namespace penstock::offload {

namespace {

constexpr std::uint64_t description_magic = 0x6e6f696765525350;  // "PSRegion"
constexpr std::uint32_t member_magic = 0x6d4d5350;               // "PSMm"
constexpr std::uint32_t max_ranks = 1u << 16;
constexpr std::uint64_t max_slot_bytes = 1ull << 30;

struct DescriptionLine {
  std::uint64_t magic;
  std::uint32_t version, ranks;
  std::uint32_t leaves, window;
  std::uint64_t slot_bytes;
  std::uint32_t communicator, reserved;
  std::uint64_t owner;
  std::uint64_t more;
  std::uint64_t checksum;
};
static_assert(sizeof(DescriptionLine) == coherence::line_bytes);

struct MemberLine {
  std::uint32_t magic, version;
  std::uint32_t communicator, leaf;
  std::uint64_t token;
  std::uint64_t more[4];
  std::uint64_t checksum;
};
static_assert(sizeof(MemberLine) == coherence::line_bytes);

}  // namespace

Result<void> check(const Shape& shape) {
  const bool sane = shape.ranks >= 1 && shape.ranks < max_ranks && shape.leaves <= max_leaves &&
                    shape.window >= 1 && shape.window < ring_lines && shape.slot_bytes > 0 &&
                    shape.slot_bytes <= max_slot_bytes &&
                    shape.slot_bytes % coherence::line_bytes == 0;
  if (sane) return {};
  return fail(ErrorCode::wrong_format,
              "a region of {} ranks, {} leaves, {} slots of {} bytes: 1 to {} ranks, at most {} "
              "leaves, 1 to {} slots of whole lines, 1 GiB at most, are needed",
              shape.ranks, shape.leaves, shape.window, shape.slot_bytes, max_ranks - 1, max_leaves,
              ring_lines - 1);
}

void describe(const pool::Pool& pool, const Region& region) {
  const Shape& shape = region.shape();
  const std::vector<std::byte> zeros(region.zeroed_bytes());
  pool.memory().publish_bulk(pool.base() + region.offset(), zeros.data(), zeros.size());
  const DescriptionLine line{.magic = description_magic,
                             .version = protocol_version,
                             .ranks = shape.ranks,
                             .leaves = shape.leaves,
                             .window = shape.window,
                             .slot_bytes = shape.slot_bytes,
                             .communicator = shape.communicator,
                             .owner = shape.owner};
  pool::publish_checksummed_line(pool.memory(), pool.base(), region.offset(), line);
  pool.memory().full_fence();
}

Result<Region> find_region(const pool::Pool& pool, std::uint64_t offset) {
  const std::uint64_t all = pool.bytes();
  if (offset % coherence::line_bytes != 0 ||
      !base::range_inside(offset, coherence::line_bytes, all))
    return fail(ErrorCode::wrong_format, "a region at offset {} of a pool of {} bytes", offset,
                all);
  const auto line =
      pool::observe_checksummed_line<DescriptionLine>(pool.memory(), pool.base(), offset);
  if (!line || line->magic != description_magic)
    return fail(ErrorCode::wrong_format, "no region is described at offset {}", offset);
  if (line->version != protocol_version)
    return fail(ErrorCode::mismatch,
                "the region at offset {} is of version {}; this Penstock knows version {}", offset,
                line->version, protocol_version);
  const Region region(offset, {.ranks = line->ranks,
                               .leaves = line->leaves,
                               .window = line->window,
                               .slot_bytes = line->slot_bytes,
                               .communicator = line->communicator,
                               .owner = line->owner});
  PENSTOCK_TRY(check(region.shape()));
  if (!base::range_inside(offset, region.bytes(), all))
    return fail(ErrorCode::wrong_format,
                "the region at offset {} has {} bytes, and the pool has {}", offset, region.bytes(),
                all);
  return region;
}

void publish_member(const pool::Pool& pool, const Region& region, std::uint64_t at,
                    const Member& member) {
  const MemberLine line{.magic = member_magic,
                        .version = protocol_version,
                        .communicator = region.shape().communicator,
                        .leaf = member.leaf,
                        .token = member.token};
  pool::publish_checksummed_line(pool.memory(), pool.base(), at, line);
}

std::optional<Member> observe_member(const pool::Pool& pool, const Region& region,
                                     std::uint64_t at) {
  MemberLine line;
  pool.memory().observe_line(&line, pool.base() + at);
  if (line.magic != member_magic || line.version != protocol_version ||
      line.communicator != region.shape().communicator ||
      line.checksum != pool::line_checksum(&line, at))
    return std::nullopt;
  if (region.shape().leaves != 0 && line.leaf >= region.shape().leaves) return std::nullopt;
  return Member{line.token, line.leaf};
}

}  // namespace penstock::offload

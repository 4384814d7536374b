#include "coll/memory_needed.hpp"

#include "base/checked.hpp"
#include "base/format.hpp"
#include "coll/layout.hpp"
#include "coll/slots.hpp"

namespace penstock::coll {

namespace {

Result<void> check(const Shape& shape) {
  if (shape.devices == 0 || (shape.devices > 1 && shape.area_slots == 0))
    return fail(ErrorCode::invalid_argument,
                "slots on {} devices, {} to an area: both count from 1", shape.devices,
                shape.area_slots);
  const bool fits = shape.slots >= 4 && shape.slots <= call_word && shape.slot_bytes > 0 &&
                    shape.slot_bytes % line_bytes == 0 && shape.eager_blocks >= 4 &&
                    shape.eager_bytes > 0 && shape.eager_bytes % coherence::tagged_bytes == 0 &&
                    shape.eager_bytes / coherence::tagged_bytes < max_eager_lines;
  if (fits) return {};
  return fail(ErrorCode::invalid_argument,
              "a communicator of {} slots of {} bytes and {} eager blocks of {} bytes: 4 to {} "
              "slots of whole lines, and at least 4 blocks of whole lines of 56 bytes are needed",
              shape.slots, shape.slot_bytes, shape.eager_blocks, shape.eager_bytes, call_word);
}

/// Checks that there are as many areas as the shape needs, and that each lies in the pool.
Result<void> check_areas(const Options& options, std::uint32_t ranks, std::uint64_t pool_bytes) {
  const Shape& shape = options.shape;
  const auto areas = Communicator::slot_areas(ranks, shape);
  if (areas.size() != options.slot_areas.size())
    return fail(ErrorCode::invalid_argument, "{} areas for slots; {} are needed on {} devices",
                options.slot_areas.size(), areas.size(), shape.devices);
  for (std::size_t i = 0; i < areas.size(); ++i) {
    const std::uint64_t at = options.slot_areas[i];
    if (at % line_bytes == 0 && base::range_inside(at, areas[i].bytes, pool_bytes)) continue;
    return fail(ErrorCode::invalid_argument,
                "slots need {} bytes at offset {}, on a line, and the pool has {}", areas[i].bytes,
                at, pool_bytes);
  }
  return {};
}

}  // namespace

Result<void> check_memory(const Options& options, std::uint64_t pool_bytes) {
  PENSTOCK_TRY(check(options.shape));
  const auto ranks = static_cast<std::uint32_t>(options.tokens.size());
  const std::uint64_t needed = Communicator::bytes(ranks, options.shape);
  if (options.area % line_bytes != 0 || !base::range_inside(options.area, needed, pool_bytes))
    return fail(ErrorCode::invalid_argument,
                "a {} of {} ranks needs {} bytes at offset {}, and the pool has {}", options.noun,
                ranks, needed, options.area, pool_bytes);
  return check_areas(options, ranks, pool_bytes);
}

std::uint64_t Communicator::bytes(std::uint32_t ranks, const Shape& shape) {
  return Layout(ranks, shape).slots_begin() + Slots::bytes_behind_words(ranks, shape);
}

std::vector<SlotArea> Communicator::slot_areas(std::uint32_t ranks, const Shape& shape) {
  return Slots::areas(ranks, shape);
}

std::uint64_t Communicator::zeroed_bytes(std::uint32_t ranks, const Shape& shape) {
  return Layout(ranks, shape).zeroed_bytes();
}

}  // namespace penstock::coll

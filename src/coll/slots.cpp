#include "coll/slots.hpp"

#include <algorithm>

#include "schedule/node_map.hpp"

namespace penstock::coll {

namespace {

Placing placing_of(std::uint32_t ranks, const Shape& shape) {
  return {ranks, shape.devices, shape.slots, shape.sequential};
}

}  // namespace

std::uint64_t Slots::count(std::uint32_t ranks, const Shape& shape) {
  const Placing placing = placing_of(ranks, shape);
  std::uint64_t slots = 0;
  for (std::uint32_t device = 0; device < shape.devices; ++device)
    slots += placing.slots_on(device);
  return slots;
}

std::uint64_t Slots::bytes_behind_words(std::uint32_t ranks, const Shape& shape) {
  return shape.devices > 1 || shape.late_slots
             ? 0
             : placing_of(ranks, shape).slots_on(0) * shape.slot_bytes;
}

std::vector<SlotArea> Slots::areas(std::uint32_t ranks, const Shape& shape) {
  std::vector<SlotArea> areas;
  if (shape.devices == 1) return areas;
  const Placing placing = placing_of(ranks, shape);
  for (std::uint32_t device = 0; device < shape.devices; ++device) {
    for (std::uint64_t left = placing.slots_on(device); left != 0;) {
      const std::uint64_t here = std::min<std::uint64_t>(left, shape.area_slots);
      areas.push_back({device, here * shape.slot_bytes});
      left -= here;
    }
  }
  return areas;
}

Slots::Slots(std::byte* pool, std::uint64_t behind_words, std::uint32_t ranks,
             const Options& options)
    : placing_(placing_of(ranks, options.shape)),
      ranks_(ranks),
      slots_(options.shape.slots),
      slot_bytes_(options.shape.slot_bytes),
      area_slots_(options.shape.area_slots) {
  if (options.shape.late_slots) return;
  if (options.shape.devices == 1) {
    areas_.push_back(pool + behind_words);
    return;
  }
  if (options.nodes.size() == ranks) places_ = NodeMap(options.nodes).places_across();
  for (const std::uint64_t offset : options.slot_areas) areas_.push_back(pool + offset);
  first_area_.resize(options.shape.devices);
  std::size_t begun = 0;
  const auto areas = Slots::areas(ranks, options.shape);
  for (std::size_t i = 0; i < areas.size(); ++i) {
    for (; begun <= areas[i].device; ++begun) first_area_[begun] = i;
  }
}

/// May use a slot several times.
template <class Use>
void Slots::for_each_of(std::uint32_t rank, const Use& use) const {
  for (std::uint32_t used = 1; used <= std::max<std::size_t>(first_area_.size(), 1); ++used) {
    const std::uint64_t chunks = (slots_ + used - 1) / used * used;  // as many on each device
    for (std::uint64_t half = 0; has(used) && half < halves; ++half) {
      for (std::uint64_t chunk = 0; chunk < chunks; ++chunk) use(at(used, rank, half, chunk));
    }
  }
}

void Slots::invalidate_slots_of(const coherence::Memory& memory, std::uint32_t rank) const {
  for_each_of(rank, [&](std::byte* slot) { memory.invalidate(slot, slot_bytes()); });
}

void Slots::write_back_slots_of(const coherence::Memory& memory, std::uint32_t rank) const {
  if (!memory.loads_may_be_stale()) return;
  for_each_of(rank, [&](std::byte* slot) { memory.write_back(slot, slot_bytes()); });
  memory.store_fence();
}

}  // namespace penstock::coll

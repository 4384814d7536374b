// The memory of a communicator's slots: after its words, in areas on several devices, or in an area
// that comes late (late_slots.hpp).
#pragma once

#include <cstddef>
#include <vector>

#include "coll/communicator.hpp"
#include "schedule/placement.hpp"

namespace penstock::coll {

class Slots {
 public:
  /// `behind_words`: where the slots begin with one device.
  Slots(std::byte* pool, std::uint64_t behind_words, std::uint32_t ranks, const Options& options);

  /// `used`: devices over which the call's chunks alternate.
  std::byte* at(std::uint32_t used, std::uint64_t rank, std::uint64_t collective,
                std::uint64_t chunk) const {
    const std::uint64_t half = collective % halves;
    if (first_area_.empty())  // one device
      return areas_[0] + ((rank * halves + half) * slots_ + chunk % slots_) * slot_bytes_;
    const Place place = placing_.place_of(place_of(rank), half, chunk, used);
    return areas_[first_area_[place.device] + place.slot / area_slots_] +
           place.slot % area_slots_ * slot_bytes_;
  }
  /// False until late slots are allocated.
  bool are_there() const { return !areas_.empty(); }
  /// May be called by any thread.
  std::uint64_t slot_bytes() const { return __atomic_load_n(&slot_bytes_, __ATOMIC_RELAXED); }
  /// Sets the address of slots that come late.
  void set_area(std::byte* area, std::uint64_t slot_bytes) {
    areas_ = {area};
    __atomic_store_n(&slot_bytes_, slot_bytes, __ATOMIC_RELAXED);
  }
  /// Invalidates all slots of `rank`. The caller does the fence.
  void invalidate_slots_of(const coherence::Memory& memory, std::uint32_t rank) const;
  /// Writes all slots of `rank` back, where other nodes need that, with a store fence.
  void write_back_slots_of(const coherence::Memory& memory, std::uint32_t rank) const;
  bool has(std::uint32_t used) const { return placing_.has(used); }
  std::uint32_t device_of(std::uint32_t used, std::uint64_t rank, std::uint64_t chunk) const {
    return coll::device_of(place_of(rank), ranks_, chunk, used);
  }

  /// The number of slots on all devices.
  static std::uint64_t count(std::uint32_t ranks, const Shape& shape);
  static std::uint64_t bytes_behind_words(std::uint32_t ranks, const Shape& shape);
  static std::vector<SlotArea> areas(std::uint32_t ranks, const Shape& shape);

 private:
  template <class Use>
  void for_each_of(std::uint32_t rank, const Use& use) const;
  std::uint64_t place_of(std::uint64_t rank) const {
    return places_.empty() ? rank : places_[rank];
  }

  Placing placing_;
  std::uint32_t ranks_;
  std::vector<std::uint32_t> places_;  ///< NodeMap::places_across, for several devices
  std::uint64_t slots_, slot_bytes_, area_slots_;
  std::vector<std::byte*> areas_;
  std::vector<std::size_t> first_area_;  ///< by device; empty: the slots follow the words
};

}  // namespace penstock::coll

// Which devices of the pool a call uses, on which of them a chunk lies, and in which slot there: by
// index alone, the same on all ranks. Source: CCCL, equations 1 to 4, as corrected and completed on
// the design page papers/4-collectives.md, 4.4. In words: docs/protocols/collectives.md.
#pragma once

#include <algorithm>
#include <cstdint>

#include "coll/problem.hpp"

namespace penstock::coll {

/// Consecutive collectives use different halves of a rank's slots.
inline constexpr std::uint32_t halves = 2;

/// Of `devices`, those that the chunks of a call go round: the first ones, as many as serve it
/// best. The same on all ranks. The variant naive: 1.
std::uint32_t devices_for(const Problem& problem, Variant variant, std::uint32_t devices);

/// Where a chunk of a rank lies if the chunks go round `used` devices. Ranks begin apart from each
/// other.
constexpr std::uint32_t device_of(std::uint64_t rank, std::uint32_t ranks, std::uint64_t chunk,
                                  std::uint32_t used) {
  return static_cast<std::uint32_t>((rank * used / ranks + chunk) % used);
}

/// Slot `slot` of those on `device`.
struct Place {
  std::uint32_t device = 0;
  std::uint64_t slot = 0;
  bool operator==(const Place&) const = default;
};

/// The slots of all ranks on all devices. Each half of a rank has its own on every device, enough
/// for calls that go round any number of devices from two on.
class Placing {
 public:
  /// `at_once`: chunks of a rank in flight. `sequential`: all of them fit on device 0.
  Placing(std::uint32_t ranks, std::uint32_t devices, std::uint32_t at_once, bool sequential)
      : ranks_(ranks),
        devices_(devices),
        at_once_(at_once),
        fewest_(sequential || devices == 1 ? 1 : 2) {}

  /// Whether there are slots for calls that go round so many devices.
  bool has(std::uint32_t used) const { return used >= fewest_ && used <= devices_; }
  /// Where chunk `chunk` lies. At least `at_once` chunks that follow each other lie apart.
  Place place_of(std::uint64_t rank, std::uint64_t half, std::uint64_t chunk,
                 std::uint32_t used) const {
    const std::uint32_t device = device_of(rank, ranks_, chunk, used);
    const std::uint64_t turn = chunk / used % turns(used);
    return {device, (rank * halves + half) * turns_on(device) + turn};
  }
  std::uint64_t slots_on(std::uint32_t device) const {
    return std::uint64_t{ranks_} * halves * turns_on(device);
  }

 private:
  /// Slots of a half on each device if chunks go round `used` of them.
  std::uint32_t turns(std::uint32_t used) const { return (at_once_ + used - 1) / used; }
  /// Calls that go round the fewest devices, this one included, need the most there.
  std::uint32_t turns_on(std::uint32_t device) const {
    return turns(std::max(fewest_, device + 1));
  }

  std::uint32_t ranks_, devices_, at_once_, fewest_;
};

}  // namespace penstock::coll

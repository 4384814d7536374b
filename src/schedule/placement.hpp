// The devices of the pool that a call uses, and the device and slot of each chunk. All follow from
// indexes alone, so they are the same on all ranks. Source: CCCL, equations 1 to 4, corrected and
// completed: docs/protocols/collectives.md, "Placement".
#pragma once

#include <algorithm>
#include <cstdint>

#include "schedule/problem.hpp"

namespace penstock::coll {

/// Consecutive collectives use different halves of a rank's slots.
inline constexpr std::uint32_t halves = 2;

/// The number of devices, from the first of `devices` on, over which a call spreads its chunks: as
/// many as serve it best. The same on all ranks. The variant naive uses 1.
std::uint32_t devices_for(const Problem& problem, Variant variant, std::uint32_t devices);

/// The device of a chunk of a rank when chunks alternate over `used` devices. The ranks start on
/// different devices.
constexpr std::uint32_t device_of(std::uint64_t rank, std::uint32_t ranks, std::uint64_t chunk,
                                  std::uint32_t used) {
  return static_cast<std::uint32_t>((rank * used / ranks + chunk) % used);
}

/// Slot `slot` on device `device`.
struct Place {
  std::uint32_t device = 0;
  std::uint64_t slot = 0;
  bool operator==(const Place&) const = default;
};

/// The slots of all ranks on all devices. Each half of a rank has its own slots on every device,
/// enough for calls over any number of devices from two on.
class Placing {
 public:
  /// `at_once`: chunks of a rank in flight. `sequential`: all of them fit on device 0.
  Placing(std::uint32_t ranks, std::uint32_t devices, std::uint32_t at_once, bool sequential)
      : ranks_(ranks),
        devices_(devices),
        at_once_(at_once),
        fewest_(sequential || devices == 1 ? 1 : 2) {}

  /// Whether there are slots for calls over this many devices.
  bool has(std::uint32_t used) const { return used >= fewest_ && used <= devices_; }
  /// The place of chunk `chunk`. Any `at_once` consecutive chunks have different places.
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
  /// Slots of a half on each device, if chunks alternate over `used` devices.
  std::uint32_t turns(std::uint32_t used) const { return (at_once_ + used - 1) / used; }
  /// Of the calls that use this device, those over the fewest devices need the most slots there.
  std::uint32_t turns_on(std::uint32_t device) const {
    return turns(std::max(fewest_, device + 1));
  }

  std::uint32_t ranks_, devices_, at_once_, fewest_;
};

}  // namespace penstock::coll

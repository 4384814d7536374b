// Which device of the pool a chunk lies on, and in which slot there: by index alone, the same on
// all ranks, without a table that grows. Source: CCCL, equations 1 to 4, as corrected and completed
// on the design page papers/4-collectives.md, 4.4. In words: docs/protocols/collectives.md.
#pragma once

#include <algorithm>
#include <bit>
#include <cstdint>

#include "coll/problem.hpp"

namespace penstock::coll {

/// Consecutive collectives use different halves of a rank's slots.
inline constexpr std::uint32_t halves = 2;

enum class Placement : std::uint8_t {
  wide,       ///< a rank's chunks go round all devices (type 1: one writer or one reader)
  own,        ///< they stay on devices that few others write to (type 2: all write, all read)
  sequential  ///< all ranks' one after the other on device 0, as CCCL's "naive"
};

/// Of a collective under a plan.
Placement placement_of(Collective collective, Variant variant);

/// The device that a rank begins with. N ranks, ND devices: rank * ND / N, rounded down.
constexpr std::uint32_t first_device(std::uint64_t rank, std::uint32_t ranks,
                                     std::uint32_t devices) {
  return static_cast<std::uint32_t>(rank * devices / ranks);
}

/// Where a chunk lies: slot `slot` of those that a placement has on `device`.
struct Place {
  std::uint32_t device = 0;
  std::uint64_t slot = 0;
  bool operator==(const Place&) const = default;
};

/// One placement of the chunks of all ranks. It uses the number of devices that serves it best:
/// where all ranks write and read, a number at which ranks that advance together do not meet on a
/// device. Each half of a rank has slots() slots, at least as many as there are chunks in flight;
/// chunk n takes slot n mod slots().
class Placing {
 public:
  Placing(Placement kind, std::uint32_t ranks, std::uint32_t devices, std::uint32_t at_once)
      : kind_(devices == 1 || (kind == Placement::own && ranks == 1) ? Placement::wide : kind),
        ranks_(ranks),
        devices_(devices) {
    if (kind_ == Placement::wide) go_round(rounded(devices));
    if (kind_ == Placement::own) choose_devices(devices);
    if (kind_ == Placement::wide) span_ = devices_;
    if (kind_ == Placement::own) span_ = std::max(1u, devices_ / ranks);
    each_ = (at_once + span_ - 1) / span_;
  }

  /// Devices that a rank's chunks go round.
  std::uint32_t span() const { return span_; }
  std::uint64_t slots() const { return std::uint64_t{span_} * each_; }

  std::uint32_t device_of(std::uint64_t rank, std::uint64_t chunk) const {
    if (kind_ == Placement::sequential) return 0;
    const std::uint64_t first =
        kind_ == Placement::wide ? rank % devices_ : first_device(rank, ranks_, devices_);
    const std::uint64_t device = first + chunk % span_;
    return static_cast<std::uint32_t>(device < devices_ ? device : device - devices_);
  }
  Place place_of(std::uint64_t rank, std::uint64_t half, std::uint64_t chunk) const {
    const std::uint32_t device = device_of(rank, chunk);
    const std::uint64_t region = (rank - first_rank_on(device)) * halves + half;
    return {device, region * each_ + chunk % slots() / span_};
  }
  std::uint64_t slots_on(std::uint32_t device) const { return ranks_on(device) * halves * each_; }
  /// Two placements that are the same share their slots.
  bool operator==(const Placing&) const = default;

 private:
  /// The greatest number of devices on which each has equally many ranks, or each rank 1, 2, 4, ...
  /// devices.
  static constexpr std::uint32_t even_devices(std::uint32_t ranks, std::uint32_t devices) {
    if (devices >= ranks) return ranks * std::bit_floor(devices / ranks);
    while (ranks % devices != 0) --devices;
    return devices;
  }
  /// A range of devices for each rank loads all devices alike only if their number fits the ranks.
  /// If ranks that go round can use twice as many devices, they go round, each beginning on the
  /// next one.
  void choose_devices(std::uint32_t devices) {
    devices_ = even_devices(ranks_, devices);
    if (2 * devices_ > std::bit_floor(devices)) return;
    go_round(std::bit_floor(devices));
  }
  void go_round(std::uint32_t devices) {
    kind_ = Placement::wide;
    devices_ = devices;
  }
  /// The greatest of 1, 2, 3, 4, 6, 8, 12, ... that is not more: on 5 devices a reader meets the
  /// writers again and again.
  static constexpr std::uint32_t rounded(std::uint32_t devices) {
    const std::uint32_t half = std::bit_floor(devices);
    return 2 * devices >= 3 * half && half > 1 ? half / 2 * 3 : half;
  }
  /// The ranks whose chunks lie on a device: consecutive ones.
  std::uint64_t first_rank_on(std::uint64_t device) const {
    if (kind_ != Placement::own) return 0;
    return span_ > 1 ? device / span_ : device * ranks_on(device);
  }
  std::uint64_t ranks_on(std::uint64_t device) const {
    if (device >= devices_) return 0;
    if (kind_ == Placement::own) return std::max(1u, ranks_ / devices_);
    return kind_ == Placement::wide || device == 0 ? ranks_ : 0;
  }

  Placement kind_;
  std::uint32_t ranks_, devices_;  ///< devices that are used
  std::uint32_t span_ = 1;         ///< of devices
  std::uint32_t each_ = 1;         ///< slots of a half on each device
};

/// All placements of a communicator. Those that are the same share their slots.
class Placings {
 public:
  Placings(std::uint32_t ranks, std::uint32_t devices, std::uint32_t at_once, bool sequential)
      : wide_(Placement::wide, ranks, devices, at_once),
        own_(Placement::own, ranks, devices, at_once),
        sequential_(Placement::sequential, ranks, devices, at_once),
        has_own_(own_ != wide_),
        has_sequential_(sequential && sequential_ != wide_) {}

  Place place_of(Placement kind, std::uint64_t rank, std::uint64_t half,
                 std::uint64_t chunk) const {
    if (kind == Placement::own && has_own_) {
      Place place = own_.place_of(rank, half, chunk);
      place.slot += wide_.slots_on(place.device);
      return place;
    }
    if (kind == Placement::sequential && has_sequential_) {
      Place place = sequential_.place_of(rank, half, chunk);
      place.slot += wide_.slots_on(0) + (has_own_ ? own_.slots_on(0) : 0);
      return place;
    }
    return wide_.place_of(rank, half, chunk);
  }
  std::uint64_t slots_on(std::uint32_t device) const {
    return wide_.slots_on(device) + (has_own_ ? own_.slots_on(device) : 0) +
           (has_sequential_ ? sequential_.slots_on(device) : 0);
  }
  /// Whether the placement has slots of its own, or is the same as one that has.
  bool has(Placement kind) const {
    return kind != Placement::sequential || has_sequential_ || sequential_ == wide_;
  }

 private:
  Placing wide_, own_, sequential_;
  bool has_own_, has_sequential_;
};

}  // namespace penstock::coll

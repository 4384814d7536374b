// The ranges of other segments that this rank accesses, and the requests for them (exposure.hpp).
// Ranges that are not accessed for a while are returned, so that their owner need not cover them at
// each epoch.
#pragma once

#include <memory>
#include <vector>

#include "window/exposure.hpp"

namespace penstock::window {

class AccessRanges {
 public:
  AccessRanges(Context& context, Directory& directory, Signals& signals);

  /// Makes sure that this rank may put to and get from [from, to) of the target's segment: in any
  /// epoch if `by_lock`, otherwise in epochs in which the target takes part. Waits for the target
  /// if the range is new. Errors: peer_dead.
  Result<void> ensure(std::uint32_t target, std::uint64_t from, std::uint64_t to, bool by_lock) {
    if (closed_.empty() || !closed_[target]) return {};
    Target& known = at(target);
    if (!known.knows(from, to, by_lock)) {
      if (auto asked = ask(target, from, to, by_lock); !asked) return asked;
    }
    if (!known.used.cover(from, to))
      known.used.include(from, to, context_.member(target).bytes, Ranges::Growth::exact);
    return {};
  }
  /// Call it after an epoch in which the target took part, with this rank's puts at the device.
  /// Returns ranges that were not accessed lately. Does not wait.
  void epoch_over(std::uint32_t target) {
    if (!targets_.empty() && targets_[target] != nullptr) review(target);
  }

 private:
  struct Target {
    bool by_lock = false;
    Ranges ranges;
    Ranges used;                      ///< accessed parts of these since the last review
    std::uint64_t covered_bytes = 0;  ///< bytes that the target covered since then, over all epochs
    std::uint64_t patience = 0;       ///< bytes between two reviews
    bool returned_ranges = false;     ///< since the last request
    std::uint32_t serial = 0;
    bool asking = false;  ///< a thread of this rank is sending a request

    bool knows(std::uint64_t from, std::uint64_t to, bool locked) const {
      return (by_lock || !locked) && ranges.cover(from, to);
    }
  };
  Target& at(std::uint32_t target) {
    if (targets_.empty() || targets_[target] == nullptr) [[unlikely]]
      make(target);
    return *targets_[target];
  }
  void make(std::uint32_t target);
  Result<void> ask(std::uint32_t target, std::uint64_t from, std::uint64_t to, bool by_lock);
  void review(std::uint32_t target);
  void publish_want(std::uint32_t target, const Ranges& ranges, bool by_lock);
  void ring(std::uint32_t target);

  Context& context_;
  Directory& directory_;
  Signals& signals_;
  std::vector<bool> closed_;  ///< by rank: needs requests; empty when all caches are coherent
  std::vector<std::unique_ptr<Target>> targets_;  ///< by rank: accessed ones that need requests
};

}  // namespace penstock::window

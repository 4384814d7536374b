// The ranges of other segments that this rank reaches, and the requests for them (exposure.hpp).
#pragma once

#include <vector>

#include "window/exposure.hpp"

namespace penstock::window {

class AccessRanges {
 public:
  AccessRanges(Context& context, Signals& signals);

  /// After it this rank may put to and get from [from, to) of the target's segment: in any epoch
  /// with `by_lock`, else in epochs in which the target takes part. Waits for the target if the
  /// range is new. Errors: peer_dead.
  Result<void> ensure(std::uint32_t target, std::uint64_t from, std::uint64_t to, bool by_lock) {
    if (targets_.empty()) return {};
    const Target& known = targets_[target];
    if (known.open || known.knows(from, to, by_lock)) return {};
    return ask(target, from, to, by_lock);
  }

 private:
  struct Target {
    bool open = true;  ///< the whole segment may be reached
    bool by_lock = false;
    Ranges ranges;
    std::uint32_t serial = 0;
    bool asking = false;  ///< a thread of this rank is asking

    bool knows(std::uint64_t from, std::uint64_t to, bool locked) const {
      return (by_lock || !locked) && ranges.cover(from, to);
    }
  };
  Result<void> ask(std::uint32_t target, std::uint64_t from, std::uint64_t to, bool by_lock);

  Context& context_;
  Signals& signals_;
  std::vector<Target> targets_;  ///< empty when all caches are coherent
};

}  // namespace penstock::window

// What this rank reaches of others' segments, and that they know of it (exposure.hpp).
#pragma once

#include <vector>

#include "window/exposure.hpp"

namespace penstock::window {

class AccessRanges {
 public:
  AccessRanges(Context& context, Signals& signals);

  /// After it [from, to) of the target's segment may be put to and got from, in any epoch, or in
  /// those in which the target takes part. Waits for the target when it was not so before. Errors:
  /// peer_dead.
  Result<void> ensure(std::uint32_t target, std::uint64_t from, std::uint64_t to, bool by_lock) {
    if (targets_.empty()) return {};
    const Target& known = targets_[target];
    if (known.open || known.knows(from, to, by_lock)) return {};
    return ask(target, from, to, by_lock);
  }

 private:
  struct Target {
    bool open = true;  ///< all of it
    bool by_lock = false;
    Ranges ranges;
    std::uint32_t serial = 0;
    bool asking = false;  ///< a thread is

    bool knows(std::uint64_t from, std::uint64_t to, bool locked) const {
      return (by_lock || !locked) && ranges.cover(from, to);
    }
  };
  Result<void> ask(std::uint32_t target, std::uint64_t from, std::uint64_t to, bool by_lock);

  Context& context_;
  Signals& signals_;
  std::vector<Target> targets_;  ///< none where no caches are apart
};

}  // namespace penstock::window

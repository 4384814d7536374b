// Slots that are allocated at the communicator's first call that needs them. Rank 0 allocates them
// and publishes where they lie, or why there are none. Protocol: docs/protocols/collectives.md,
// "Slots that come late".
#pragma once

#include <functional>
#include <optional>

#include "coll/state.hpp"

namespace penstock::coll {

class LateSlots {
 public:
  /// `take`: Options::take_slots.
  LateSlots(State& state, std::function<Result<TakenSlots>()> take)
      : s_(state), take_(std::move(take)) {}

  /// Returns true when the slots are known; does not wait. `missing`: rank 0, until it has
  /// published them. Errors: no_space, the same on all ranks; wrong_format; on rank 0 also those of
  /// the arena.
  Result<bool> obtain(const char* what, Missing& missing);
  /// The slots that rank 0 has published, if any. A device access.
  std::optional<TakenSlots> taken() const;

 private:
  struct Announcement;
  Result<Announcement> allocate_and_announce();
  std::optional<Announcement> look() const;
  Result<void> adopt(const char* what, const Announcement& announcement);

  State& s_;
  std::function<Result<TakenSlots>()> take_;
};

}  // namespace penstock::coll

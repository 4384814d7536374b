// A window's parts.
#pragma once

#include <optional>

#include "group/barrier.hpp"
#include "window/exposure.hpp"
#include "window/reach.hpp"

namespace penstock::window {

struct Window::Impl {
  explicit Impl(pool::Pool& pool, Options options);

  /// Errors: mismatch, when no epoch lets this rank reach the target; peer_dead.
  Result<void> enter(std::uint32_t target);
  Result<void> enter(std::uint32_t target, std::span<const Extent> extents);
  /// The range that covers all extents. Errors: invalid_argument (beyond the segment).
  Result<Range> within(std::uint32_t target, std::span<const Extent> extents) const;
  /// The lock of a target. A thread acquires it only in its turn.
  struct RankLock {
    std::optional<sync::Lock> lock;  ///< made when used
    bool taken = false;
  };
  RankLock& lock(std::vector<RankLock>& locks, std::uint32_t target, std::uint64_t place);
  RankLock& epoch_lock(std::uint32_t target) {
    return lock(epoch_locks, target, context.layout.epoch_lock(target));
  }
  RankLock& update_lock(std::uint32_t target) {
    return lock(update_locks, target, context.layout.update_lock(target));
  }
  Result<void> acquire(sync::Lock& lock, std::uint32_t target, sync::Hold hold, const char* what);
  /// Takes the target's epoch lock, unless another thread of this rank has (see `passive`).
  Result<void> acquire_epoch(std::uint32_t target, sync::Hold hold, const char* what);
  Result<void> release(std::uint32_t target);
  /// Ends the exposure epoch: all origins have completed.
  void end_exposure();
  void copy_in(std::uint32_t target, std::span<const Extent> extents, const void* from);
  void change(std::uint32_t target, std::span<const Extent> extents, std::uint64_t bytes,
              const Change& how);
  void copy_out(std::uint32_t target, std::span<const Extent> extents, void* to);

  /// How a target is locked for passive access.
  enum class Passive : std::uint8_t {
    none,
    unchecked,  ///< no_check: no lock is taken, since no other rank asks for it
    shared,
    exclusive
  };

  Context context;
  Signals signals;
  Exposure exposure;
  AccessRanges reach;
  group::Barrier barrier;
  std::vector<RankLock> epoch_locks, update_locks;  ///< by target

  /// Progress of leave().
  enum class Leaving : std::uint8_t { no, arrived, done } leaving = Leaving::no;
  bool fenced = false;                         ///< a fence has begun an epoch
  std::vector<std::uint32_t> posted, started;  ///< groups of the open epochs
  bool exposed = false, accessing = false;     ///< such an epoch is open, even with an empty group
  std::vector<bool> reachable;                 ///< by target: true if in `started`
  std::vector<Passive> passive;                ///< by target
  bool all_locked = false, all_unchecked = false;
  Missing missing;
  std::vector<std::byte> packed;
};

}  // namespace penstock::window

// A window's parts.
#pragma once

#include <unordered_map>

#include "group/barrier.hpp"
#include "window/exposure.hpp"
#include "window/lockers.hpp"
#include "window/reach.hpp"

namespace penstock::window {

struct Window::Impl {
  explicit Impl(pool::Pool& pool, Options options);

  /// Checks that an epoch allows accesses to the target. Errors: mismatch, peer_dead.
  Result<void> enter(std::uint32_t target);
  Result<void> enter(std::uint32_t target, std::span<const Extent> extents);
  /// The range that covers all extents. Errors: invalid_argument (beyond the segment).
  Result<Range> within(std::uint32_t target, std::span<const Extent> extents) const;
  /// Counts the operation for the totals of penstock run.
  static void count(std::span<const Extent> extents);
  SegmentLocks& locks_of(std::uint32_t target) {
    return locks.try_emplace(target, context, target).first->second;
  }
  Result<void> acquire(sync::OpenLock& lock, std::uint32_t target, sync::Hold hold,
                       const char* what);
  /// Acquires the target's epoch lock, unless another thread of this rank has it (see `passive`).
  Result<void> acquire_epoch(std::uint32_t target, sync::Hold hold, const char* what);
  Result<void> release(std::uint32_t target);
  /// Ends the exposure epoch after all origins have completed.
  void end_exposure();
  void copy_in(std::uint32_t target, std::span<const Extent> extents, const void* from);
  void change(std::uint32_t target, std::span<const Extent> extents, std::uint64_t bytes,
              const Change& how);
  void copy_out(std::uint32_t target, std::span<const Extent> extents, void* to);

  /// How a target is locked for passive access.
  enum class Passive : std::uint8_t {
    none,
    unchecked,  ///< no_check: no lock is acquired, since no other rank requests it
    shared,
    exclusive
  };

  Context context;
  Directory directory;
  Signals signals;
  Exposure exposure;
  AccessRanges reach;
  group::Barrier barrier;
  std::unordered_map<std::uint32_t, SegmentLocks> locks;  ///< by target; only those ever locked

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

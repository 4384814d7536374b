// Finds ranks that make different calls. A rank that has waited long publishes its call in its own
// line. Then it checks whether another rank is in a different call, or whether an awaited rank has
// gone on without it. If the user asks for the check, each rank publishes its call before it
// begins, and continues only when all ranks have published the same call. Then every rank waits for
// all others.
#pragma once

#include <atomic>
#include <optional>
#include <vector>

#include "coll/state.hpp"

namespace penstock::coll {

class CallCheck {
 public:
  CallCheck(State& state, bool wanted) : s_(state), wanted_(wanted) {}

  /// Whether all calls are compared before they begin.
  bool is_wanted() const { return wanted_; }
  /// Starts the check of collective State::number.
  void begin();
  /// A switch makes this call, so a rank may have finished while others still wait for it.
  void begin_in_switch() { in_switch_ = true; }
  /// If the check was asked for, returns true once all others have published the same call.
  /// `missing`: the ranks that have not begun it. Errors: mismatch, which names a rank and both
  /// calls.
  Result<bool> all_agree(const char* what, Missing& missing);
  /// Call this after a long wait for `missing`. Reads their lines, and those of a few other ranks.
  /// A device access. Errors: mismatch.
  Result<void> compare(const char* what, const Missing& missing);

  /// Call this if a call fails because another rank has died, left or given up. Describes a
  /// difference between the calls, which may be the cause. A device access.
  std::optional<Error> difference_of_failed(const char* what) const;

  /// Call this when this rank makes no more calls.
  void leave();
  /// Call this when all others have left. Describes a difference between the last calls, which no
  /// rank could notice because none needed another. A device access.
  std::optional<Error> difference_of_last(const char* what) const;

  /// Records a call that the ranks make by other means than the pool. `announces`: this rank has no
  /// call in progress or queued, so it can tell a rank that waits in the next one.
  void note_elsewhere(bool announces);

 private:
  std::optional<Error> another_call(const char* what, std::uint32_t rank, std::uint64_t word) const;
  std::optional<Error> finds_another(const char* what, std::uint32_t rank) const;
  std::optional<Error> difference_of(const char* what,
                                     const std::vector<std::uint32_t>& ranks) const;
  void add_some_others(std::vector<std::uint32_t>& ranks);
  void observe_words(const std::vector<std::uint32_t>& ranks) const;
  std::uint64_t later_call(std::uint32_t rank) const;
  bool has_gone_on(std::uint32_t rank);
  void announce(std::uint64_t word);

  State& s_;
  bool wanted_;
  bool in_switch_ = false;
  std::uint64_t announced_ = 0;
  Missing awaited_;
  std::uint32_t next_other_ = 0;
  /// Ranks that were seen in later calls while this rank was in this one.
  struct Ahead {
    std::uint32_t rank = 0;
    std::uint32_t announcements = 0;  ///< words that it has published since
    std::uint64_t call = 0;           ///< its last word
  };
  std::vector<Ahead> ahead_;
  std::atomic<std::uint64_t> elsewhere_{0};  ///< calls by other means
};

}  // namespace penstock::coll

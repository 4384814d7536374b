// Finds ranks that make different calls. A rank that waits in vain for long tells its call in its
// line, and looks whether a rank that it waits for is in another call, or has gone on without this
// one. Where it is asked for, each rank tells its call before it begins, and goes on when all have
// told the same: that makes all wait for all.
#pragma once

#include <atomic>
#include <optional>
#include <vector>

#include "coll/state.hpp"

namespace penstock::coll {

class CallCheck {
 public:
  CallCheck(State& state, bool wanted) : s_(state), wanted_(wanted) {}

  /// This rank begins collective State::number.
  void begin();
  /// A switch does it: a rank may have finished that others still wait for.
  void begin_in_switch() { in_switch_ = true; }
  /// Where it was asked for: true when all others have told of the same call. `missing`: those who
  /// have not come to it. Errors: mismatch, which names a rank and both calls.
  Result<bool> all_agree(const char* what, Missing& missing);
  /// This rank has waited for `missing` for long. Observes their lines. A device access. Errors:
  /// mismatch.
  Result<void> compare(const char* what, const Missing& missing);

  /// This rank makes no more calls.
  void leave();
  /// All others have left. A difference of the last calls, after which no rank has needed another:
  /// in words. A device access.
  std::optional<Error> difference_of_last(const char* what) const;

  /// A call of these ranks that is made by other means than the pool. `tell`: no call is in
  /// progress or queued here, so that a rank that waits in the next one can learn of it.
  void note_elsewhere(bool tell);

 private:
  std::optional<Error> another_call(const char* what, std::uint32_t rank, std::uint64_t word) const;
  std::optional<Error> finds_another(const char* what, std::uint32_t rank) const;
  std::uint64_t later_call(std::uint32_t rank) const;
  bool has_gone_on(std::uint32_t rank);
  void tell(std::uint64_t word);

  State& s_;
  bool wanted_;
  bool in_switch_ = false;
  std::uint64_t told_ = 0;
  Missing awaited_;
  /// Ranks that were seen in later calls while this rank was in this one.
  struct Ahead {
    std::uint32_t rank = 0;
    std::uint32_t told = 0;  ///< times since
    std::uint64_t call = 0;  ///< its word
  };
  std::vector<Ahead> ahead_;
  std::atomic<std::uint64_t> elsewhere_{0};  ///< calls by other means
};

}  // namespace penstock::coll

// Finds ranks that make different calls. A rank that has waited long publishes its call in its
// line. Then it looks whether another rank is in another call, or one that it waits for has gone on
// without it. If the user asks for the check, each rank publishes its call before it begins, and
// goes on when all have published the same. Then every rank waits for all others.
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
  /// This rank begins collective State::number.
  void begin();
  /// A switch makes this call, so a rank may have finished while others still wait for it.
  void begin_in_switch() { in_switch_ = true; }
  /// If the check was asked for: true when all others have published the same call. `missing`: the
  /// ranks that have not come to it. Errors: mismatch, which names a rank and both calls.
  Result<bool> all_agree(const char* what, Missing& missing);
  /// This rank has waited for `missing` for long. Observes their lines, and those of a few others.
  /// A device access. Errors: mismatch.
  Result<void> compare(const char* what, const Missing& missing);

  /// This rank's call fails because another has died, left or given up. Describes a difference of
  /// the calls, which may be why. A device access.
  std::optional<Error> difference_of_failed(const char* what) const;

  /// This rank makes no more calls.
  void leave();
  /// To be called when all others have left: describes a difference of the last calls, after which
  /// no rank has needed another. A device access.
  std::optional<Error> difference_of_last(const char* what) const;

  /// The ranks make a call by other means than the pool. `tell`: no call is in progress or queued
  /// here, so a rank that waits in the next one can be told.
  void note_elsewhere(bool tell);

 private:
  std::optional<Error> another_call(const char* what, std::uint32_t rank, std::uint64_t word) const;
  std::optional<Error> finds_another(const char* what, std::uint32_t rank) const;
  std::optional<Error> difference_of(const char* what,
                                     const std::vector<std::uint32_t>& ranks) const;
  void add_some_others(std::vector<std::uint32_t>& ranks);
  void observe_words(const std::vector<std::uint32_t>& ranks) const;
  std::uint64_t later_call(std::uint32_t rank) const;
  bool has_gone_on(std::uint32_t rank);
  void tell(std::uint64_t word);

  State& s_;
  bool wanted_;
  bool in_switch_ = false;
  std::uint64_t told_ = 0;
  Missing awaited_;
  std::uint32_t next_other_ = 0;
  /// Ranks that were seen in later calls while this rank was in this one.
  struct Ahead {
    std::uint32_t rank = 0;
    std::uint32_t told = 0;  ///< how often it has told since
    std::uint64_t call = 0;  ///< its word
  };
  std::vector<Ahead> ahead_;
  std::atomic<std::uint64_t> elsewhere_{0};  ///< calls by other means
};

}  // namespace penstock::coll

// Finds ranks that make different calls: each rank tells its call in its line before it begins, and
// goes on when all have told the same. Only where it is asked for: it makes all wait for all.
#pragma once

#include "coll/problem.hpp"
#include "coll/state.hpp"

namespace penstock::coll {

class CallCheck {
 public:
  CallCheck(State& state, bool wanted) : s_(state), wanted_(wanted) {}

  /// This rank begins collective State::number.
  void begin(const Problem& problem, bool eager, std::uint64_t fingerprint);
  /// True when all others have told of the same call. `missing`: those who have not come to it.
  /// Errors: mismatch, which names a rank and both calls.
  Result<bool> all_agree(const char* what, Missing& missing);

 private:
  Error differs(const char* what, std::uint32_t rank, std::uint64_t call) const;

  State& s_;
  bool wanted_;
  std::uint64_t own_ = 0;
  Missing awaited_;
};

}  // namespace penstock::coll

// From which call on all ranks go another way, agreed without a wait for a rank that is late: ranks
// whose calls have the same numbers on all of them, and which learn at different times that they
// could. Protocol: docs/protocols/collectives.md, "Switching from MPI to the pool".
#pragma once

#include <cstdint>

#include "coll/state.hpp"

namespace penstock::coll {

class Changeover {
 public:
  explicit Changeover(State& state) : s_(state) {}

  /// This rank can change from crossing `first` on; said once. Crossings are counted from 1.
  void offer(std::uint64_t first);
  /// This rank is at a crossing from `first` on, after which the number is never asked about again.
  /// The same on all ranks: whether all change here. Waits only for ranks that are in this very
  /// function.
  bool all_change(const char* what, std::uint64_t crossing);

 private:
  enum class Vote : std::uint8_t { undecided, no, yes };
  void publish_offer();
  void publish(std::uint64_t crossing, Vote vote);
  void invalidate_all() const;
  bool all_vote(std::uint64_t crossing) const;
  bool counts(std::uint32_t rank);
  bool look_at_votes(std::uint64_t crossing, Missing& missing);

  State& s_;
  Missing dead_;             ///< whose votes count for nothing
  std::uint64_t first_ = 0;  ///< that this rank has offered
};

}  // namespace penstock::coll

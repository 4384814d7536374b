// Agrees on the call from which all ranks use another path, without waiting for a late rank. All
// ranks number their calls in the same way, but learn at different times that they can change.
// Protocol: docs/protocols/collectives.md, "Switching from MPI to the pool".
#pragma once

#include <cstdint>

#include "coll/state.hpp"

namespace penstock::coll {

class Changeover {
 public:
  explicit Changeover(State& state) : s_(state) {}

  /// Offers to change from crossing `first` on, counted from 1. Call it once.
  void offer(std::uint64_t first);
  /// Call this at every crossing from `first` on, once for each number. Returns whether all ranks
  /// change here: the same on all. Waits only for ranks that are in this function too.
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
  Missing dead_;             ///< ranks whose votes do not count
  std::uint64_t first_ = 0;  ///< the first crossing that this rank has offered
};

}  // namespace penstock::coll

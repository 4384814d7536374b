// CCCL's study of 3, 6 and 12 nodes on six devices (section 4.3, Figure 10), and what the engine's
// own schedules make of it.
#pragma once

#include <string>
#include <vector>

#include "coll/problem.hpp"

namespace penstock::model {

/// The time of a collective on `nodes` nodes over that on 3.
struct Growth {
  coll::Collective collective = coll::Collective::allreduce;
  std::uint32_t nodes = 6;
  /// By CCCL's schedules, over the numbers of chunks that were modelled.
  double least = 0, greatest = 0;
  /// As the paper's prose has it: over the sizes of messages.
  double published_least = 0, published_greatest = 0;
  /// Of the engine's fastest schedule; and how many times as long CCCL's fastest one takes there.
  double engine = 0, gain = 0;
  std::string engine_how;
  /// Both ends lie within the published range, widened by a share of each end.
  bool within(double share) const {
    return least >= published_least * (1 - share) && greatest <= published_greatest * (1 + share);
  }
};

/// Allreduce, broadcast and alltoall on 6 and 12 nodes; bandwidth alone (platform cccl).
Result<std::vector<Growth>> published_growth();

}  // namespace penstock::model

// CCCL's study of 3, 6 and 12 nodes on six devices (section 4.3, Figure 10), compared with the
// engine's own schedules.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "schedule/problem.hpp"

namespace penstock::model {

/// The time of a collective on `nodes` nodes, divided by that on 3.
struct Growth {
  coll::Collective collective = coll::Collective::allreduce;
  std::uint32_t nodes = 6;
  /// For CCCL's schedules, over the modelled numbers of chunks, which were chosen to fit.
  double least = 0, greatest = 0;
  std::vector<std::uint32_t> chunks;
  /// As the paper's prose gives it, over the sizes of messages.
  double published_least = 0, published_greatest = 0;
  /// For the engine's fastest schedule; and the time of CCCL's fastest one divided by it.
  double engine = 0, gain = 0;
  std::string engine_how;
  /// Whether both ends lie within the published range, widened at each end by a share of it.
  bool within(double share) const {
    return least >= published_least * (1 - share) && greatest <= published_greatest * (1 + share);
  }
};

/// A caveat for readers of the comparison.
inline constexpr std::string_view chosen_to_fit =
    "CCCL does not say into how many chunks a buffer is cut, nor print in which order ranks read: "
    "the model's numbers of chunks and its order were chosen to fit (a broadcast in 3 chunks "
    "gives 2.18 on 12 nodes).";

/// Allreduce, broadcast and alltoall on 6 and 12 nodes, by bandwidth alone (platform cccl).
Result<std::vector<Growth>> published_growth();

}  // namespace penstock::model

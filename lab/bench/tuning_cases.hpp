// The measurements of `penstock bench tune`: each collective at some sizes, by every possible plan.
#pragma once

#include <cstdint>
#include <vector>

#include "coll/planning.hpp"

namespace penstock::bench {

/// A call that is measured with several plans.
struct TuningCase {
  coll::Collective collective = coll::Collective::barrier;
  std::uint32_t ranks = 2;
  std::uint32_t per_node = 1;
  std::uint64_t bytes = 0;                    ///< the longest block
  std::vector<coll::TuningEntry> candidates;  ///< their plans; the calls that they are for are not
                                              ///< set
  std::vector<coll::Plan> plans;              ///< plan of each candidate
  std::size_t by_default = 0;                 ///< the candidate that the built-in table selects
};

/// A quick run has fewer sizes and chunks.
struct TuningGrid {
  bool quick = false;
  std::vector<std::uint64_t> sizes() const;
  std::vector<std::uint64_t> chunks() const;  ///< 0: a whole slot
  /// The most plans of all cases together.
  std::size_t max_plans() const;
};

/// Equal on all ranks.
std::vector<TuningCase> tuning_cases(const TuningGrid& grid, std::uint32_t ranks,
                                     std::uint32_t per_node, const coll::Shape& shape);

}  // namespace penstock::bench

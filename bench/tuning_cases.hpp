// What `penstock bench tune` measures: each collective at some sizes, by every plan that can be.
#pragma once

#include <cstdint>
#include <vector>

#include "coll/planning.hpp"

namespace penstock::bench {

/// A call that is measured by several plans.
struct TuningCase {
  coll::Collective collective = coll::Collective::barrier;
  std::uint32_t ranks = 2;
  std::uint32_t per_node = 1;
  std::uint64_t bytes = 0;                    ///< the longest block
  std::vector<coll::TuningEntry> candidates;  ///< only how, not for which calls
  std::vector<coll::Plan> plans;              ///< of the candidates
  std::size_t by_default = 0;                 ///< the candidate that the built-in table takes
};

/// Sizes and chunks are fewer in a quick run.
struct TuningGrid {
  bool quick = false;
  std::vector<std::uint64_t> sizes() const;
  std::vector<std::uint64_t> chunks() const;  ///< 0: a whole slot
  /// Plans of all cases together, at most.
  std::size_t max_plans() const;
};

/// The same on all ranks.
std::vector<TuningCase> tuning_cases(const TuningGrid& grid, std::uint32_t ranks,
                                     std::uint32_t per_node, const coll::Shape& shape);

}  // namespace penstock::bench

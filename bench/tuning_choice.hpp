// From measured times to a tuning table.
#pragma once

#include <cstdint>
#include <vector>

#include "bench/tuning_runs.hpp"

namespace penstock::bench {

/// Neighbouring sizes of a collective for which the same was chosen.
struct TuningChoice {
  coll::TuningEntry entry;                        ///< how, and for which calls
  bool by_default = false;                        ///< as the built-in table has it: needs no entry
  std::uint64_t first_bytes = 0, last_bytes = 0;  ///< measured sizes
  double first_ns = 0, last_ns = 0;
  double first_default_ns = 0, last_default_ns = 0;
  double gain = 1;  ///< the most that it is faster than the built-in plan
};

/// What the choices are for, from the measured numbers on.
struct ChoiceRange {
  std::uint32_t max_ranks = coll::TuningEntry::any_ranks;
  std::uint32_t max_per_node = coll::TuningEntry::any_ranks;
};

/// The fastest of each case; the built-in plan where that is less than 5 % slower.
std::vector<TuningChoice> choose(const std::vector<MeasuredCase>& measured,
                                 const ChoiceRange& range);

/// The last number of ranks that figures of `ranks` stand for; `next`: the next measured number, 0
/// for none. Two ranks are a case of their own; others stand for less than twice as many.
std::uint32_t last_ranks(std::uint32_t ranks, std::uint32_t next);
/// The same of ranks per node: figures stand up to the next measured number.
std::uint32_t last_per_node(std::uint32_t next);

/// The entries of the choices; where there are too many for a table, those that gain most.
coll::Tuning tuning_of(const std::vector<TuningChoice>& choices);

}  // namespace penstock::bench

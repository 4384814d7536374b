// Turns measured times into a tuning table.
#pragma once

#include <cstdint>
#include <vector>

#include "bench/tuning_runs.hpp"

namespace penstock::bench {

/// Neighbouring sizes of a collective with the same choice.
struct TuningChoice {
  coll::TuningEntry entry;                        ///< how, and for which calls
  bool by_default = false;                        ///< equals the built-in table: needs no entry
  std::uint64_t first_bytes = 0, last_bytes = 0;  ///< measured sizes
  double first_ns = 0, last_ns = 0;
  double first_default_ns = 0, last_default_ns = 0;
  double gain = 1;  ///< greatest factor by which it is faster than the built-in plan
};

/// The range for which the choices hold, from the measured numbers on.
struct ChoiceRange {
  std::uint32_t max_ranks = coll::TuningEntry::any_ranks;
  std::uint32_t max_per_node = coll::TuningEntry::any_ranks;
};

/// The fastest plan of each case; the built-in plan if that is less than 5 % slower.
std::vector<TuningChoice> choose(const std::vector<MeasuredCase>& measured,
                                 const ChoiceRange& range);

/// The largest number of ranks that figures for `ranks` cover; `next`: the next measured number, 0:
/// none. Two ranks are a separate case; other figures cover less than twice as many ranks.
std::uint32_t last_ranks(std::uint32_t ranks, std::uint32_t next);
/// The same for ranks per node: figures hold up to the next measured number.
std::uint32_t last_per_node(std::uint32_t next);

/// The entries of the choices; if a table cannot hold all, those that gain most.
coll::Tuning tuning_of(const std::vector<TuningChoice>& choices);

}  // namespace penstock::bench

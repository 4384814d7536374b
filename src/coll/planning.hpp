// Chooses the algorithm, form and chunk size for a problem.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <vector>

#include "coll/communicator.hpp"
#include "coll/tuning.hpp"

namespace penstock::coll {

/// The plan of an entry, in slots of `shape`; nullopt if it is impossible for the problem. The same
/// on all ranks that know the same about the problem.
std::optional<Plan> plan_of(const TuningEntry& entry, const Problem& problem, const Shape& shape,
                            const NodeMap& nodes = {});

/// A tuning table arranged for look-ups: no allocation, a few comparisons.
class PlanTable {
 public:
  /// `by_gpus`: GPUs move the data, so that the built-in entries give the plans of GPUs.
  explicit PlanTable(const Tuning& tuning, bool by_gpus = false);
  /// Looks up the plan for a problem. The same on all ranks that know the same about it: without
  /// Problem::max_block_bytes, its sizes are ignored.
  Plan plan(const Problem& problem, const Shape& shape, const NodeMap& nodes = {}) const;

 private:
  struct Row {
    TuningEntry entry;
    bool chunks_for_gpus = false;  ///< as chunks_for_gpus(), if the entry does not say
  };
  std::vector<Row> rows_;  ///< by collective, in the table's order; the defaults last
  std::array<std::uint32_t, collective_count + 1> begins_{};
};

/// Plan::chunks for data that GPUs move: pieces of 1/16 of the block, or of a rank's share of it in
/// a reduction by shares, but of 128 KB to 2 MB. Longer ones would leave the streams idle while the
/// first and the last chunk are on their way; shorter ones cost more in operations than in copies.
std::uint32_t chunks_for_gpus(const Problem& problem, Algorithm algorithm);

/// Uses the built-in table.
Plan default_plan(const Problem& problem, const Shape& shape);

/// Devices of a pool for a communicator's slots.
struct Devices {
  static constexpr std::uint32_t max_count = 16;
  std::uint32_t count = 1;  ///< at most
  std::uint64_t stripe_bytes = 0;
  bool sequential = false;  ///< Shape::sequential
};
/// Number of slots that fit an area within a stripe; 0: they are too long.
std::uint32_t area_slots_of(std::uint64_t stripe_bytes, std::uint64_t slot_bytes);
/// Computes smaller slots for many ranks, so that all communicators together leave room for
/// messages and windows. Uses fewer devices if slots would become too short.
Shape shape_for(std::uint32_t ranks, std::uint64_t pool_bytes, const Devices& devices = {});

}  // namespace penstock::coll

#include "bench/tuning_cases.hpp"

#include <algorithm>
#include <optional>

#include "schedule/uniform.hpp"

namespace penstock::bench {

namespace {

using coll::Collective;

/// Limit for all blocks of a rank together.
constexpr std::uint64_t max_bytes = 16 << 20;

/// Steps of the schedule on all ranks; nullopt if one of them has none.
std::optional<std::size_t> steps_of(const TuningCase& c, coll::Plan plan, const coll::Shape& shape,
                                    const coll::NodeMap& nodes) {
  std::size_t steps = 0;
  if (plan.eager) plan.slot_bytes = shape.eager_bytes;
  if (plan.eager) plan.slots = 2;
  for (std::uint32_t rank = 0; rank < c.ranks; ++rank) {
    const auto problem = coll::uniform_problem(c.collective, c.ranks, rank, 0, c.bytes);
    const auto built = coll::build(problem, plan, nodes);
    if (!built) return std::nullopt;
    steps += built->steps.size();
  }
  return steps;
}

/// Every possible form, algorithm and variant; numbers of chunks only if they make a difference. On
/// the one device of the measurement, naive equals aggregate.
class Candidates {
 public:
  Candidates(TuningCase& c, const coll::Shape& shape)
      : case_(c), shape_(shape), nodes_(coll::nodes_in_blocks(c.ranks, c.per_node)) {}

  void add_all(const std::vector<std::uint64_t>& chunks) {
    coll::TuningEntry eager;
    eager.eager = true;
    add(eager);
    for (const coll::Algorithm algorithm : coll::all_algorithms) {
      if (algorithm >= coll::Algorithm::two_level && case_.per_node == 1) continue;
      for (const std::uint64_t chunk : chunks) {
        coll::TuningEntry entry;
        entry.algorithm = algorithm;
        entry.chunk_bytes = chunk;
        add(entry);
        entry.turns = case_.collective == coll::Collective::broadcast;
        if (entry.turns && algorithm == coll::Algorithm::one_shot) add(entry);
        entry.turns = false;
        entry.variant = coll::Variant::aggregate;
        add(entry);
      }
    }
  }

 private:
  void add(const coll::TuningEntry& entry) {
    const auto problem = coll::uniform_problem(case_.collective, case_.ranks, 0, 0, case_.bytes);
    const auto plan = coll::plan_of(entry, problem, shape_, nodes_);
    if (!plan) return;
    const auto steps = steps_of(case_, *plan, shape_, nodes_);
    if (!steps) return;
    for (std::size_t i = 0; i < case_.plans.size(); ++i) {
      const coll::Plan& other = case_.plans[i];
      if (other.eager == plan->eager && other.algorithm == plan->algorithm &&
          other.variant == plan->variant && other.turns == plan->turns && steps_[i] == *steps)
        return;  // as many chunks
    }
    case_.candidates.push_back(entry);
    case_.plans.push_back(*plan);
    steps_.push_back(*steps);
  }

  TuningCase& case_;
  const coll::Shape& shape_;
  const coll::NodeMap nodes_;
  std::vector<std::size_t> steps_;  ///< for each candidate
};

}  // namespace

std::vector<std::uint64_t> TuningGrid::sizes() const {
  if (quick) return {8, 1 << 10, 4 << 10, 32 << 10, 256 << 10, 1 << 20};
  return {8, 64, 512, 2 << 10, 4 << 10, 8 << 10, 16 << 10, 64 << 10, 256 << 10, 1 << 20, 4 << 20};
}

std::vector<std::uint64_t> TuningGrid::chunks() const {
  if (quick) return {0, 64 << 10};
  return {0, 16 << 10, 32 << 10, 64 << 10, 128 << 10};
}

std::size_t TuningGrid::max_plans() const {
  constexpr std::size_t ways_of_an_algorithm = 3;  // bare, with turns, aggregate
  const std::size_t ways = 1 + coll::all_algorithms.size() * ways_of_an_algorithm * chunks().size();
  return coll::collective_count * sizes().size() * ways;
}

std::vector<TuningCase> tuning_cases(const TuningGrid& grid, std::uint32_t ranks,
                                     std::uint32_t per_node, const coll::Shape& shape) {
  std::vector<TuningCase> cases;
  for (std::size_t i = 0; i < coll::collective_count; ++i) {
    const auto collective = static_cast<Collective>(i);
    const bool many = coll::spreads(collective) || coll::gathers(collective);
    for (const std::uint64_t size : grid.sizes()) {
      const bool bare = collective == Collective::barrier;
      if (bare && size != grid.sizes().front()) continue;
      if (size * (many ? ranks : 1) > max_bytes) continue;
      TuningCase c{
          .collective = collective, .ranks = ranks, .per_node = per_node, .bytes = bare ? 0 : size};
      Candidates(c, shape).add_all(grid.chunks());
      const auto problem = coll::uniform_problem(collective, ranks, 0, 0, c.bytes);
      const auto found =
          std::find(c.plans.begin(), c.plans.end(), coll::default_plan(problem, shape));
      if (found == c.plans.end()) continue;  // not even the built-in plan is possible
      c.by_default = static_cast<std::size_t>(found - c.plans.begin());
      cases.push_back(std::move(c));
    }
  }
  return cases;
}

}  // namespace penstock::bench

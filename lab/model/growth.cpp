#include "model/growth.hpp"

#include <algorithm>

#include "model/collectives.hpp"
#include "model/published.hpp"

namespace penstock::model {

namespace {

using coll::Collective;

/// The growth hardly depends on it: the paper uses 128 MB to 4 GB.
constexpr std::uint64_t bytes = 144'000'000;
constexpr std::uint32_t base_nodes = 3;

struct Study {
  Collective collective;
  /// Chunks in a buffer or segment: the paper does not give them, and these numbers fit.
  std::vector<std::uint32_t> chunks;
  struct Point {
    std::uint32_t nodes;
    double least, greatest;
  };
  std::vector<Point> points;
};

const std::vector<Study>& studies() {
  static const std::vector<Study> all = {
      {Collective::allreduce, {2, 4, 12}, {{6, 2.1, 3.0}, {12, 8.7, 12.2}}},
      {Collective::broadcast, {2}, {{6, 1.26, 1.40}, {12, 2.5, 2.5}}},
      {Collective::alltoall, {4, 12}, {{6, 1.5, 1.6}, {12, 3.5, 3.6}}}};
  return all;
}

PoolCase case_of(Collective collective, std::uint32_t nodes) {
  return {collective, nodes, 1, block_of(collective, nodes, bytes)};
}

Result<double> published_seconds(const PlatformSet& set, Collective collective, std::uint32_t nodes,
                                 std::uint32_t chunks) {
  const auto schedules =
      PENSTOCK_TRY(published(collective, nodes, bytes, chunks, ReadOrder::after));
  const auto outcome = PENSTOCK_TRY(run_schedules(set, case_of(collective, nodes), schedules));
  return outcome.seconds;
}

/// The fastest plan on that many nodes: its seconds and its description.
struct Fastest {
  double seconds = never;
  std::string how;
};
Result<Fastest> fastest(const PlatformSet& set, Collective collective, std::uint32_t nodes) {
  Fastest best;
  const PoolCase call = case_of(collective, nodes);
  for (const PlannedCall& plan : plans_of(set, call)) {
    if (plan.plan.variant != coll::Variant::all || plan.plan.slot_bytes < set.slot_bytes) continue;
    const auto outcome = PENSTOCK_TRY(run_on_pool(set, call, plan.plan));
    if (outcome.seconds < best.seconds) best = {outcome.seconds, plan.how};
  }
  return best;
}

Result<std::vector<Growth>> growth_of(const PlatformSet& set, const Study& study) {
  const auto engine_base = PENSTOCK_TRY(fastest(set, study.collective, base_nodes));
  std::vector<Growth> found;
  for (const auto& point : study.points) {
    const auto engine = PENSTOCK_TRY(fastest(set, study.collective, point.nodes));
    Growth growth{.collective = study.collective,
                  .nodes = point.nodes,
                  .least = never,
                  .chunks = study.chunks,
                  .published_least = point.least,
                  .published_greatest = point.greatest,
                  .engine = engine.seconds / engine_base.seconds,
                  .gain = never,
                  .engine_how = engine.how};
    for (const std::uint32_t chunks : study.chunks) {
      const double base =
          PENSTOCK_TRY(published_seconds(set, study.collective, base_nodes, chunks));
      const double seconds =
          PENSTOCK_TRY(published_seconds(set, study.collective, point.nodes, chunks));
      growth.least = std::min(growth.least, seconds / base);
      growth.greatest = std::max(growth.greatest, seconds / base);
      growth.gain = std::min(growth.gain, seconds / engine.seconds);
    }
    found.push_back(growth);
  }
  return found;
}

}  // namespace

Result<std::vector<Growth>> published_growth() {
  const PlatformSet& set = *PENSTOCK_TRY(find_platform("cccl"));
  std::vector<Growth> all;
  for (const Study& study : studies())
    for (const Growth& growth : PENSTOCK_TRY(growth_of(set, study))) all.push_back(growth);
  return all;
}

}  // namespace penstock::model

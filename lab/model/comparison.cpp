#include "model/comparison.hpp"

#include "base/format.hpp"

namespace penstock::model {

namespace {

/// The time over a network is about a + b / fraction of its line rate: finds the fraction for
/// `seconds`.
Result<double> tie_of(Network network, const PoolCase& call, double seconds) {
  const auto at = [&](double fraction) {
    network.fraction = fraction;
    return network_seconds(network, call.collective, call.ranks, call.per_node, call.block);
  };
  const double whole = PENSTOCK_TRY(at(1)), half = PENSTOCK_TRY(at(0.5));
  const double bytes = half - whole, latency = whole - bytes;
  return seconds > latency ? bytes / (seconds - latency) : 0;
}

Result<std::vector<NetworkTime>> by_networks(const PoolCase& call, double seconds) {
  std::vector<NetworkTime> times;
  const bool known = has_network(call.collective);
  for (const Network& network : networks()) {
    if (!known || call.ranks < 2) continue;
    times.push_back({&network,
                     PENSTOCK_TRY(network_seconds(network, call.collective, call.ranks,
                                                  call.per_node, call.block)),
                     PENSTOCK_TRY(tie_of(network, call, seconds))});
  }
  return times;
}

}  // namespace

Result<Comparison> compare(const PlatformSet& set, const PoolCase& call) {
  Comparison found{.call = call};
  for (const PlannedCall& plan : plans_of(set, call)) {
    const auto outcome = PENSTOCK_TRY(run_on_pool(set, call, plan.plan));
    const Utilization busiest =
        outcome.utilization.empty() ? Utilization{"nothing", 0} : outcome.utilization[0];
    found.plans.push_back({plan.how, plan.plan, outcome.seconds, busiest});
    if (outcome.seconds < found.plans[found.fastest].seconds)
      found.fastest = found.plans.size() - 1;
  }
  if (found.plans.empty())
    return fail(ErrorCode::invalid_argument,
                "{} of {} bytes on {} ranks: no plan is possible in slots of {} bytes",
                name_of(call.collective), call.block, call.ranks, set.slot_bytes);
  found.networks = PENSTOCK_TRY(by_networks(call, found.plans[found.fastest].seconds));
  return found;
}

}  // namespace penstock::model

#include "model/devices.hpp"

#include "coll/planning.hpp"
#include "coll/uniform.hpp"

namespace penstock::model {

Result<std::vector<double>> seconds_by_devices(PlatformSet set, PoolCase call, std::uint32_t most) {
  const auto problem = coll::uniform_problem(call.collective, call.ranks, 0, 0, call.block);
  std::vector<double> seconds;
  for (call.devices = 1; call.devices <= most; ++call.devices) {
    set.devices = call.devices;
    const coll::Plan plan = coll::default_plan(problem, shape_of(set));
    seconds.push_back(PENSTOCK_TRY(run_on_pool(set, call, plan)).seconds);
  }
  return seconds;
}

std::vector<bool> slower_with_last(const std::vector<double>& seconds) {
  constexpr double rounding = 1.001;
  std::vector<bool> slower(seconds.size());
  for (std::size_t i = 2, best = 1; i < seconds.size(); ++i) {
    slower[i] = seconds[i] > seconds[best] * rounding;
    if (!slower[i]) best = i;
  }
  return slower;
}

}  // namespace penstock::model

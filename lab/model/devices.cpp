#include "model/devices.hpp"

#include <algorithm>
#include <cmath>
#include <map>
#include <optional>

#include "coll/planning.hpp"
#include "schedule/uniform.hpp"

namespace penstock::model {

namespace {

using Platforms = std::vector<SecondsByDevices>;

/// Numbers of devices to use of 1, 2, ... devices, and what they lose together.
struct Choice {
  double lost = 0;
  std::vector<std::uint32_t> used;
};

bool slower_anywhere(const Platforms& platforms, std::uint32_t used, std::uint32_t than) {
  constexpr double rounding = 1.005;
  return std::any_of(platforms.begin(), platforms.end(), [&](const SecondsByDevices& seconds) {
    return seconds[used - 1] > seconds[than - 1] * rounding;
  });
}

/// The logarithm of the worst platform's time over its best time on that many devices or fewer.
double loss(const Platforms& platforms, std::uint32_t used, std::uint32_t devices) {
  double worst = 1;
  for (const SecondsByDevices& seconds : platforms)
    worst = std::max(
        worst, seconds[used - 1] / *std::min_element(seconds.begin(), seconds.begin() + devices));
  return std::log(worst);
}

/// Among equals those that use more devices win, which come later.
bool loses_no_more(const Choice& choice, const Choice& than) {
  constexpr double rounding = 1e-6;
  return choice.lost <= than.lost + rounding;
}

}  // namespace

Result<SecondsByDevices> seconds_by_devices(PlatformSet set, PoolCase call, std::uint32_t most) {
  const auto problem = coll::uniform_problem(call.collective, call.ranks, 0, 0, call.block);
  SecondsByDevices seconds;
  for (call.devices = 1; call.devices <= most; ++call.devices) {
    set.devices = call.devices;
    const coll::Plan plan = coll::default_plan(problem, shape_of(set));
    seconds.push_back(PENSTOCK_TRY(run_on_pool(set, call, plan)).seconds);
  }
  return seconds;
}

std::vector<std::uint32_t> devices_to_use(const Platforms& platforms) {
  const auto most = static_cast<std::uint32_t>(platforms.front().size());
  std::map<std::uint32_t, Choice> choices{{2, {0, {1, 2}}}};  // the best that use so many now
  for (std::uint32_t devices = 3; devices <= most; ++devices) {
    std::optional<Choice> all;
    for (auto& [used, choice] : choices) {
      if (!slower_anywhere(platforms, devices, used) && (!all || loses_no_more(choice, *all)))
        all = choice;
      choice.used.push_back(used);
      choice.lost += loss(platforms, used, devices);
    }
    if (!all) continue;
    all->used.push_back(devices);
    all->lost += loss(platforms, devices, devices);
    choices[devices] = *std::move(all);
  }
  Choice best = choices[2];
  for (const auto& [used, choice] : choices)
    if (loses_no_more(choice, best)) best = choice;
  best.used.resize(most);
  return best.used;
}

}  // namespace penstock::model

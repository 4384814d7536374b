// By how many devices a collective is served best: what src/schedule/placement_table.inc is made
// from.
#pragma once

#include <vector>

#include "model/collectives.hpp"

namespace penstock::model {

/// Of a call, by number of devices less 1.
using SecondsByDevices = std::vector<double>;

/// Of the call by the built-in plan, where chunks go round 1, 2, ... `most` devices of a pool that
/// has so many. Errors: those of run_on_pool().
Result<SecondsByDevices> seconds_by_devices(PlatformSet set, PoolCase call, std::uint32_t most);

/// By number of devices less 1: how many of them the call should go round, from its seconds on each
/// platform. Two devices are always used. A device more never makes the call slower on any
/// platform; of all such choices this one stays closest to the best of each platform, on the
/// platform that loses most by it.
std::vector<std::uint32_t> devices_to_use(const std::vector<SecondsByDevices>& platforms);

}  // namespace penstock::model

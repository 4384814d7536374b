// By how many devices a collective is served best: what src/coll/placement_table.inc is made from.
#pragma once

#include <vector>

#include "model/collectives.hpp"

namespace penstock::model {

/// Seconds of the call by the built-in plan, where chunks go round 1, 2, ... `most` devices of a
/// pool that has so many. Errors: those of run_on_pool().
Result<std::vector<double>> seconds_by_devices(PlatformSet set, PoolCase call, std::uint32_t most);

/// Of such seconds, by number of devices less 1: whether the last device makes the call slower than
/// the best that fewer can do. Two devices are always used.
std::vector<bool> slower_with_last(const std::vector<double>& seconds);

}  // namespace penstock::model

// How much of the device's time goes into finding out who has died.
#pragma once

#include <cstddef>

namespace penstock::group {

/// Ranks whose lives a wait looks at at once, every 20 ms. It reads some 3,000 lines a second for
/// that, however many it waits for; of 4,096 ranks each has its turn every five seconds.
inline constexpr std::size_t lives_at_once = 16;

}  // namespace penstock::group

// Bounds the device's time that is spent on finding the dead.
#pragma once

#include <cstddef>

namespace penstock::group {

/// How many ranks a wait checks for deaths at once, every 20 ms. That reads some 3,000 lines a
/// second, however many ranks it waits for; with 4,096 ranks each is checked every five seconds.
inline constexpr std::size_t lives_at_once = 16;

}  // namespace penstock::group

// Time as the code under test sees it: only looks at the clock and sleeps advance it. So deadlines
// pass at once, and the same input takes the same steps.
#pragma once

#include <cstdint>

namespace penstock::fuzz {

/// Called before each input.
void restart_time();
void pass_time(std::uint64_t ns);

}  // namespace penstock::fuzz

// Time as the code under test sees it: every look at the clock and every sleep moves it on, nothing
// takes any. So deadlines pass at once, and the same input takes the same steps.
#pragma once

#include <cstdint>

namespace penstock::fuzz {

/// Before each input.
void restart_time();
void pass_time(std::uint64_t ns);

}  // namespace penstock::fuzz

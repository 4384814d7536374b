// Ends that may have to wait for what the program does next.
#pragma once

#include <chrono>
#include <functional>

namespace penstock::base {

/// Runs `end` in a service thread of that name (service_thread.hpp). Returns when it has run, or
/// after `patience`: then it goes on beside the caller. A process that exits waits for it for 2 s.
void end_beside(const char* name, std::function<void()> end, std::chrono::nanoseconds patience);

}  // namespace penstock::base

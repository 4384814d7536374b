// Ends that may have to wait for what the program does next.
#pragma once

#include <chrono>
#include <functional>

namespace penstock::base {

/// Runs `end` in a service thread of that name (service_thread.hpp). A process that exits waits for
/// it for 2 s.
void end_beside(const char* name, std::function<void()> end);

/// Whether all such ends of this process have run; waits for that for `patience`.
bool await_ends(std::chrono::nanoseconds patience);

}  // namespace penstock::base

// Threads of Penstock in the program's process.
#pragma once

#include <functional>
#include <optional>
#include <thread>

namespace penstock::base {

/// Starts a thread that takes none of the program's signals, has a name (at most 15 characters) and
/// uses only CPUs that the calling thread may use: those near `numa_node`, which is the node of a
/// GPU that it serves, if there are any; without `numa_node` those of the caller's node, whose
/// memory it shares. The caller's own mask stays unchanged.
std::thread start_service_thread(const char* name, std::function<void()> body,
                                 std::optional<int> numa_node = std::nullopt);

}  // namespace penstock::base

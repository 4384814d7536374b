// Threads of ours in the program's process.
#pragma once

#include <functional>
#include <optional>
#include <thread>

namespace penstock::base {

/// Takes none of the program's signals, has a name (15 characters), and uses only CPUs that the
/// calling thread may use: of these the ones next to `numa_node`, of a GPU that it serves, if there
/// are any; without one those of the node that the caller runs on, whose memory it shares. The
/// caller's own mask stays as it is.
std::thread start_service_thread(const char* name, std::function<void()> body,
                                 std::optional<int> numa_node = std::nullopt);

}  // namespace penstock::base

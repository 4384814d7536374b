// Whole messages through a TCP socket.
#pragma once

#include <cstddef>

#include "base/status.hpp"

namespace penstock::bench {

/// "cannot send: Connection reset by peer"
Result<void> socket_error(const char* what);
Result<void> send_all(int socket, const void* from, std::size_t bytes);
/// Errors: also where the other side has ended.
Result<void> receive_all(int socket, void* to, std::size_t bytes);
/// Without Nagle's delay.
void set_no_delay(int socket);

}  // namespace penstock::bench

// Whole messages through a TCP socket.
#pragma once

#include <cstddef>

#include "base/status.hpp"

namespace penstock::bench {

/// "cannot send: Connection reset by peer"
Result<void> socket_error(const char* what);
Result<void> send_all(int socket, const void* from, std::size_t bytes);
enum class Waits : unsigned char {
  sleeping,  ///< in the kernel, which wakes the thread
  polling    ///< by calls that return at once, as an MPI over TCP polls
};
/// Errors: also if the other side has ended.
Result<void> receive_all(int socket, void* to, std::size_t bytes, Waits how = Waits::sleeping);
/// Turns off Nagle's delay.
void set_no_delay(int socket);

}  // namespace penstock::bench

#include "bench/socket_io.hpp"

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>

#include <cerrno>
#include <cstring>

#include "base/format.hpp"

namespace penstock::bench {

Result<void> socket_error(const char* what) {
  return fail(ErrorCode::unavailable, "{}: {}", what, std::strerror(errno));
}

Result<void> send_all(int socket, const void* from, std::size_t bytes) {
  for (std::size_t done = 0; done < bytes;) {
    const ssize_t sent =
        send(socket, static_cast<const std::byte*>(from) + done, bytes - done, MSG_NOSIGNAL);
    if (sent <= 0) return socket_error("cannot send");
    done += static_cast<std::size_t>(sent);
  }
  return {};
}

Result<void> receive_all(int socket, void* to, std::size_t bytes, Waits how) {
  const int flags = how == Waits::polling ? MSG_DONTWAIT : 0;
  for (std::size_t done = 0; done < bytes;) {
    const ssize_t got = recv(socket, static_cast<std::byte*>(to) + done, bytes - done, flags);
    if (got == 0) return fail(ErrorCode::unavailable, "cannot receive: the other side has ended");
    if (got < 0 && how == Waits::polling && (errno == EAGAIN || errno == EWOULDBLOCK)) continue;
    if (got < 0) return socket_error("cannot receive");
    done += static_cast<std::size_t>(got);
  }
  return {};
}

void set_no_delay(int socket) {
  const int one = 1;
  setsockopt(socket, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
}

}  // namespace penstock::bench

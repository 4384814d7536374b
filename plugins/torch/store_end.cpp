// Detects that the store of a group has ended, without calling it. A c10d client that calls a
// server after its end prints a page of warnings.
#include <dirent.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <thread>
#include <torch/csrc/distributed/c10d/PrefixStore.hpp>
#include <torch/csrc/distributed/c10d/TCPStore.hpp>

#include "rendezvous.hpp"

namespace penstock::torch {

namespace {

struct Connection {
  int fd = -1;
  sockaddr_storage server{};
  socklen_t bytes = sizeof server;

  bool is_to(std::uint16_t port) const {
    if (server.ss_family == AF_INET)
      return ntohs(reinterpret_cast<const sockaddr_in*>(&server)->sin_port) == port;
    return server.ss_family == AF_INET6 &&
           ntohs(reinterpret_cast<const sockaddr_in6*>(&server)->sin6_port) == port;
  }
};

/// The open connections of this process to `port`.
std::vector<Connection> connections_to(std::uint16_t port) {
  std::vector<Connection> found;
  DIR* const folder = opendir("/proc/self/fd");
  while (const dirent* const entry = folder != nullptr ? readdir(folder) : nullptr) {
    Connection connection;
    connection.fd = std::atoi(entry->d_name);
    auto* const server = reinterpret_cast<sockaddr*>(&connection.server);
    if (entry->d_name[0] != '.' && getpeername(connection.fd, server, &connection.bytes) == 0 &&
        connection.is_to(port))
      found.push_back(connection);
  }
  if (folder != nullptr) closedir(folder);
  return found;
}

using Clock = std::chrono::steady_clock;

int milliseconds_until(Clock::time_point end) {
  const auto left = std::chrono::duration_cast<std::chrono::milliseconds>(end - Clock::now());
  return std::max(0, static_cast<int>(left.count()));
}

/// Whether the server still accepts connections. It closes existing ones before it stops accepting.
bool is_taking_connections(const Connection& old, Clock::time_point end) {
  const int fd = ::socket(old.server.ss_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
  if (fd < 0) return false;
  bool taken = ::connect(fd, reinterpret_cast<const sockaddr*>(&old.server), old.bytes) == 0;
  if (!taken && errno == EINPROGRESS) {
    pollfd connecting{fd, POLLOUT, 0};
    taken = ::poll(&connecting, 1, milliseconds_until(end)) == 1 &&
            (connecting.revents & (POLLERR | POLLHUP)) == 0;
  }
  ::close(fd);
  return taken;
}

/// The port of a store that ends with the groups that hold it; 0 for other stores.
std::uint16_t port_of(const c10::intrusive_ptr<c10d::Store>& store) {
  c10::intrusive_ptr<c10d::Store> inner = store;
  auto* const prefixed = dynamic_cast<c10d::PrefixStore*>(store.get());
  if (prefixed != nullptr) inner = prefixed->getUnderlyingNonPrefixStore();
  auto* const served = dynamic_cast<c10d::TCPStore*>(inner.get());
  // A store that torchrun or the program keeps outlives the groups. One that only groups hold has a
  // single owner besides `inner`.
  const char* const of_launcher = std::getenv("TORCHELASTIC_USE_AGENT_STORE");
  if (served == nullptr || (of_launcher != nullptr && std::string(of_launcher) == "True")) return 0;
  return inner.use_count() > 2 ? 0 : served->getPort();
}

}  // namespace

void Meeting::await_end_of_store(std::chrono::milliseconds longest) const {
  // By then rank 0 may serve its next store at the same port.
  constexpr std::chrono::milliseconds longest_refusal{10}, between{1};
  const std::uint16_t port = port_of(store_);
  const auto connections = port != 0 ? connections_to(port) : std::vector<Connection>();
  const auto end = Clock::now() + longest;
  for (const Connection& connection : connections) {
    pollfd hangup{connection.fd, POLLRDHUP, 0};
    if (::poll(&hangup, 1, milliseconds_until(end)) != 1) return;
  }
  if (connections.empty()) return;
  const auto refused_by = Clock::now() + longest_refusal;
  while (is_taking_connections(connections.front(), refused_by) && Clock::now() < refused_by)
    std::this_thread::sleep_for(between);
}

}  // namespace penstock::torch

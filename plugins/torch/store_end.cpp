// How a rank sees that the store of its group has ended, without calling it: a client of c10d that
// calls a server after its end writes a page of warnings.
#include <dirent.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>

#include <cstdlib>
#include <thread>
#include <torch/csrc/distributed/c10d/PrefixStore.hpp>
#include <torch/csrc/distributed/c10d/TCPStore.hpp>

#include "rendezvous.hpp"

namespace penstock::torch {

namespace {

bool is_connected_to(int fd, std::uint16_t port) {
  sockaddr_storage peer{};
  socklen_t bytes = sizeof peer;
  if (getpeername(fd, reinterpret_cast<sockaddr*>(&peer), &bytes) != 0) return false;
  if (peer.ss_family == AF_INET)
    return ntohs(reinterpret_cast<sockaddr_in*>(&peer)->sin_port) == port;
  return peer.ss_family == AF_INET6 &&
         ntohs(reinterpret_cast<sockaddr_in6*>(&peer)->sin6_port) == port;
}

/// This process's connections to `port`.
std::vector<pollfd> connections_to(std::uint16_t port) {
  std::vector<pollfd> found;
  DIR* const folder = opendir("/proc/self/fd");
  while (const dirent* const entry = folder != nullptr ? readdir(folder) : nullptr) {
    const int fd = std::atoi(entry->d_name);
    if (entry->d_name[0] != '.' && is_connected_to(fd, port)) found.push_back({fd, POLLRDHUP, 0});
  }
  if (folder != nullptr) closedir(folder);
  return found;
}

/// The port of a store that ends with the groups that hold it; 0 for other stores.
std::uint16_t port_of(const c10::intrusive_ptr<c10d::Store>& store) {
  c10::intrusive_ptr<c10d::Store> inner = store;
  auto* const prefixed = dynamic_cast<c10d::PrefixStore*>(store.get());
  if (prefixed != nullptr) inner = prefixed->getUnderlyingNonPrefixStore();
  auto* const served = dynamic_cast<c10d::TCPStore*>(inner.get());
  // Of torchrun, or of a program that keeps it: one that only groups hold has an owner besides us.
  const char* const of_launcher = std::getenv("TORCHELASTIC_USE_AGENT_STORE");
  if (served == nullptr || (of_launcher != nullptr && std::string(of_launcher) == "True")) return 0;
  return inner.use_count() > 2 ? 0 : served->getPort();
}

}  // namespace

void Meeting::await_end_of_store(std::chrono::milliseconds longest) const {
  const std::uint16_t port = port_of(store_);
  auto connections = port != 0 ? connections_to(port) : std::vector<pollfd>();
  const auto until = std::chrono::steady_clock::now() + longest;
  for (pollfd& connection : connections) {
    const auto left = std::chrono::duration_cast<std::chrono::milliseconds>(
        until - std::chrono::steady_clock::now());
    if (left.count() > 0) (void)::poll(&connection, 1, static_cast<int>(left.count()));
  }
}

}  // namespace penstock::torch

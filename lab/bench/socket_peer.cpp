#include "bench/socket_peer.hpp"

#include <fmt/core.h>
#include <netdb.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include <algorithm>
#include <cstddef>
#include <cstdio>
#include <memory>

#include "base/clock.hpp"
#include "base/format.hpp"
#include "base/unique_fd.hpp"
#include "bench/socket_io.hpp"

namespace penstock::bench {
namespace {

constexpr std::uint64_t greeting = 0x31304b4354535050;  ///< "PPSTCK01", of hosts of one byte order
constexpr std::size_t streamed = 64 << 20;              ///< bytes in a burst
constexpr std::size_t largest = 64 << 20;               ///< bytes in a message
constexpr int patience_s = 30;

/// The next request of the measuring side.
struct Order {
  std::uint64_t magic, bytes, count, stream;
};

void set_patience(int socket) {
  const timeval limit{.tv_sec = patience_s, .tv_usec = 0};
  setsockopt(socket, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit);
  setsockopt(socket, SOL_SOCKET, SO_SNDTIMEO, &limit, sizeof limit);
}

/// Carries out one client's orders until it leaves.
Result<void> obey(int socket) {
  std::vector<std::byte> buffer;
  for (;;) {
    Order order{};
    PENSTOCK_TRY(receive_all(socket, &order, sizeof order));
    if (order.magic != greeting || order.bytes == 0 || order.bytes > largest)
      return fail(ErrorCode::invalid_argument, "a client is not a socket_bench of this version");
    if (buffer.size() < order.bytes) buffer.resize(order.bytes);
    for (std::uint64_t i = 0; i < order.count; ++i) {
      PENSTOCK_TRY(receive_all(socket, buffer.data(), order.bytes));
      if (order.stream == 0) PENSTOCK_TRY(send_all(socket, buffer.data(), order.bytes));
    }
    if (order.stream != 0) PENSTOCK_TRY(send_all(socket, buffer.data(), 1));
  }
}

Result<base::UniqueFd> connected(const std::string& peer) {
  const std::size_t colon = peer.rfind(':');
  const std::string host = peer.substr(0, colon);
  const std::string port =
      colon == std::string::npos ? fmt::format("{}", peer_port) : peer.substr(colon + 1);
  addrinfo hints{};
  hints.ai_family = AF_UNSPEC;
  hints.ai_socktype = SOCK_STREAM;
  addrinfo* found = nullptr;
  if (const int wrong = getaddrinfo(host.c_str(), port.c_str(), &hints, &found); wrong != 0)
    return fail(ErrorCode::invalid_argument, "--peer {}: {}: give HOST or HOST:PORT", peer,
                gai_strerror(wrong));
  const std::unique_ptr<addrinfo, decltype(&freeaddrinfo)> owned(found, &freeaddrinfo);
  for (const addrinfo* each = found; each != nullptr; each = each->ai_next) {
    base::UniqueFd socket(::socket(each->ai_family, each->ai_socktype, each->ai_protocol));
    set_patience(socket.get());
    if (connect(socket.get(), each->ai_addr, each->ai_addrlen) != 0) continue;
    set_no_delay(socket.get());
    return socket;
  }
  return fail(ErrorCode::unavailable,
              "--peer {}: {}: start 'socket_bench --serve --port {}' on that host, and let its "
              "port through",
              peer, socket_error("cannot connect").error().message, port);
}

Result<double> ns_of(int socket, Order order, std::vector<std::byte>& buffer) {
  const std::uint64_t start = base::now_ns();
  PENSTOCK_TRY(send_all(socket, &order, sizeof order));
  for (std::uint64_t i = 0; i < order.count; ++i) {
    PENSTOCK_TRY(send_all(socket, buffer.data(), order.bytes));
    if (order.stream == 0) PENSTOCK_TRY(receive_all(socket, buffer.data(), order.bytes));
  }
  if (order.stream != 0) PENSTOCK_TRY(receive_all(socket, buffer.data(), 1));
  return static_cast<double>(base::now_ns() - start);
}

}  // namespace

std::size_t ping_pongs(std::size_t bytes) {
  return bytes <= 4096 ? 400 : bytes <= 65536 ? 100 : 10;
}

std::size_t streamed_messages(std::size_t bytes) {
  return std::clamp<std::size_t>(streamed / bytes, 16, 20'000);
}

Result<void> serve_peers(std::uint16_t port) {
  base::UniqueFd listening(socket(AF_INET6, SOCK_STREAM, 0));
  const int one = 1, zero = 0;
  setsockopt(listening.get(), SOL_SOCKET, SO_REUSEADDR, &one, sizeof one);
  setsockopt(listening.get(), IPPROTO_IPV6, IPV6_V6ONLY, &zero, sizeof zero);  // so that IPv4
                                                                               // clients can
                                                                               // connect too
  sockaddr_in6 address{};
  address.sin6_family = AF_INET6;
  address.sin6_addr = in6addr_any;
  address.sin6_port = htons(port);
  socklen_t bytes = sizeof address;
  auto* const generic = reinterpret_cast<sockaddr*>(&address);
  if (bind(listening.get(), generic, bytes) != 0 || listen(listening.get(), 8) != 0 ||
      getsockname(listening.get(), generic, &bytes) != 0)
    return fail(ErrorCode::unavailable, "--port {}: {}: name another", port,
                socket_error("cannot listen").error().message);
  fmt::print("serving on port {}; Ctrl-C ends it\n", ntohs(address.sin6_port));
  std::fflush(stdout);
  for (;;) {
    base::UniqueFd client(accept(listening.get(), nullptr, nullptr));
    if (client.get() < 0) return socket_error("cannot accept");
    set_patience(client.get());
    set_no_delay(client.get());
    (void)obey(client.get());  // a client's failure does not end the server
  }
}

Result<void> measure_with_peer(const std::string& peer, const std::vector<std::size_t>& sizes,
                               Samples& samples) {
  const base::UniqueFd socket = PENSTOCK_TRY(connected(peer));
  std::vector<std::byte> buffer(*std::max_element(sizes.begin(), sizes.end()));
  for (std::size_t round = 0; round < samples.rounds(); ++round) {
    for (std::size_t i = 0; i < sizes.size(); ++i) {
      const std::uint64_t bytes = sizes[i], pings = ping_pongs(bytes),
                          count = streamed_messages(bytes);
      PENSTOCK_TRY(ns_of(socket.get(), {greeting, bytes, pings / 10 + 1, 0}, buffer));
      const double ns = PENSTOCK_TRY(ns_of(socket.get(), {greeting, bytes, pings, 0}, buffer));
      samples.record(row_count * i + latency_row, round, ns / (2.0 * static_cast<double>(pings)));
      const double all = PENSTOCK_TRY(ns_of(socket.get(), {greeting, bytes, count, 1}, buffer));
      samples.record(row_count * i + bandwidth_row, round,
                     static_cast<double>(bytes * count) / all * 1e3);
    }
  }
  return {};
}

}  // namespace penstock::bench

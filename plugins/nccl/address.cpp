#include "nccl/address.hpp"

#include <arpa/inet.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <netdb.h>
#include <netinet/in.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <string_view>
#include <vector>

#include "base/format.hpp"
#include "nccl/outcome.hpp"

namespace penstock::nccl {

namespace {

bool from_system(const sockaddr* from, Address& to) {
  to = {};
  if (from == nullptr) return false;
  to.family = from->sa_family;
  if (from->sa_family == AF_INET) {
    sockaddr_in in;
    std::memcpy(&in, from, sizeof in);
    to.port = ntohs(in.sin_port);
    std::memcpy(to.bytes, &in.sin_addr, sizeof in.sin_addr);
    return true;
  }
  if (from->sa_family != AF_INET6) return false;
  sockaddr_in6 in;
  std::memcpy(&in, from, sizeof in);
  to.port = ntohs(in.sin6_port);
  to.scope = in.sin6_scope_id;
  std::memcpy(to.bytes, &in.sin6_addr, sizeof in.sin6_addr);
  return true;
}

/// The parsed value of NCCL_SOCKET_IFNAME.
struct Wanted {
  bool not_these = false, whole = false;
  std::vector<std::string> names;

  static Wanted read() {
    const char* const text = std::getenv("NCCL_SOCKET_IFNAME");
    std::string_view left = text != nullptr ? text : "";
    Wanted wanted;
    const auto take = [&left](char sign) {
      if (left.empty() || left.front() != sign) return false;
      left.remove_prefix(1);
      return true;
    };
    wanted.not_these = take('^');
    wanted.whole = take('=');
    while (!left.empty()) {
      const std::string_view one = left.substr(0, left.find(','));
      // NCCL accepts NAME:PORT here; the port is not part of the interface's name.
      if (!one.empty()) wanted.names.emplace_back(one.substr(0, one.find(':')));
      left.remove_prefix(std::min(left.size(), one.size() + 1));
    }
    return wanted;
  }
  bool allows(std::string_view name) const {
    const bool listed = std::any_of(names.begin(), names.end(), [&](const std::string& one) {
      return whole ? name == one : name.substr(0, one.size()) == one;
    });
    return names.empty() || listed != not_these;
  }
};

/// Rank of an interface's address: the lowest is preferred.
int order_of(const ifaddrs& one) {
  const std::string_view name = one.ifa_name;
  const int kind = (one.ifa_flags & IFF_LOOPBACK) != 0 ? 2 : name.substr(0, 6) == "docker" ? 1 : 0;
  return 2 * kind + (one.ifa_addr->sa_family == AF_INET6 ? 1 : 0);
}

}  // namespace

std::string format_address(const Address& address) {
  char text[INET6_ADDRSTRLEN] = "?";
  inet_ntop(address.family, address.bytes, text, sizeof text);
  return address.family == AF_INET6 ? fmt::format("[{}]:{}", text, address.port)
                                    : fmt::format("{}:{}", text, address.port);
}

Result parse_address(const std::string& text, Address& address) {
  const std::size_t colon = text.rfind(':');
  std::string host = text.substr(0, colon);
  if (host.size() > 2 && host.front() == '[' && host.back() == ']')
    host = host.substr(1, host.size() - 2);
  const std::string port = colon == std::string::npos ? "" : text.substr(colon + 1);
  const bool is_number =
      !port.empty() && port.size() <= 5 &&
      std::all_of(port.begin(), port.end(), [](char c) { return c >= '0' && c <= '9'; }) &&
      std::stoi(port) > 0 && std::stoi(port) < 65536;
  addrinfo wanted{}, *found = nullptr;
  wanted.ai_socktype = SOCK_STREAM;
  int status = EAI_NONAME;
  if (!host.empty() && is_number) status = getaddrinfo(host.c_str(), port.c_str(), &wanted, &found);
  const std::unique_ptr<addrinfo, void (*)(addrinfo*)> owner(found, [](addrinfo* all) {
    if (all != nullptr) freeaddrinfo(all);
  });
  if (status == 0 && from_system(found->ai_addr, address)) return success;
  return failed(
      invalid_argument,
      fmt::format("NCCL_COMM_ID is '{}'{}{}: set it to the address and a free port of rank "
                  "0's host, such as 192.0.2.1:4000 or [2001:db8::1]:4000",
                  text, is_number ? ", " : "", is_number ? gai_strerror(status) : ""));
}

Result own_address(Address& address) {
  const Wanted wanted = Wanted::read();
  ifaddrs* list = nullptr;
  if (getifaddrs(&list) != 0)
    return failed(system_error, fmt::format("the network's interfaces: {}", std::strerror(errno)));
  const std::unique_ptr<ifaddrs, void (*)(ifaddrs*)> owner(list, freeifaddrs);
  const ifaddrs* best = nullptr;
  for (const ifaddrs* one = list; one != nullptr; one = one->ifa_next) {
    Address unused;
    if ((one->ifa_flags & IFF_UP) == 0 || !wanted.allows(one->ifa_name) ||
        !from_system(one->ifa_addr, unused))
      continue;
    if (best == nullptr || order_of(*one) < order_of(*best)) best = one;
  }
  if (best != nullptr && from_system(best->ifa_addr, address)) return success;
  const char* const text = std::getenv("NCCL_SOCKET_IFNAME");
  return failed(invalid_usage,
                fmt::format("no network interface is up{}{}: set NCCL_SOCKET_IFNAME to one that "
                            "`ip addr` shows, or PENSTOCK_POOL to a pool",
                            text == nullptr ? "" : " that NCCL_SOCKET_IFNAME allows, which is ",
                            text == nullptr ? "" : text));
}

socklen_t to_system(const Address& address, sockaddr_storage& to) {
  to = {};
  if (address.family == AF_INET) {
    sockaddr_in in{};
    in.sin_family = AF_INET;
    in.sin_port = htons(address.port);
    std::memcpy(&in.sin_addr, address.bytes, sizeof in.sin_addr);
    std::memcpy(&to, &in, sizeof in);
    return sizeof in;
  }
  sockaddr_in6 in{};
  in.sin6_family = AF_INET6;
  in.sin6_port = htons(address.port);
  in.sin6_scope_id = address.scope;
  std::memcpy(&in.sin6_addr, address.bytes, sizeof in.sin6_addr);
  std::memcpy(&to, &in, sizeof in);
  return sizeof in;
}

Result listen_at(Address& address, base::UniqueFd& listening) {
  constexpr int backlog = 4096, yes = 1;
  sockaddr_storage at;
  socklen_t bytes = to_system(address, at);
  listening = base::UniqueFd(socket(address.family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (listening.get() >= 0)
    (void)setsockopt(listening.get(), SOL_SOCKET, SO_REUSEADDR, &yes, sizeof yes);
  if (listening.get() < 0 || bind(listening.get(), reinterpret_cast<sockaddr*>(&at), bytes) != 0 ||
      listen(listening.get(), backlog) != 0)
    return failed(system_error,
                  fmt::format("a port at {}: {}", format_address(address), std::strerror(errno)));
  bytes = sizeof at;
  (void)getsockname(listening.get(), reinterpret_cast<sockaddr*>(&at), &bytes);
  (void)from_system(reinterpret_cast<sockaddr*>(&at), address);
  return success;
}

}  // namespace penstock::nccl

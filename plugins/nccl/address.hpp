// Where a process is reached by TCP. Interfaces are chosen as NCCL chooses them, by
// NCCL_SOCKET_IFNAME.
#pragma once

#include <sys/socket.h>

#include <cstdint>
#include <string>

#include "base/unique_fd.hpp"
#include "nccl/abi.hpp"

namespace penstock::nccl {

/// Stands in unique ids: plain bytes.
struct Address {
  std::uint16_t family = 0;  ///< AF_INET or AF_INET6; 0: none
  std::uint16_t port = 0;
  std::uint32_t scope = 0;  ///< of an address that is an interface's own (IPv6)
  std::uint8_t bytes[16] = {};
};
static_assert(sizeof(Address) == 24);

/// "192.0.2.1:4000", "[2001:db8::1]:4000"
std::string format_address(const Address& address);
/// Of NCCL_COMM_ID: one of the above, or HOST:PORT. Errors: invalid_argument.
Result parse_address(const std::string& text, Address& address);

/// Of this host, port 0: the first interface that is up and that NCCL_SOCKET_IFNAME allows. That
/// is a list of beginnings of names, "=" before it: of whole names; "^" before all: of those not to
/// take. Without it the loopback and those of containers are the last. Errors: invalid_usage.
Result own_address(Address& address);

/// The form of the operating system; its length is returned.
socklen_t to_system(const Address& address, sockaddr_storage& to);
/// Errors: system_error, the port is taken, or the address is none of this host.
Result listen_at(Address& address, base::UniqueFd& listening);

}  // namespace penstock::nccl

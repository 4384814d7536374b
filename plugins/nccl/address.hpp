// The TCP address of a process. Interfaces are chosen as in NCCL, by NCCL_SOCKET_IFNAME.
#pragma once

#include <sys/socket.h>

#include <cstdint>
#include <string>

#include "base/unique_fd.hpp"
#include "nccl/abi.hpp"

namespace penstock::nccl {

/// A TCP address. Part of a unique id, so it is trivially copyable.
struct Address {
  std::uint16_t family = 0;  ///< AF_INET or AF_INET6; 0: none
  std::uint16_t port = 0;
  std::uint32_t scope = 0;  ///< scope id of a link-local IPv6 address
  std::uint8_t bytes[16] = {};
};
static_assert(sizeof(Address) == 24);

/// The address as text: "192.0.2.1:4000" or "[2001:db8::1]:4000".
std::string format_address(const Address& address);
/// Parses the value of NCCL_COMM_ID: the output of format_address(), or HOST:PORT. Errors:
/// invalid_argument.
Result parse_address(const std::string& text, Address& address);

/// Finds an address of this host, with port 0: that of the first interface that is up and that
/// NCCL_SOCKET_IFNAME allows. The variable is a list of name prefixes; a leading "=" makes them
/// whole names, and a leading "^" excludes the names instead. Without the variable, loopback and
/// container interfaces come last. Errors: invalid_usage if no interface qualifies.
Result own_address(Address& address);

/// Converts the address to a sockaddr in `to`. Returns its length in bytes.
socklen_t to_system(const Address& address, sockaddr_storage& to);
/// Opens a listening socket at `address`; port 0 is replaced by a free port. Errors: system_error
/// if the port is in use or the address does not belong to this host.
Result listen_at(Address& address, base::UniqueFd& listening);

}  // namespace penstock::nccl

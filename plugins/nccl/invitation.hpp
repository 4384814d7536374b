// Unique ids of ncclGetUniqueId(), and how a rank gets from an id to the pool. If PENSTOCK_POOL is
// set, the id names that pool. Otherwise, and with NCCL_COMM_ID, the id names a process to ask
// (root.hpp), which makes a temporary pool for its host.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "nccl/abi.hpp"
#include "nccl/address.hpp"
#include "nccl/root.hpp"

namespace penstock::nccl {

struct Invitation {
  static constexpr std::uint64_t our_magic = 0x4b434f54534e4550;  // "PENSTOCK"
  std::uint64_t magic = 0, key = 0, host = 0;
  Address root;              ///< the process to ask; family 0: none
  std::uint64_t is_env = 0;  ///< `root` is the address of NCCL_COMM_ID, where rank 0 listens
  char spec[72] = "";        ///< the inviter's PENSTOCK_POOL, if it fits
};
static_assert(sizeof(Invitation) <= sizeof(UniqueId));

/// Makes a unique id. Errors: those of the pool; no network interface; NCCL_COMM_ID is no address.
Result invite(UniqueId& id);
/// Reads a unique id. Errors: invalid_argument if another library made it.
Result read_invitation(const UniqueId& id, Invitation& invitation);

/// Where the ranks of a communicator meet.
struct Venue {
  std::string spec;
  std::uint64_t key = 0;
  std::unique_ptr<Root> root;  ///< of rank 0 with NCCL_COMM_ID; kept until all ranks have met
};
/// Finds the venue that an invitation names. Setting `aborted` ends a wait for the root. Errors:
/// invalid_usage if this rank and the inviter share no pool; those of ask_root().
Result accept(const Invitation& invitation, int rank, int ranks, const std::atomic<bool>& aborted,
              Venue& venue);

/// The reason why the root refused a rank that this process invited; nullopt if it refused none.
std::optional<std::string> refusal_of(const Invitation& invitation);

}  // namespace penstock::nccl

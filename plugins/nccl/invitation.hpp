// Unique ids: what ncclGetUniqueId() gives out, and how a rank comes from there to the pool. An id
// names the pool where PENSTOCK_POOL does; else, and with NCCL_COMM_ID, it names a process to ask
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
  Address root;              ///< whom to ask; family 0: nobody
  std::uint64_t is_env = 0;  ///< the address is that of NCCL_COMM_ID, where rank 0 listens
  char spec[72] = "";        ///< of the pool that PENSTOCK_POOL named there, where it fits
};
static_assert(sizeof(Invitation) <= sizeof(UniqueId));

/// Errors: those of the pool; no network interface; NCCL_COMM_ID is no address.
Result invite(UniqueId& id);
/// Errors: invalid_argument, an id that another library has made.
Result read_invitation(const UniqueId& id, Invitation& invitation);

/// Where ranks meet.
struct Venue {
  std::string spec;
  std::uint64_t key = 0;
  std::unique_ptr<Root> root;  ///< rank 0's, with NCCL_COMM_ID: kept until all have met
};
/// Errors: invalid_usage, no pool that this rank and the inviter share; those of ask_root().
Result accept(const Invitation& invitation, int rank, int ranks, const std::atomic<bool>& aborted,
              Venue& venue);

/// Why a rank that this process has invited cannot come, if one cannot.
std::optional<std::string> trouble_of(const Invitation& invitation);

}  // namespace penstock::nccl

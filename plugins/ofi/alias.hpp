// Aliases of endpoints (fi_ep_alias): the same endpoint with other default operation flags.
#pragma once

#include <rdma/fi_endpoint.h>

#include "ep.hpp"

namespace penstock::ofi {

struct Alias : fid_ep {
  Ep* original = nullptr;
  std::uint64_t tx_flags = 0, rx_flags = 0;
};

/// FI_ALIAS of fi_control. The flags are FI_TRANSMIT or FI_RECV, plus the default flags of these
/// operations. The caller holds the guard.
int open_alias(Ep& original, const struct fi_alias& wanted);
/// FI_GETOPSFLAG and FI_SETOPSFLAG of fi_control, on an endpoint's or an alias's flags.
int control_flags(int command, std::uint64_t* flags, std::uint64_t& tx_flags,
                  std::uint64_t& rx_flags);

inline const Alias& alias_of(fid_ep* self) {
  return *static_cast<Alias*>(self);
}

extern fi_ops_rma alias_rma_ops;
extern fi_ops_atomic alias_atomic_ops;

}  // namespace penstock::ofi

// Attaching under a given identity: what Pool::attach does under one's own, and what tests do to
// stand for several hosts.
#pragma once

#include <memory>

#include "pool/host_identity.hpp"
#include "pool/pool.hpp"

namespace penstock::pool {

struct Caller {
  HostIdentity host;
  ProcessIdentity process;
};

Result<std::unique_ptr<Pool>> attach_as(const AttachOptions& options, const Caller& caller);

}  // namespace penstock::pool

// Attaching under a given identity: Pool::attach() uses this process's own; tests use others to
// emulate several hosts.
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

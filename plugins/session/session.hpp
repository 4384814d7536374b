// The process's attachment to its pool, shared by all domains; taken at the first domain, given
// back with the last.
#pragma once

#include <memory>
#include <string>

#include "arena/arena.hpp"
#include "launcher.hpp"
#include "pool/pool.hpp"

namespace penstock::plugin {

struct Session {
  std::string spec;
  Launch launch;
  std::unique_ptr<pool::Pool> pool;
  std::unique_ptr<arena::Arena> arena;  // before the pool on the way out
};

/// The session on the pool named by PENSTOCK_POOL, attached if need be. Thread-safe.
Result<std::shared_ptr<Session>> open_session();

/// Facts about the pool that are known without attaching.
struct PoolView {
  bool configured = false;  ///< PENSTOCK_POOL is set
  std::string spec;
  std::uint64_t id = 0;
};
/// Errors: the pool named cannot be used.
Result<PoolView> look_at_pool();

/// With PENSTOCK_REQUIRE a job must not go on over another provider, and a provider has no way to
/// tell MPI so: says why and ends this process (status 78, EX_CONFIG), which ends the job. Does
/// nothing when PENSTOCK_REQUIRE is not set.
void end_process_if_required(const std::string& why);

/// One line on standard error, once a process, by rank 0, when PENSTOCK_SUMMARY is set.
void print_summary(const Session& session);

}  // namespace penstock::plugin

// The pool of a job: a named one, which is checked, or a temporary one, sized for its ranks.
#pragma once

#include <cstdint>
#include <string>

#include "pool/pool.hpp"

namespace penstock::tools {

/// "run-PID-NUMBER", which no other process uses: names a job, or its temporary pool.
std::string unique_name();

/// Bytes that `ranks` ranks need if all of them talk to all, within reason.
std::uint64_t temporary_pool_bytes(std::uint32_t ranks);

/// `mode` as people write it; `bytes` 0: temporary_pool_bytes(ranks).
Result<pool::Info> make_temporary_pool(const std::string& spec, const std::string& mode,
                                       std::uint64_t bytes, std::uint32_t ranks,
                                       std::uint32_t nodes);

/// The requirements of a job on a pool.
struct JobNeeds {
  std::uint32_t ranks = 0;
  std::uint32_t nodes = 0;  ///< emulated nodes
  bool windows = false;     ///< the job's windows lie in the pool too
};

/// Checks an existing pool: it must have the mode (unless ""), and enough nodes and process slots.
Result<pool::Info> check_named_pool(const std::string& spec, const std::string& mode,
                                    const JobNeeds& needs);

}  // namespace penstock::tools

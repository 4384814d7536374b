// Pools in /dev/shm that one process makes for itself: a run's temporary pool, a test's. Their
// names identify their maker: "penstock.run-PID-NNNNNNNN", eight hexadecimal digits. The next sweep
// removes what is left when a maker and its janitor were killed together.
#pragma once

#include <cstdint>
#include <string>

#include "base/unique_fd.hpp"

namespace penstock::pool {

/// While it is open no process sweeps the pool at `path`, whatever process namespace it is in. Not
/// valid where the file cannot be opened.
base::UniqueFd claim_own_pool(const std::string& path);

/// True if process 12 of "run-12-0123abcd" is gone: runs and simulated jobs make such names.
bool maker_is_gone(const std::string& name);

/// Removes what dead makers left, files of simulated nodes too: unclaimed pools of this user to
/// which no living process is attached, whose maker is gone, and which were not just made. Returns
/// the number of files.
std::uint32_t sweep_leftovers(const std::string& folder = "/dev/shm",
                              std::int64_t older_than_s = 10);

}  // namespace penstock::pool

// Pools in /dev/shm that one process makes for itself: a run's temporary pool, a test's. Their
// names tell their maker: "penstock.run-PID-NNNNNNNN", eight hexadecimal digits. What nobody
// removed, its maker and who tidies up behind it being killed together, goes at the next sweep.
#pragma once

#include <cstdint>
#include <string>

#include "base/unique_fd.hpp"

namespace penstock::pool {

/// While it is open nobody sweeps the pool at `path`, whatever process namespace they are in.
/// Not valid where the file cannot be opened.
base::UniqueFd claim_own_pool(const std::string& path);

/// Of "run-12-0123abcd", as a run or a simulated job names what is its own: process 12 is gone.
bool maker_is_gone(const std::string& name);

/// Removes what its maker left, files of simulated nodes too: pools of this user, not claimed, to
/// which nobody who lives is attached, of a process that is gone, and not just made. Gives how many
/// files that were.
std::uint32_t sweep_leftovers(const std::string& folder = "/dev/shm",
                              std::int64_t older_than_s = 10);

}  // namespace penstock::pool

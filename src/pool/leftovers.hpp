// Pools in /dev/shm that one process makes for itself: temporary pools of runs and tests. Their
// names identify their maker: "penstock.run-PID-NNNNNNNN", with eight hexadecimal digits. If a
// maker and its janitor are killed together, the next sweep removes what remains.
#pragma once

#include <cstdint>
#include <string>

#include "base/unique_fd.hpp"

namespace penstock::pool {

/// While the descriptor is open, no process sweeps the pool at `path`, whatever its pid namespace.
/// The result is invalid if the file cannot be opened.
base::UniqueFd claim_own_pool(const std::string& path);

/// True if process 12 of "run-12-0123abcd" has ended. Runs and simulated jobs make such names.
bool maker_has_ended(const std::string& name);

/// Removes leftovers of dead makers, including files of simulated nodes: unclaimed pools of this
/// user with no living attached process, whose maker has ended, and which are older than
/// `older_than_s`. Returns the number of files.
std::uint32_t sweep_leftovers(const std::string& folder = "/dev/shm",
                              std::int64_t older_than_s = 10);

}  // namespace penstock::pool

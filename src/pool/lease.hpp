// The lease: how long a process of another host may show no life before it counts as dead.
#pragma once

#include <algorithm>
#include <cstdint>

#include "base/clock.hpp"
#include "base/env.hpp"

namespace penstock::pool {

/// PENSTOCK_LEASE_MS, in ns. Errors: those of base::env_number().
inline Result<std::uint64_t> lease_from_environment() {
  return PENSTOCK_TRY(base::env_number("PENSTOCK_LEASE_MS")) * 1'000'000;
}

/// Exit status of a process that was declared dead (EX_TEMPFAIL).
inline constexpr int declared_dead_status = 75;

/// Time between two heartbeats of this process.
constexpr std::uint64_t beat_period_ns(std::uint64_t lease_ns) {
  constexpr std::uint64_t shortest_ns = 50'000'000;
  constexpr std::uint64_t longest_ns = 1'000'000'000;
  return std::clamp(lease_ns / 8, shortest_ns, longest_ns);
}

/// Limit of the time that counts between two looks at others. Each beat includes a look, so after a
/// longer step this process did not run.
constexpr std::uint64_t longest_step_ns(std::uint64_t lease_ns) {
  return std::max(lease_ns / 4, 2 * beat_period_ns(lease_ns));
}

/// Limit of a check that continues until the result is certain, which takes a lease. Only a faulty
/// clock reaches it.
constexpr std::uint64_t certainty_limit_ns(std::uint64_t lease_ns) {
  return 8 * lease_ns + 10'000'000'000;
}

/// Much longer than a publish takes to arrive; protocols that rely on time wait this long.
inline constexpr std::uint64_t arrival_ns = 50'000'000;

/// True if a look that began at `since_ns` is still recent: a store that it allows then arrives
/// before any process acts on not having seen it. For processes that may be stopped between look
/// and store.
inline bool is_recent(std::uint64_t since_ns) {
  return base::now_ns() - since_ns < arrival_ns / 2;
}

/// For this long after its last beat no process declares this one dead, whatever the clocks do.
constexpr std::uint64_t certain_ns(std::uint64_t lease_ns) {
  return lease_ns / 2;
}

}  // namespace penstock::pool

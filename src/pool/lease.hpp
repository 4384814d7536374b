// The time after which a process of another host that shows no life counts as dead.
#pragma once

#include <algorithm>
#include <cstdint>

#include "base/clock.hpp"
#include "base/env.hpp"

namespace penstock::pool {

/// PENSTOCK_LEASE_MS, in ns. Error: that of base::env_number().
inline Result<std::uint64_t> lease_from_environment() {
  return PENSTOCK_TRY(base::env_number("PENSTOCK_LEASE_MS")) * 1'000'000;
}

/// Exit status of a process that others have taken for dead (EX_TEMPFAIL).
inline constexpr int given_up_status = 75;

/// Time between two heartbeats of this process.
constexpr std::uint64_t beat_period_ns(std::uint64_t lease_ns) {
  constexpr std::uint64_t shortest_ns = 50'000'000;
  constexpr std::uint64_t longest_ns = 1'000'000'000;
  return std::clamp(lease_ns / 8, shortest_ns, longest_ns);
}

/// The most that counts of the time between two looks at others: a look comes with each beat at
/// least, so a longer step means that this process did not run.
constexpr std::uint64_t longest_step_ns(std::uint64_t lease_ns) {
  return std::max(lease_ns / 4, 2 * beat_period_ns(lease_ns));
}

/// Limit of a check that continues until it is certain, which takes a lease: only a misbehaving
/// clock reaches it.
constexpr std::uint64_t certainty_limit_ns(std::uint64_t lease_ns) {
  return 8 * lease_ns + 10'000'000'000;
}

/// Much longer than a publish takes to arrive: what relies on time waits for so long.
inline constexpr std::uint64_t arrival_ns = 50'000'000;

/// Is a look that began at `since_ns` so new that a store which it allows comes before anybody acts
/// who has not seen it? For processes that are stopped between the look and the store.
inline bool is_just_now(std::uint64_t since_ns) {
  return base::now_ns() - since_ns < arrival_ns / 2;
}

/// No process declares this one dead so soon after its last beat, whatever the clocks do.
constexpr std::uint64_t certain_ns(std::uint64_t lease_ns) {
  return lease_ns / 2;
}

}  // namespace penstock::pool

// How long a process of another host may show no life.
#pragma once

#include <algorithm>
#include <cstdint>

#include "base/env.hpp"

namespace penstock::pool {

/// PENSTOCK_LEASE_MS, in ns. Error: it is no number.
inline Result<std::uint64_t> lease_from_environment() {
  auto ms = base::env_number("PENSTOCK_LEASE_MS");
  if (!ms) return ms;
  return std::clamp<std::uint64_t>(*ms, 1, 1ull << 32) * 1'000'000;
}

}  // namespace penstock::pool

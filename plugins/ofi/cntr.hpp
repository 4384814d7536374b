// Counters of completed operations.
#pragma once

#include <rdma/fi_eq.h>

#include <atomic>
#include <vector>

#include "domain.hpp"

namespace penstock::ofi {

struct Ep;

struct Cntr : fid_cntr {
  Domain* domain = nullptr;
  std::atomic<int> users{0};
  std::atomic<std::uint64_t> value{0}, errors{0};
  std::atomic<std::uint64_t> reported_errors{0};  ///< errors as last reported to the user
  std::vector<Ep*> endpoints;                     ///< endpoints that count here; reading polls them
  std::atomic<bool> of_regions{false};            ///< bound to a region of the domain
  fi_wait_obj wait_object = FI_WAIT_NONE;

  /// Counts one completion. Called only under the domain's guard, so it needs no atomic increment;
  /// readers hold no lock.
  void count() {
    value.store(value.load(std::memory_order_relaxed) + 1, std::memory_order_release);
  }
  void count_error() { errors.fetch_add(1); }
  void progress();
};

}  // namespace penstock::ofi

// The user's overrides of default_plan(): PENSTOCK_COLL_PLAN.
#pragma once

#include <optional>
#include <string_view>

#include "schedule/problem.hpp"

namespace penstock::coll {

struct PlanOverride {
  std::optional<Algorithm> algorithm;
  std::optional<Variant> variant;
  std::optional<bool> turns;
  std::uint64_t chunk_bytes = 0;   ///< most bytes in a chunk, whatever its plan says; 0: not set
  std::uint32_t chunks = 0;        ///< Plan::chunks
  bool slots_only = false;         ///< no call is eager
  std::uint64_t scratch_from = 0;  ///< Plan::scratch_from; 0: not set
  std::uint32_t devices = 0;       ///< at most; 0: not set. Used by code that creates communicators

  /// Keeps the plan's algorithm if the collective does not have the override's. Keeps an eager
  /// plan. `nodes`: two_level is possible. The variants aggregate and naive exist only for
  /// one_shot.
  Plan applied_to(const Plan& plan, const Problem& problem, bool nodes) const;
};

/// Parses "variant=all,chunk=64K,algorithm=two_shot"; "" sets nothing. Errors: invalid_argument,
/// which names the wrong part and the allowed values.
Result<PlanOverride> parse_plan_override(std::string_view text);

}  // namespace penstock::coll

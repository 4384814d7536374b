// What a user asks of plans, in place of what default_plan() takes: PENSTOCK_COLL_PLAN.
#pragma once

#include <optional>
#include <string_view>

#include "coll/problem.hpp"

namespace penstock::coll {

struct PlanOverride {
  std::optional<Algorithm> algorithm;
  std::optional<Variant> variant;
  std::optional<bool> turns;
  std::uint64_t chunk_bytes = 0;  ///< of a chunk at most; 0: not asked for
  std::uint32_t chunks = 0;       ///< Plan::chunks
  bool slots_only = false;        ///< nothing is eager
  std::uint32_t devices = 0;      ///< at most; 0: not asked for. Of who makes communicators

  /// An algorithm that the collective does not have is left as it was, and so is an eager plan.
  /// `nodes`: two_level is possible. The variants aggregate and naive are of one_shot.
  Plan applied_to(const Plan& plan, const Problem& problem, bool nodes) const;
};

/// "variant=all,chunk=64K,algorithm=two_shot"; nothing for "". Errors: invalid_argument, which
/// names the part that is wrong and what can stand there.
Result<PlanOverride> parse_plan_override(std::string_view text);

}  // namespace penstock::coll

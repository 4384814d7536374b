// What a caller of the C interface asks for, checked and in our own types.
#pragma once

#include "coll/communicator.hpp"
#include "coll/fingerprint.hpp"
#include "coll/reduction.hpp"
#include "penstock/collectives.h"

namespace penstock::capi {

inline bool is_reduction(coll::Collective collective) {
  return collective >= coll::Collective::reduce;
}

/// Errors: invalid_argument, which names what was found and what there is.
Result<coll::Reduction> read_reduction(const penstock_call_t& call, std::uint32_t ranks);
Result<void> read_problem(const penstock_call_t& call, const coll::Communicator& core,
                          coll::Problem& problem);
/// Of what the ranks of a reduction must agree on, but for its size.
std::uint64_t fingerprint_of(const coll::Problem& problem, const penstock_call_t& call);

}  // namespace penstock::capi

// Arguments of the C interface, checked and converted to our own types.
#pragma once

#include "coll/communicator.hpp"
#include "coll/fingerprint.hpp"
#include "penstock/collectives.h"
#include "schedule/reduction.hpp"

namespace penstock::capi {

/// Errors: invalid_argument (names the value found and the possible ones).
Result<coll::Reduction> read_reduction(const penstock_call_t& call, std::uint32_t ranks);
Result<void> read_problem(const penstock_call_t& call, const coll::Communicator& core,
                          coll::Problem& problem);
/// Hash of the arguments on which the ranks of a reduction must agree, except its size.
std::uint64_t fingerprint_of(const coll::Problem& problem, const penstock_call_t& call);

}  // namespace penstock::capi

// The owner of a pool. A user who may write to a pool can read and change a job's data in it, so a
// job uses only pools of its own user, of root, and of users that its user trusts.
#pragma once

#include <vector>

#include "pool/part.hpp"

namespace penstock::pool {

Owner owner_of(const OpenPart& part);
/// nullopt if the pool may be used; otherwise the problem and how to allow the use. `trusted`: in
/// the form of PENSTOCK_TRUST_OWNER.
std::optional<std::string> reason_to_distrust(const Owner& owner, const Part& part,
                                              std::string_view trusted);
/// Checks all parts. Errors: permission.
Result<void> check_owners(const std::vector<OpenPart>& parts, const std::string& spec);

}  // namespace penstock::pool

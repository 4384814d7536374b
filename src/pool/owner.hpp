// The owner of a pool. A user that may write to it can read and change what a job stores there, so
// a job takes only pools of its own user, of root, and of the users that its user names.
#pragma once

#include <vector>

#include "pool/part.hpp"

namespace penstock::pool {

Owner owner_of(const OpenPart& part);
/// Nullopt when the pool may be used; else the problem and what allows the use. `trusted` as in
/// PENSTOCK_TRUST_OWNER.
std::optional<std::string> distrust(const Owner& owner, const Part& part, std::string_view trusted);
/// Checks all parts. Errors: permission.
Result<void> check_owners(const std::vector<OpenPart>& parts, const std::string& spec);

}  // namespace penstock::pool

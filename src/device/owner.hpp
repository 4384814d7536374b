// The owner of a pool. A user who may write to a pool can read and change a job's data in it, so a
// job uses only pools of its own user, of root, and of users that its user trusts.
#pragma once

#include <vector>

#include "device/part.hpp"

namespace penstock::device {

/// The owner of a pool in the file system.
struct Owner {
  std::uint32_t uid = 0, gid = 0;
  std::uint32_t permissions = 0;
  std::string text() const;  ///< "root:lab 0660"
};
std::string user_name(std::uint32_t uid);   ///< "uid 1234" if it has no name
std::string group_name(std::uint32_t gid);  ///< likewise

Owner owner_of(const OpenPart& part);
/// nullopt if the pool may be used; otherwise the problem and how to allow the use. `trusted`: in
/// the form of PENSTOCK_TRUST_OWNER.
std::optional<std::string> reason_to_distrust(const Owner& owner, const Part& part,
                                              std::string_view trusted);
/// Checks all parts. Errors: permission.
Result<void> check_owners(const std::vector<OpenPart>& parts, const std::string& spec);
/// Checks whether this user's jobs may use the pool. Attaching includes this check; inspecting does
/// not. Errors: permission (the owner is neither this user nor root nor in PENSTOCK_TRUST_OWNER, or
/// all users may write to the pool).
Result<void> check_owner(const std::string& spec);
/// True if PENSTOCK_TRUST_OWNER accepts `name`: a user or a :GROUP, by name or number, or
/// everybody.
bool can_be_trusted(const std::string& name);

}  // namespace penstock::device

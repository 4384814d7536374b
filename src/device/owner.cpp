#include "device/owner.hpp"

#include <grp.h>
#include <pwd.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "base/env.hpp"
#include "base/format.hpp"

namespace penstock::device {
namespace {

constexpr std::uint32_t group_may_write = 0020, others_may_write = 0002;

/// The form in which PENSTOCK_TRUST_OWNER accepts this name.
std::string written(const std::string& name, std::uint32_t number) {
  return name.find(' ') == std::string::npos ? name : std::to_string(number);
}

/// True if the comma-separated list contains `wanted`.
bool names(std::string_view list, std::string_view wanted) {
  while (!list.empty()) {
    const std::string_view entry = list.substr(0, list.find(','));
    if (entry == wanted) return true;
    list.remove_prefix(std::min(entry.size() + 1, list.size()));
  }
  return false;
}

}  // namespace

std::string user_name(std::uint32_t uid) {
  passwd entry, *found = nullptr;
  char buffer[4096];
  ::getpwuid_r(uid, &entry, buffer, sizeof buffer, &found);
  return found != nullptr ? std::string(found->pw_name) : fmt::format("uid {}", uid);
}

std::string group_name(std::uint32_t gid) {
  group entry, *found = nullptr;
  char buffer[4096];
  ::getgrgid_r(gid, &entry, buffer, sizeof buffer, &found);
  return found != nullptr ? std::string(found->gr_name) : fmt::format("gid {}", gid);
}

bool can_be_trusted(const std::string& name) {
  const bool is_group = name.starts_with(":");
  const std::string entry = name.substr(is_group ? 1 : 0);
  if (entry.empty()) return false;
  if (entry.find_first_not_of("0123456789") == entry.npos || name == "everybody") return true;
  char buffer[4096];
  if (is_group) {
    group of_group, *found = nullptr;
    ::getgrnam_r(entry.c_str(), &of_group, buffer, sizeof buffer, &found);
    return found != nullptr;
  }
  passwd user, *found = nullptr;
  ::getpwnam_r(entry.c_str(), &user, buffer, sizeof buffer, &found);
  return found != nullptr;
}

std::string Owner::text() const {
  return fmt::format("{}:{} {:04o}", user_name(uid), group_name(gid), permissions);
}

Owner owner_of(const OpenPart& part) {
  struct stat status;
  if (::fstat(part.fd.get(), &status) != 0) return {};
  return {.uid = status.st_uid, .gid = status.st_gid, .permissions = status.st_mode & 07777};
}

std::optional<std::string> reason_to_distrust(const Owner& owner, const Part& part,
                                              std::string_view trusted) {
  if (names(trusted, "everybody")) return std::nullopt;
  if ((owner.permissions & others_may_write) != 0) {
    return fmt::format(
        "{} belongs to {}: everybody on this host may read and change what a job stores there; its "
        "owner runs: chmod o-rw {} (to use it anyway: --trust-owner everybody, or export "
        "PENSTOCK_TRUST_OWNER=everybody)",
        part.path, owner.text(), base::shell_quote(part.path));
  }
  if (owner.uid == ::geteuid() || owner.uid == 0) return std::nullopt;
  const std::string user = written(user_name(owner.uid), owner.uid);
  const std::string group = written(group_name(owner.gid), owner.gid);
  if (names(trusted, user) || names(trusted, std::to_string(owner.uid))) return std::nullopt;
  const bool of_group = (owner.permissions & group_may_write) != 0;
  if (of_group && names(trusted, ":" + group)) return std::nullopt;
  return fmt::format(
      "{} belongs to {}, who may read and change what a job of user {} stores there; if it is "
      "meant "
      "to be used: --trust-owner {}{}, or export PENSTOCK_TRUST_OWNER={}",
      part.path, owner.text(), user_name(::geteuid()), user,
      of_group ? fmt::format(" (or :{}, its group)", group) : "", user);
}

Result<void> check_owners(const std::vector<OpenPart>& parts, const std::string& spec) {
  const std::string trusted = base::env_text("PENSTOCK_TRUST_OWNER");
  for (const OpenPart& part : parts) {
    const auto why = reason_to_distrust(owner_of(part), part.part, trusted);
    if (why) return fail(ErrorCode::permission, "pool {} is not used: {}", spec, *why);
  }
  return {};
}

Result<void> check_owner(const std::string& spec) {
  auto parts = PENSTOCK_TRY(open_parts(spec, Access::read));
  return check_owners(parts, spec);
}

}  // namespace penstock::device

// The number of CPUs available to this process: affinity, cpuset and quota.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace penstock::base {

/// CPUs that all processes of this container or machine share: those online, bounded by the
/// cgroup's cpuset and quota. Unlike usable_cpus(), it ignores this process's own affinity: a rank
/// that is pinned to one core still has peers that run on the others. Read at the first call.
std::uint32_t shared_cpus();

/// "0-3,8" -> 0, 1, 2, 3, 8; nullopt if it is not such a list, or is empty.
std::optional<std::vector<int>> parse_cpu_list(std::string_view text);

// The parts of these functions, declared here for their tests.

/// Number of CPUs in "0-3,8"; nullopt if it is not such a list.
std::optional<std::uint32_t> count_cpu_list(std::string_view text);
/// "150000 100000" -> 1, "max 100000" -> nullopt. Rounded down to whole CPUs, but at least 1.
std::optional<std::uint32_t> parse_quota(std::string_view text);

struct CgroupLimits {
  std::optional<std::uint32_t> quota;   ///< whole CPUs
  std::optional<std::uint32_t> cpuset;  ///< CPUs
};
/// Limits of the cgroup that `membership` (text of /proc/self/cgroup) names below `root`
/// (/sys/fs/cgroup) and of the groups above it, versions 1 and 2.
CgroupLimits cgroup_limits(const std::string& root, std::string_view membership);

}  // namespace penstock::base

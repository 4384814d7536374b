#include "base/cpus.hpp"

#include <sched.h>
#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <memory>

#include "base/file.hpp"
#include "base/wait.hpp"

namespace penstock::base {
namespace {

std::optional<std::string> read_text(const std::string& path) {
  std::string text = read_file(path);
  if (text.empty()) return std::nullopt;
  while (!text.empty() && (text.back() == '\n' || text.back() == ' ')) text.pop_back();
  return text;
}

std::optional<std::int64_t> parse_integer(std::string_view text) {
  std::int64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return value;
}

void keep_smaller(std::optional<std::uint32_t>& limit, std::optional<std::uint32_t> other) {
  if (other && *other > 0) limit = limit ? std::min(*limit, *other) : *other;
}

std::optional<std::uint32_t> read_quota(const std::string& folder) {
  if (const auto v2 = read_text(folder + "/cpu.max")) return parse_quota(*v2);
  const auto quota = read_text(folder + "/cpu.cfs_quota_us");
  const auto period = read_text(folder + "/cpu.cfs_period_us");
  if (!quota || !period) return std::nullopt;
  return parse_quota(*quota + " " + *period);
}

std::optional<std::uint32_t> read_cpuset(const std::string& folder) {
  for (const char* name : {"/cpuset.cpus.effective", "/cpuset.effective_cpus", "/cpuset.cpus"}) {
    if (const auto text = read_text(folder + name)) return count_cpu_list(*text);
  }
  return std::nullopt;
}

/// Adds the limits of the group and of all groups above it: each of them binds. Inside a container
/// the path may name folders that only the host sees; absent folders are skipped.
void add_limits(CgroupLimits& limits, const std::string& mount, std::string path) {
  while (true) {
    keep_smaller(limits.quota, read_quota(mount + path));
    keep_smaller(limits.cpuset, read_cpuset(mount + path));
    const auto slash = path.rfind('/');
    if (path.empty() || slash == std::string::npos) return;
    path.resize(slash);
  }
}

std::uint32_t affinity_cpus() {
  for (int size = 1024; size <= 1 << 18; size *= 4) {
    const std::unique_ptr<cpu_set_t, void (*)(cpu_set_t*)> set(CPU_ALLOC(size),
                                                               [](cpu_set_t* s) { CPU_FREE(s); });
    if (!set) break;
    if (sched_getaffinity(0, CPU_ALLOC_SIZE(size), set.get()) == 0) {
      return static_cast<std::uint32_t>(std::max(1, CPU_COUNT_S(CPU_ALLOC_SIZE(size), set.get())));
    }
  }
  return static_cast<std::uint32_t>(std::max(1l, sysconf(_SC_NPROCESSORS_ONLN)));
}

const CgroupLimits& own_limits() {
  static const CgroupLimits limits =
      cgroup_limits("/sys/fs/cgroup", read_text("/proc/self/cgroup").value_or(""));
  return limits;
}

}  // namespace

std::optional<std::vector<int>> parse_cpu_list(std::string_view text) {
  std::vector<int> cpus;
  while (!text.empty()) {
    const std::string_view item = text.substr(0, text.find(','));
    text.remove_prefix(std::min(text.size(), item.size() + 1));
    const auto dash = item.find('-');
    const auto first = parse_integer(item.substr(0, dash));
    const auto last = dash == item.npos ? first : parse_integer(item.substr(dash + 1));
    if (!first || !last || *first < 0 || *last < *first || *last > 1 << 20) return std::nullopt;
    for (auto cpu = *first; cpu <= *last; ++cpu) cpus.push_back(static_cast<int>(cpu));
  }
  return cpus.empty() ? std::nullopt : std::optional(std::move(cpus));
}

std::optional<std::uint32_t> count_cpu_list(std::string_view text) {
  const auto cpus = parse_cpu_list(text);
  return cpus ? std::optional(static_cast<std::uint32_t>(cpus->size())) : std::nullopt;
}

std::optional<std::uint32_t> parse_quota(std::string_view text) {
  const auto space = text.find(' ');
  if (space == text.npos) return std::nullopt;
  const auto quota = parse_integer(text.substr(0, space));  // "max" or -1: unlimited
  const auto period = parse_integer(text.substr(space + 1));
  if (!quota || !period || *quota <= 0 || *period <= 0) return std::nullopt;
  return static_cast<std::uint32_t>(std::clamp<std::int64_t>(*quota / *period, 1, 1 << 20));
}

CgroupLimits cgroup_limits(const std::string& root, std::string_view membership) {
  CgroupLimits limits;
  while (!membership.empty()) {  // "4:cpu,cpuacct:/path" or "0::/path"
    const std::string_view line = membership.substr(0, membership.find('\n'));
    membership.remove_prefix(std::min(membership.size(), line.size() + 1));
    const auto first = line.find(':');
    const auto second = first == line.npos ? line.npos : line.find(':', first + 1);
    if (second == line.npos) continue;
    const std::string controllers(line.substr(first + 1, second - first - 1));
    std::string path(line.substr(second + 1));
    if (path == "/") path.clear();
    add_limits(limits, controllers.empty() ? root : root + "/" + controllers, path);
  }
  return limits;
}

std::uint32_t usable_cpus() {
  const std::uint32_t cpus = affinity_cpus();
  return std::min(cpus, own_limits().quota.value_or(cpus));
}

std::uint32_t shared_cpus() {
  static const std::uint32_t shared = [] {
    const auto cpus = static_cast<std::uint32_t>(std::max(1l, sysconf(_SC_NPROCESSORS_ONLN)));
    const CgroupLimits& limits = own_limits();
    return std::min({cpus, limits.cpuset.value_or(cpus), limits.quota.value_or(cpus)});
  }();
  return shared;
}

}  // namespace penstock::base

// Host settings that remove or limit pools: logind at logout, cgroups.
#include <dirent.h>
#include <pwd.h>
#include <unistd.h>

#include <algorithm>
#include <cctype>
#include <charconv>
#include <map>
#include <sstream>

#include "base/file.hpp"
#include "command.hpp"
#include "doctor.hpp"
#include "locations.hpp"

namespace penstock::tools {
namespace {

std::string trimmed(std::string text) {
  const auto blank = [](unsigned char c) { return std::isspace(c) != 0; };
  while (!text.empty() && blank(static_cast<unsigned char>(text.back()))) text.pop_back();
  const auto first = std::find_if_not(text.begin(), text.end(), blank);
  text.erase(text.begin(), first);
  return text;
}

/// The last RemoveIPC= in the [Login] section of a file; "" if there is none.
std::string remove_ipc_in(const std::string& file) {
  std::istringstream lines(base::read_file(file));
  std::string line, section, value;
  while (std::getline(lines, line)) {
    line = trimmed(line);
    if (line.starts_with("[")) section = line;
    const std::size_t equals = line.find('=');
    if (section != "[Login]" || equals == std::string::npos) continue;
    if (trimmed(line.substr(0, equals)) == "RemoveIPC") value = trimmed(line.substr(equals + 1));
  }
  return value;
}

/// In logind's order: the main file, then all drop-ins by name; /etc hides /run and /usr.
std::string remove_ipc(const std::string& system) {
  std::string value = remove_ipc_in(system + "/etc/systemd/logind.conf");
  std::map<std::string, std::string> drop_ins;
  for (const char* folder : {"/usr/lib", "/run", "/etc"}) {
    const std::string path = system + folder + "/systemd/logind.conf.d";
    DIR* list = opendir(path.c_str());
    if (!list) continue;
    while (const dirent* entry = readdir(list)) {
      const std::string name = entry->d_name;
      if (name.ends_with(".conf")) drop_ins[name] = path + "/" + name;
    }
    closedir(list);
  }
  for (const auto& [name, path] : drop_ins) {
    if (const std::string found = remove_ipc_in(path); !found.empty()) value = found;
  }
  return value;
}

bool means_no(std::string value) {
  std::transform(value.begin(), value.end(), value.begin(),
                 [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  return value == "no" || value == "false" || value == "off" || value == "0" || value == "n" ||
         value == "f";
}

/// The lowest limit in the files from this process's cgroup up to the root; nullopt if there is
/// none.
std::optional<std::uint64_t> least_limit(std::string folder, std::size_t root,
                                         const std::string& file) {
  constexpr std::uint64_t as_good_as_none = std::uint64_t{1} << 60;  // version 1 says "no limit" by
                                                                     // such a number, in pages
  std::optional<std::uint64_t> least;
  for (;;) {
    const std::string text = trimmed(base::read_file(folder + "/" + file));
    std::uint64_t value = 0;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
    if (error == std::errc() && end == text.data() + text.size() && value < as_good_as_none) {
      least = std::min(least.value_or(value), value);
    }
    if (folder.size() <= root) return least;
    folder.resize(std::max(root, folder.rfind('/')));
  }
}

struct Limits {
  std::optional<std::uint64_t> memory, processes;
};

Limits cgroup_limits(const Roots& roots) {
  Limits limits;
  const auto take = [](std::optional<std::uint64_t>& to, std::optional<std::uint64_t> found) {
    if (found) to = std::min(to.value_or(*found), *found);
  };
  const std::string top = roots.sys + "/fs/cgroup";
  std::istringstream lines(base::read_file(roots.proc + "/self/cgroup"));
  std::string line;
  while (std::getline(lines, line)) {
    // "0::/user.slice" of version 2, "4:memory:/job" of version 1
    const std::size_t first = line.find(':'), second = line.find(':', first + 1);
    if (first == std::string::npos || second == std::string::npos) continue;
    const std::string kinds = "," + line.substr(first + 1, second - first - 1) + ",";
    std::string path = line.substr(second + 1);
    if (path == "/") path.clear();
    if (kinds == ",,") {
      take(limits.memory, least_limit(top + path, top.size(), "memory.max"));
      take(limits.processes, least_limit(top + path, top.size(), "pids.max"));
    }
    for (const auto& [kind, file, to] :
         {std::tuple{"memory", "memory.limit_in_bytes", &limits.memory},
          {"pids", "pids.max", &limits.processes}}) {
      if (kinds.find(fmt::format(",{},", kind)) == std::string::npos) continue;
      const std::string root = top + "/" + kind;
      take(*to, least_limit(root + path, root.size(), file));
    }
  }
  return limits;
}

/// Bytes of a pool that lies in this host's memory; 0 for others.
std::uint64_t memory_of_pool(const std::string& spec) {
  const auto parts = device::parse_spec(spec);
  const auto info = parts ? pool::inspect(spec) : tl::unexpected(parts.error());
  if (!info || parts->front().kind != device::Part::Kind::shm) return 0;
  return info->bytes;
}

}  // namespace

void check_logout(Findings& findings, const Roots& roots, unsigned user) {
  constexpr unsigned last_system_user = 999;
  if (!is_folder(roots.system + "/run/systemd/seats")) return;  // this host has no logind
  const std::string value = remove_ipc(roots.system);
  if (user <= last_system_user || means_no(value)) {
    return findings.ok(fmt::format("logout: shm: pools stay ({})",
                                   means_no(value) ? "RemoveIPC=" + value : "a system user's"));
  }
  findings.warn(
      fmt::format("logout: logind removes your shm: pools when your last login ends (RemoveIPC={})",
                  value.empty() ? "yes, the default" : value),
      "sudo loginctl enable-linger $(id -un), or RemoveIPC=no in /etc/systemd/logind.conf and sudo "
      "systemctl restart systemd-logind, or a pool in a file");
}

void check_cgroup(Findings& findings, const Roots& roots, const std::string& spec) {
  constexpr std::uint64_t small_memory = 256ull << 20, few_processes = 64;
  const Limits limits = cgroup_limits(roots);
  const std::string what = fmt::format(
      "cgroup: {} memory, {} processes and threads",
      limits.memory ? "at most " + about(*limits.memory) : "unlimited",
      limits.processes ? fmt::format("at most {}", *limits.processes) : std::string("unlimited"));
  const std::uint64_t pool = spec.empty() ? 0 : memory_of_pool(spec);
  if (limits.memory && *limits.memory < pool) {
    return findings.fail(fmt::format("{}: less than the {} of pool {}, whose use would end "
                                     "processes",
                                     what, about(pool), spec),
                         "docker run --memory, the scheduler's --mem, or a smaller pool");
  }
  if (limits.memory && *limits.memory < small_memory) {
    return findings.warn(what + ": room for small shm: pools only, which count",
                         "docker run --memory, or the scheduler's --mem");
  }
  if (limits.processes && *limits.processes < few_processes) {
    return findings.warn(what + ": each rank has several threads",
                         "docker run --pids-limit, or systemd's TasksMax=");
  }
  findings.ok(what);
}

}  // namespace penstock::tools

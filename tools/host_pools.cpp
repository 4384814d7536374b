#include "host_pools.hpp"

#include <dirent.h>
#include <fmt/core.h>
#include <fmt/ranges.h>
#include <unistd.h>

#include <algorithm>
#include <set>

#include "base/env.hpp"
#include "command.hpp"
#include "devices.hpp"
#include "pool/members.hpp"

namespace penstock::tools {
namespace {

std::set<std::string> in_shared_memory() {
  constexpr std::string_view prefix = "penstock.";
  std::set<std::string> specs;
  DIR* folder = opendir("/dev/shm");
  if (!folder) return specs;
  while (const dirent* entry = readdir(folder)) {
    const std::string_view name = entry->d_name;
    if (name.starts_with(prefix)) specs.insert("shm:" + std::string(name.substr(prefix.size())));
  }
  closedir(folder);
  return specs;
}

/// Whether the file is not a pool by itself: a part of another pool, or a file beside one.
bool is_none(const Error& error) {
  return error.code == ErrorCode::wrong_format || error.code == ErrorCode::not_found ||
         error.code == ErrorCode::invalid_argument;
}

}  // namespace

void Refusals::add(const std::string& spec, const Error& error) {
  if (error.code == ErrorCode::permission) {
    closed_.push_back(spec);
  } else {
    fmt::print(stderr, "penstock: warn: {}\n", error.message);
  }
}

Refusals::~Refusals() {
  if (closed_.empty()) return;
  std::fflush(stdout);
  fmt::print(stderr, "penstock: warn: user {} may not read {}: {}; why: penstock pool info {}\n",
             device::user_name(::geteuid()), counted(closed_.size(), "more pool"),
             fmt::join(closed_, ", "), closed_.front());
}

std::vector<HostPool> host_pools() {
  std::set<std::string> specs = in_shared_memory();
  for (const DaxDevice& device : dax_devices(Roots{}))
    if (!device.pool.empty()) specs.insert(device.path);
  const std::string set = base::env_text("PENSTOCK_POOL");
  if (!set.empty()) specs.insert(set);
  std::vector<HostPool> found;
  for (const std::string& spec : specs) {
    auto info = pool::inspect(spec);
    if (info || spec == set || !is_none(info.error())) found.push_back({spec, std::move(info)});
  }
  return found;
}

namespace {

bool is_in_use(const std::string& spec) {
  const auto pool = observe(spec);
  if (!pool) return false;
  const auto records = (*pool)->members().processes();
  return std::any_of(records.begin(), records.end(),
                     [](const pool::ProcessRecord& record) { return record.attached; });
}

}  // namespace

Result<std::string> named_or_only(const std::string& named, const std::string& command) {
  if (std::string spec = named_or_set(named); !spec.empty()) return spec;
  std::vector<std::string> specs, in_use;
  for (const HostPool& each : host_pools()) {
    if (!each.info) continue;
    specs.push_back(each.spec);
    if (is_in_use(each.spec)) in_use.push_back(each.spec);
  }
  const std::vector<std::string>& candidates = in_use.empty() ? specs : in_use;
  if (candidates.size() == 1) return candidates.front();
  if (candidates.empty()) {
    return fail(
        ErrorCode::not_found,
        "no pool is named, and none is in /dev/shm or on a device of this host: {} FILE for a "
        "pool in a file, or penstock pool create SPEC --size 2G",
        command);
  }
  return fail(ErrorCode::not_found,
              "of which pool? {} are {}on this host: {}; {} SPEC, or export PENSTOCK_POOL=SPEC",
              candidates.size(), in_use.empty() ? "" : "in use ", fmt::join(candidates, ", "),
              command);
}

}  // namespace penstock::tools

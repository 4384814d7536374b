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

/// Not a pool, or never one of its own: a part of another, what stands beside one.
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
             pool::user_name(::geteuid()), counted(closed_.size(), "more pool"),
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

}  // namespace penstock::tools

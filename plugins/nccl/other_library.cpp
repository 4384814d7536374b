#include "nccl/other_library.hpp"

#include <dlfcn.h>

#include <algorithm>
#include <climits>
#include <cstdlib>
#include <string>
#include <vector>

#include "base/env.hpp"
#include "base/format.hpp"
#include "base/found.hpp"
#include "nccl/outcome.hpp"

namespace penstock::nccl {

namespace {

std::string resolved(const std::string& path) {
  char full[PATH_MAX];
  return realpath(path.c_str(), full) != nullptr ? full : path;
}

/// Where this very library lies.
std::string own_path() {
  Dl_info found{};
  return dladdr(reinterpret_cast<void*>(&own_path), &found) != 0 ? resolved(found.dli_fname) : "";
}

struct Loaded {
  OtherLibrary library;
  bool is_there = false;
  std::string error;
};

Loaded load() {
  Loaded loaded;
  const std::string path = base::env_text("PENSTOCK_NCCL_LOCAL");
  if (path.empty() || resolved(path) == own_path()) return loaded;
  // With its own names first: ours are in front of them for the rest of the process.
  void* const handle = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL | RTLD_DEEPBIND);
  if (handle == nullptr) {
    loaded.error = fmt::format("PENSTOCK_NCCL_LOCAL: {}", dlerror());
    return loaded;
  }
  OtherLibrary& to = loaded.library;
  const auto find = [&](const char* name) {
    void* const found = dlsym(handle, name);
    if (found == nullptr && loaded.error.empty())
      loaded.error = fmt::format("PENSTOCK_NCCL_LOCAL: {} has no function {}", path, name);
    return found;
  };
#define PENSTOCK_OTHER(name, arguments) \
  to.name = reinterpret_cast<Result(*) arguments>(find("nccl" #name));
#include "nccl/other_table.inc"
#undef PENSTOCK_OTHER
  to.GetLastError = reinterpret_cast<const char* (*)(OtherComm*)>(find("ncclGetLastError"));
  loaded.is_there = loaded.error.empty();
  return loaded;
}

/// Sent by each rank to all others.
struct Home {
  std::uint64_t host = 0;
  UniqueId id{};
};
static_assert(sizeof(Home) <= Meeting::max_bytes);

}  // namespace

Result OtherLibrary::get(const OtherLibrary** library) {
  static constinit base::Found<Loaded> found;
  const Loaded& loaded = found.get(load);
  *library = loaded.is_there ? &loaded.library : nullptr;
  return loaded.error.empty() ? success : failed(invalid_usage, loaded.error);
}

Result OtherLibrary::passed_on(Result result, const char* call, OtherComm* comm) const {
  if (result == success || result == in_progress) return result;
  return failed(result, fmt::format("{}: {}", call, GetLastError(comm)));
}

Result make_other(const OtherLibrary& library, Meeting& meeting, int rank, int ranks,
                  OtherComm** comm) {
  *comm = nullptr;
  Home own{.host = this_host()};
  Result result = success;
  if (rank == 0)
    result = library.passed_on(library.GetUniqueId(&own.id), "ncclGetUniqueId", nullptr);
  if (result != success) own.host = 0;  // on no host: ours carries it
  std::vector<Home> homes(static_cast<std::size_t>(ranks));
  if (const Result met = meeting.exchange(&own, homes.data(), sizeof own); met != success)
    return met;
  const bool together = std::all_of(homes.begin(), homes.end(), [&](const Home& home) {
    return home.host != 0 && home.host == homes[0].host;
  });
  if (!together) return success;
  return library.passed_on(library.CommInitRank(comm, ranks, homes[0].id, rank), "ncclCommInitRank",
                           nullptr);
}

}  // namespace penstock::nccl

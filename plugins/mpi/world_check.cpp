#include "world_check.hpp"

#include <dlfcn.h>

#include <cstdlib>

#include "attachment.hpp"
#include "base/env.hpp"
#include "base/format.hpp"
#include "base/log.hpp"
#include "fallback.hpp"
#include "pmpi.hpp"
#include "session/launcher.hpp"

namespace penstock::mpi {

namespace {

/// True if the MPI has opened the libfabric provider. libfabric loads it with RTLD_LOCAL, so we
/// find it by its file name.
bool provider_is_taken() {
  void* const provider = ::dlopen("libpenstock-fi.so", RTLD_LAZY | RTLD_NOLOAD);
  if (provider == nullptr) return false;
  using Domains = unsigned();
  auto* const domains = reinterpret_cast<Domains*>(::dlsym(provider, "penstock_provider_domains"));
  const bool is_taken = domains == nullptr || domains() != 0;
  ::dlclose(provider);
  return is_taken;
}

std::string variable(const char* name) {
  const char* const value = std::getenv(name);
  return value != nullptr ? value : "";
}

/// Reports a process that is alone in MPI_COMM_WORLD: under another MPI's launcher the processes do
/// not find each other.
void check_alone() {
  const std::int32_t started = plugin::ranks_started(plugin::process_sources());
  if (started < 2) return;
  refuse(
      fmt::format("the launcher has started {} processes, and each is alone in MPI_COMM_WORLD: {} "
                  "({}) is not the launcher's MPI; run the program by its own MPI's mpiexec "
                  "(penstock run --mpi mpich, openmpi or intel, or --mpiexec PATH)",
                  started, library().file, library().version));
}

void check_messages(int rank) {
  if (provider_is_taken()) return;
  const std::string why = fmt::format(
      "messages of {} go past the pool {}: it has not taken libfabric's provider penstock "
      "(FI_PROVIDER is '{}'; MPIR_CVAR_CH4_NETMOD is '{}', and MPICH's wheel takes UCX without "
      "=ofi); start the job by 'penstock run', or set what 'penstock env' prints",
      library().version, base::env_text("PENSTOCK_POOL"), variable("FI_PROVIDER"),
      variable("MPIR_CVAR_CH4_NETMOD"));
  plugin::end_process_if_required(why);
  if (rank == 0) base::log(base::Level::warn, "{}", why);
}

}  // namespace

void check_world() {
  if (!pool_is_named() && !base::env_flag("PENSTOCK_REQUIRE")) return;
  int rank = 0, ranks = 1;
  pmpi().Comm_rank(constants().comm_world, &rank);
  pmpi().Comm_size(constants().comm_world, &ranks);
  if (ranks == 1)
    check_alone();
  else
    check_messages(rank);
}

}  // namespace penstock::mpi

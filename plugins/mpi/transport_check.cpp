#include "transport_check.hpp"

#include <dlfcn.h>

#include <cstdlib>

#include "attachment.hpp"
#include "base/env.hpp"
#include "base/format.hpp"
#include "base/log.hpp"
#include "pmpi.hpp"

namespace penstock::mpi {

namespace {

/// libfabric loads the provider into a scope of its own.
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

}  // namespace

void check_transport() {
  if (!pool_is_named() && !base::env_flag("PENSTOCK_REQUIRE")) return;
  int rank = 0, ranks = 1;
  pmpi().Comm_rank(constants().comm_world, &rank);
  pmpi().Comm_size(constants().comm_world, &ranks);
  if (ranks < 2 || provider_is_taken()) return;
  const std::string why = fmt::format(
      "messages of {} go past the pool {}: it has not taken libfabric's provider penstock "
      "(FI_PROVIDER is '{}'; MPIR_CVAR_CH4_NETMOD is '{}', and MPICH's wheel takes UCX without "
      "=ofi); start the job by 'penstock run', or set what 'penstock env' prints",
      library().version, base::env_text("PENSTOCK_POOL"), variable("FI_PROVIDER"),
      variable("MPIR_CVAR_CH4_NETMOD"));
  plugin::end_process_if_required(why);
  if (rank == 0) base::log(base::Level::warn, "{}", why);
}

}  // namespace penstock::mpi

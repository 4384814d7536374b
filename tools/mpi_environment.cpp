#include "mpi_environment.hpp"

#include "base/env.hpp"
#include "locations.hpp"

namespace penstock::tools {

Result<Environment> mpich_environment(const MpiRuntime& runtime, const JobEnvironment& job) {
  auto provider = provider_library();
  if (!provider) return tl::unexpected(provider.error());
  Environment environment;
  auto set = [&](const char* name, std::string value) {
    environment.emplace_back(name, std::move(value));
  };
  // The variable replaces libfabric's own folder, so that one is named behind ours.
  std::string folders = folder_of(*provider);
  if (!runtime.provider_folder.empty()) folders += ":" + runtime.provider_folder;
  set("FI_PROVIDER_PATH", folders);
  set("FI_PROVIDER", "penstock");
  // MPICH otherwise takes UCX without a word where it was built with both.
  set("MPIR_CVAR_CH4_NETMOD", "ofi");
  if (job.nodes == 1) {
    // One node, and still no message by MPICH's own shared memory.
    set("MPIR_CVAR_NOLOCAL", "1");
  } else if (job.nodes > 1) {
    set("MPIR_CVAR_NUM_CLIQUES", std::to_string(job.nodes));
    set("MPIR_CVAR_CLIQUES_BY_BLOCK", "1");
  }
  set("PENSTOCK_POOL", job.pool);
  if (job.nodes > 0) set("PENSTOCK_NODES", std::to_string(job.nodes));
  if (!job.job.empty()) set("PENSTOCK_JOB", job.job);
  if (!job.mode.empty()) set("PENSTOCK_MODE", job.mode);
  if (!job.roll.empty()) set("PENSTOCK_ROLL", job.roll);
  set("PENSTOCK_REQUIRE", job.require ? "1" : "0");
  return environment;
}

}  // namespace penstock::tools

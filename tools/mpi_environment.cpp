#include "mpi_environment.hpp"

#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <string_view>

#include "base/env.hpp"
#include "base/format.hpp"
#include "locations.hpp"

namespace penstock::tools {
namespace {

/// LD_PRELOAD without Penstock's libraries, which an earlier `penstock env` may have put there.
struct Preloads {
  std::string others;
  bool ours = false;

  Preloads() {
    const char* text = std::getenv("LD_PRELOAD");
    std::string_view rest = text != nullptr ? text : "";
    while (!rest.empty()) {
      const std::string_view entry = rest.substr(0, rest.find_first_of(" :"));
      rest.remove_prefix(std::min(entry.size() + 1, rest.size()));
      const std::string_view name = name_of(entry);
      if (name == window_library_name || entry.ends_with("/penstock/nccl/libnccl.so.2")) {
        ours = true;
      } else if (!entry.empty()) {
        others += (others.empty() ? "" : ":") + std::string(entry);
      }
    }
  }
};

class Builder {
 public:
  void set(const char* name, std::string value) {
    environment_.emplace_back(name, std::move(value));
  }
  void set_if_unset(const char* name, std::string value) {
    if (std::getenv(name) == nullptr) set(name, std::move(value));
  }
  void unset(const char* name) {
    if (std::getenv(name) != nullptr) environment_.emplace_back(name, std::nullopt);
  }
  /// Puts the value in front of what the variable already holds.
  void prepend(const char* name, std::string value) {
    const char* before = std::getenv(name);
    set(name, before != nullptr && *before != '\0' ? value + ":" + before : std::move(value));
  }
  /// Adds to LD_PRELOAD. Penstock's library comes after those that are already preloaded, as the
  /// MPI does: tools on MPI's profiling interface see the program's calls, and Penstock sees the
  /// calls that they pass on. An empty name means no library.
  void preload(const std::vector<std::string>& libraries) {
    const Preloads now;
    std::string all = now.others;
    bool ours = false;
    for (const std::string& library : libraries) {
      if (library.empty()) continue;
      all += (all.empty() ? "" : ":") + library;
      ours = true;
    }
    if (ours || now.ours) set("LD_PRELOAD", all);
  }
  Environment take() { return std::move(environment_); }

 private:
  Environment environment_;
};

void for_mpich(Builder& builder, const JobEnvironment& job) {
  // MPICH takes the first of the providers that offer most. If the pool can be used that is
  // Penstock's, except for "sockets", which libfabric has given up and still lists first.
  builder.set("FI_PROVIDER", job.require ? "penstock" : "^sockets");
  // An MPICH that was built with UCX too would otherwise silently use that.
  builder.set("MPIR_CVAR_CH4_NETMOD", "ofi");
  if (job.nodes == 1) {
    // One node, but still no message through MPICH's own shared memory.
    builder.set("MPIR_CVAR_NOLOCAL", "1");
  } else if (job.nodes > 1) {
    builder.set("MPIR_CVAR_NUM_CLIQUES", std::to_string(job.nodes));
    builder.set("MPIR_CVAR_CLIQUES_BY_BLOCK", "1");
  }
}

/// Messages use pml/cm and mtl/ofi, windows osc/rdma over btl/ofi. Every other way is disabled, so
/// that a job fails instead of silently using shared memory or TCP.
void for_open_mpi(Builder& builder, const MpiRuntime& runtime, const JobEnvironment& job) {
  builder.set("OMPI_MCA_mtl", "ofi");
  // Both mtl/ofi and btl/ofi read this one, in 4.1 as well as 5.0.
  builder.set("OMPI_MCA_opal_common_ofi_provider_include", "penstock");
  if (job.require) {
    builder.set("FI_PROVIDER", "penstock");
    builder.set("OMPI_MCA_pml", "cm");
    builder.set("OMPI_MCA_btl", "self,ofi");
    const bool has_priority = runtime.major() >= 5;
    // osc/sm would take the windows of ranks on one machine, which here stands for several hosts.
    // With the lowest priority it still serves MPI_Win_allocate_shared, which no other component
    // offers.
    builder.set("OMPI_MCA_osc", job.nodes > 0 && !has_priority ? "^sm,ucx" : "^ucx");
    if (job.nodes > 0 && has_priority) builder.set("OMPI_MCA_osc_sm_priority", "1");
    // 4.1 does not consider btl/ofi by itself.
    if (runtime.major() < 5) builder.set("OMPI_MCA_osc_rdma_btls", "ofi");
  }
  if (job.take_turns) builder.set("OMPI_MCA_mpi_yield_when_idle", "1");
  if (!job.scratch.empty()) {
    builder.set(runtime.major() >= 5 ? "PRTE_MCA_prte_tmpdir_base" : "OMPI_MCA_orte_tmpdir_base",
                job.scratch);
  }
}

void for_intel(Builder& builder, const MpiRuntime& runtime, const JobEnvironment& job) {
  const std::string libraries = folder_of(runtime.library);
  builder.set("I_MPI_ROOT", folder_of(libraries));
  builder.prepend("LD_LIBRARY_PATH", runtime.libfabric_folder == libraries
                                         ? libraries
                                         : libraries + ":" + runtime.libfabric_folder);
  builder.set("I_MPI_FABRICS", job.nodes > 0 ? "ofi" : "shm:ofi");
  builder.set("I_MPI_OFI_PROVIDER", "penstock");
  // With it, dynamic windows have the size -1 over every provider that can put and get by itself.
  builder.set_if_unset("MPIR_CVAR_CH4_OFI_ENABLE_RMA", "0");
  builder.set("FI_PROVIDER", "penstock");
}

}  // namespace

Result<Environment> mpi_environment(const MpiRuntime& runtime, const JobEnvironment& job) {
  auto provider = PENSTOCK_TRY(provider_library());
  const bool preloads = job.windows && can_preload;
  auto windows = PENSTOCK_TRY(preloads ? window_library() : Result<std::string>(""));
  auto nccl = PENSTOCK_TRY(job.nccl ? nccl_library() : Result<std::string>(""));
  Builder builder;
  // The variable replaces libfabric's own folder, so it names that one after Penstock's. (Intel's
  // libfabric reads the first folder only.)
  std::string folders = folder_of(provider);
  if (!runtime.provider_folder.empty()) folders += ":" + runtime.provider_folder;
  builder.set("FI_PROVIDER_PATH", folders);
  switch (runtime.kind) {
    case MpiKind::open_mpi:
      for_open_mpi(builder, runtime, job);
      break;
    case MpiKind::intel:
      for_intel(builder, runtime, job);
      break;
    case MpiKind::mpich:
    case MpiKind::unknown:
      for_mpich(builder, job);
      break;
  }
  // mpi4py's wheel fits every MPI, and otherwise takes the one beside it.
  builder.set_if_unset("MPI4PY_LIBMPI", runtime.library);
  builder.unset("MPI4PY_MPIABI");
  builder.preload({windows, nccl});
  builder.set("PENSTOCK_POOL", job.pool);
  if (job.nodes > 0) builder.set("PENSTOCK_NODES", std::to_string(job.nodes));
  if (!job.job.empty()) builder.set("PENSTOCK_JOB", job.job);
  if (!job.mode.empty()) builder.set("PENSTOCK_MODE", job.mode);
  const std::string trusted = base::env_text("PENSTOCK_TRUST_OWNER");
  if (!trusted.empty()) builder.set("PENSTOCK_TRUST_OWNER", trusted);
  if (!job.exit_log.empty()) builder.set("PENSTOCK_EXIT_LOG", job.exit_log);
  builder.set("PENSTOCK_REQUIRE", job.require ? "1" : "0");
  return builder.take();
}

Result<Environment> nccl_environment(const std::string& pool, std::uint32_t nodes) {
  Builder builder;
  builder.preload({PENSTOCK_TRY(nccl_library())});
  builder.set("PENSTOCK_POOL", pool);
  if (nodes > 0) builder.set("PENSTOCK_NODES", std::to_string(nodes));
  return builder.take();
}

namespace {

/// Hydra, MPICH's launcher, has one proxy for each host, which in 5.0.2 does not serve many more
/// ranks.
constexpr std::uint32_t ranks_of_one_proxy = 200, ranks_of_each_proxy = 128;

/// "node0-0:128,node0-1:128,...": proxies on this host, several for each emulated node, as host
/// names.
std::string proxies_for(std::uint32_t ranks, std::uint32_t nodes) {
  std::string proxies;
  for (std::uint32_t node = 0; node < nodes; ++node) {
    const std::uint32_t own = ranks / nodes + (node < ranks % nodes ? 1 : 0);
    const std::uint32_t count = (own + ranks_of_each_proxy - 1) / ranks_of_each_proxy;
    for (std::uint32_t proxy = 0; proxy < count; ++proxy) {
      const std::uint32_t its = own / count + (proxy < own % count ? 1 : 0);
      proxies += fmt::format("{}node{}-{}:{}", proxies.empty() ? "" : ",", node, proxy, its);
    }
  }
  return proxies;
}

}  // namespace

std::vector<std::string> launch_command(const MpiRuntime& runtime, std::uint32_t ranks,
                                        std::uint32_t nodes, bool bind) {
  std::vector<std::string> command = {runtime.mpiexec, "-n", std::to_string(ranks)};
  const auto add = [&](std::initializer_list<const char*> arguments) {
    command.insert(command.end(), arguments.begin(), arguments.end());
  };
  switch (runtime.kind) {
    case MpiKind::open_mpi:
      if (geteuid() == 0) add({"--allow-run-as-root"});
      // It counts cores and refuses more ranks than those; the others do not.
      add({"--oversubscribe", "--bind-to", bind ? "core:overload-allowed" : "none"});
      break;
    case MpiKind::intel:
      if (bind) {
        add({"-genv", "I_MPI_PIN", "1", "-genv", "I_MPI_PIN_DOMAIN", "core"});
      } else {
        add({"-genv", "I_MPI_PIN", "0"});
      }
      break;
    case MpiKind::mpich:
      if (!bind && ranks > ranks_of_one_proxy) {
        add({"-launcher", "fork", "-hosts"});
        command.push_back(proxies_for(ranks, std::clamp(nodes, 1u, ranks)));
      }
      [[fallthrough]];
    case MpiKind::unknown:
      if (bind) add({"-bind-to", "core"});
      break;
  }
  return command;
}

std::vector<std::string> unset_notes(const Environment& environment) {
  std::vector<std::string> notes;
  for (const auto& [name, value] : environment) {
    if (value) continue;
    const char* before = std::getenv(name.c_str());
    notes.push_back(
        fmt::format("{}={} is unset: mpi4py would load the library of that ABI, and not the one of "
                    "this mpiexec",
                    name, before != nullptr ? before : ""));
  }
  return notes;
}

std::vector<std::string> launcher_notes(const MpiRuntime& runtime, const Environment& environment,
                                        const JobEnvironment& job) {
  std::vector<std::string> notes = unset_notes(environment);
  if (runtime.kind == MpiKind::intel && !job.require) {
    notes.push_back(
        "Intel MPI loads providers from the first folder of FI_PROVIDER_PATH only: it has nothing "
        "to fall back to");
  }
  if (runtime.kind == MpiKind::open_mpi) {
    // Its launcher passes its own variables on to other hosts, and no others.
    std::string exported;
    for (const auto& [name, value] : environment) {
      if (value && !name.starts_with("OMPI_")) exported += " -x " + name;
    }
    notes.push_back("mpiexec for other hosts:" + exported);
    notes.push_back("mpiexec for more ranks than cores: --oversubscribe" +
                    std::string(geteuid() == 0 ? "; as root: --allow-run-as-root" : ""));
    notes.push_back("ranks of one host talk through the pool too, but for MPI_Win_allocate_shared");
  } else if (job.nodes == 0) {
    notes.push_back(
        fmt::format("ranks of one host talk by {}'s own shared memory; --nodes K would "
                    "emulate K hosts on one",
                    mpi_title(runtime.kind)));
  }
  return notes;
}

}  // namespace penstock::tools

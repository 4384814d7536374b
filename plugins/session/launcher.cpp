#include "launcher.hpp"

#include <unistd.h>

#include <charconv>
#include <cstdlib>
#include <string_view>

#include "base/file.hpp"
#include "base/format.hpp"
#include "pool/emulated_nodes.hpp"

namespace penstock::plugin {

namespace {

constexpr unsigned max_ancestors = 16;

std::optional<std::uint64_t> number(const char* text) {
  if (text == nullptr || *text == '\0') return std::nullopt;
  const std::string_view view(text);
  std::uint64_t value = 0;
  const auto [end, error] = std::from_chars(view.data(), view.data() + view.size(), value);
  if (error != std::errc() || end != view.data() + view.size()) return std::nullopt;
  return value;
}

std::int32_t first_number(const LaunchSources& sources, std::initializer_list<const char*> names,
                          std::int32_t fallback) {
  for (const char* name : names) {
    const auto value = number(sources.environment(name));
    if (value && *value <= 0x7fffffff) return static_cast<std::int32_t>(*value);
  }
  return fallback;
}

bool is_true(const char* text) {
  if (text == nullptr) return false;
  const std::string_view view(text);
  return view == "1" || view == "yes" || view == "true" || view == "on" || view == "t";
}

/// Hydra sets no name of the job, but its proxies are all started with mpiexec's host and port.
std::string hydra_job(const LaunchSources& sources) {
  for (unsigned n = 1; n <= max_ancestors; ++n) {
    const std::string command = sources.ancestor_command(n);
    if (command.empty()) break;
    const std::string_view program(command.c_str());
    if (program.find("hydra") == std::string_view::npos) continue;
    const std::string key = std::string("\0--control-port", 15) + '\0';
    const std::size_t at = command.find(key);
    if (at != std::string::npos) return std::string("hydra-") + (command.c_str() + at + key.size());
  }
  return {};
}

/// PRRTE's name space is "prterun-HOST-PID@N" where N counts the jobs of one mpiexec; ORTE's is a
/// number with the count in its low 16 bits. Jobs that one mpiexec spawned may talk to each other.
std::string pmix_job(const char* name_space) {
  const std::string text(name_space);
  if (const auto value = number(name_space)) return fmt::format("orte-{}", *value >> 16);
  return text.substr(0, text.rfind('@'));
}

Launch launched_by_mpi(const LaunchSources& sources) {
  Launch launch;
  launch.rank =
      first_number(sources, {"PMI_RANK", "PMIX_RANK", "OMPI_COMM_WORLD_RANK", "SLURM_PROCID"}, -1);
  launch.size = first_number(sources, {"PMI_SIZE", "OMPI_COMM_WORLD_SIZE", "SLURM_NTASKS"}, 0);
  launch.local_size = first_number(sources, {"MPI_LOCALNRANKS", "OMPI_COMM_WORLD_LOCAL_SIZE"}, 0);
  launch.local_rank =
      first_number(sources, {"MPI_LOCALRANKID", "OMPI_COMM_WORLD_LOCAL_RANK", "SLURM_LOCALID"}, -1);
  return launch;
}

Launch launched_by_torch(const LaunchSources& sources) {
  Launch launch;
  launch.rank = first_number(sources, {"RANK"}, -1);
  launch.size = first_number(sources, {"WORLD_SIZE"}, 0);
  const std::int32_t local_size = first_number(sources, {"LOCAL_WORLD_SIZE"}, 0);
  launch.local_size = local_size <= launch.size ? local_size : 0;
  launch.local_rank = first_number(sources, {"LOCAL_RANK"}, -1);
  return launch;
}

bool is_torchrun(std::string_view command) {
  return command.find("torchrun") != std::string_view::npos ||
         command.find("torch.distributed.") != std::string_view::npos;
}
bool is_mpi_launcher(std::string_view command) {
  const std::string_view path = command.substr(0, command.find('\0'));
  const std::string_view program = path.substr(path.rfind('/') + 1);
  for (const char* name : {"hydra", "mpiexec", "mpirun", "prte", "orte", "slurmstepd"})
    if (program.find(name) == 0) return true;
  return false;
}

/// An mpiexec may have started torchrun, and a worker of torchrun an mpiexec; each time the ranks
/// inherit the variables of both. The nearest ancestor that launches ranks decides.
bool runs_under_torchrun(const LaunchSources& sources) {
  const char* const run = sources.environment("TORCHELASTIC_RUN_ID");
  if (run == nullptr || *run == '\0') return false;
  for (unsigned n = 1; n <= max_ancestors; ++n) {
    const std::string command = sources.ancestor_command(n);
    if (command.empty()) break;
    if (is_mpi_launcher(command)) return false;
    if (is_torchrun(command)) return true;
  }
  return true;
}

/// Any environment may contain such names: one alone proves nothing.
bool has_torch_ranks(const LaunchSources& sources) {
  const auto rank = number(sources.environment("RANK"));
  const auto size = number(sources.environment("WORLD_SIZE"));
  return rank && size && *rank < *size && *size <= 0x7fffffff;
}

/// Every host has a loopback address, so this host's name stands for it.
std::string master_of(std::string_view address) {
  if (address != "localhost" && address != "::1" && address.find("127.") != 0)
    return std::string(address);
  char name[256] = {};
  ::gethostname(name, sizeof name - 1);
  return name;
}

std::string job_key(const LaunchSources& sources) {
  const auto& environment = sources.environment;
  const auto given = [&](const char* name) {
    const char* text = environment(name);
    return text != nullptr && *text != '\0' ? text : nullptr;
  };
  if (const char* job = given("PENSTOCK_JOB")) return job;
  // An mpiexec inside of an allocation names its job itself. Slurm's variables then differ: those
  // of the batch step where mpiexec was started, of a step of its own on other hosts.
  if (const char* name_space = given("PMIX_NAMESPACE")) return pmix_job(name_space);
  if (const char* id = given("I_MPI_HYDRA_UUID")) return fmt::format("intel-{}", id);
  if (const char* slurm = given("SLURM_JOB_ID"); slurm != nullptr && given("SLURM_PROCID")) {
    const char* step = given("SLURM_STEP_ID");
    return fmt::format("slurm-{}.{}", slurm, step != nullptr ? step : "0");
  }
  if (const char* id = given("PMI_JOBID")) return fmt::format("pmi-{}", id);
  if (std::string job = hydra_job(sources); !job.empty()) return job;
  if (const char* address = given("MASTER_ADDR"), *port = given("MASTER_PORT");
      address != nullptr && port != nullptr && has_torch_ranks(sources)) {
    // The run's name is "none" unless the user gave one; the port is the job's own on its host.
    const char* const run = given("TORCHELASTIC_RUN_ID");
    return fmt::format("torch-{}-{}:{}-{}", ::getuid(), master_of(address), port,
                       run == nullptr ? "" : run);
  }
  // Nothing names the job: all of one user's processes on the pool may reach each other, by
  // addresses that they must have exchanged first.
  return fmt::format("user-{}", ::getuid());
}

/// Spawned ranks count from 0 anew, in a world of their own. PMIx names each world. Hydra tells
/// only that a world was spawned, and how large it is.
std::string world_key(const LaunchSources& sources) {
  if (const char* const name_space = sources.environment("PMIX_NAMESPACE")) return name_space;
  if (!is_true(sources.environment("PMI_SPAWNED"))) return {};
  return fmt::format("spawned-{}", first_number(sources, {"PMI_SIZE"}, 0));
}

/// MPICH's distribution of ranks to cliques: blocks, unless it was asked for cliques without
/// MPIR_CVAR_CLIQUES_BY_BLOCK.
bool cliques_by_block(const LaunchSources& sources) {
  const auto cliques = number(sources.environment("MPIR_CVAR_NUM_CLIQUES"));
  return !cliques || *cliques <= 1 || is_true(sources.environment("MPIR_CVAR_CLIQUES_BY_BLOCK"));
}

/// Sets the node where one machine emulates several, and the rank's number there.
Result<void> set_emulated_node(const LaunchSources& sources, Launch& launch) {
  const auto read = [&](const char* name) -> Result<std::optional<std::uint64_t>> {
    const char* text = sources.environment(name);
    if (text == nullptr || *text == '\0') return std::optional<std::uint64_t>();
    const auto value = number(text);
    if (!value || *value > 0xffffffff) {
      return fail(ErrorCode::invalid_argument, "{}='{}' is not a number: set it to 0, 1, 2, ...",
                  name, text);
    }
    return value;
  };
  const auto node = PENSTOCK_TRY(read("PENSTOCK_NODE"));
  if (node) launch.emulated_node = static_cast<std::uint32_t>(*node);
  if (node) return {};
  const auto nodes = PENSTOCK_TRY(read("PENSTOCK_NODES"));
  if (!nodes || *nodes == 0) return {};
  if (launch.rank < 0 || launch.size <= 0) {
    return fail(ErrorCode::invalid_argument,
                "PENSTOCK_NODES={} needs a launcher that tells rank and size; none was recognized: "
                "set PENSTOCK_NODE for each process instead",
                *nodes);
  }
  const auto rank = static_cast<std::uint32_t>(launch.rank);
  const auto size = static_cast<std::uint32_t>(launch.size);
  const auto count = static_cast<std::uint32_t>(*nodes);
  const bool by_block = cliques_by_block(sources);
  launch.emulated_node = pool::emulated_node_of(rank, size, count, by_block);
  launch.local_rank = static_cast<std::int32_t>(pool::local_rank_of(rank, size, count, by_block));
  return {};
}

/// Parent of a process by /proc/PID/stat: "PID (name) STATE PPID ...", the name may hold anything.
pid_t parent_of(pid_t pid) {
  const std::string stat = base::read_file(fmt::format("/proc/{}/stat", pid));
  const std::size_t name_end = stat.rfind(')');
  if (name_end == std::string::npos || name_end + 4 >= stat.size()) return 0;
  return static_cast<pid_t>(std::strtol(stat.c_str() + name_end + 4, nullptr, 10));
}

}  // namespace

std::int32_t ranks_started(const LaunchSources& sources) {
  std::int32_t fewest = 0;
  for (const char* name : {"PMI_SIZE", "OMPI_COMM_WORLD_SIZE"}) {
    const std::int32_t size = first_number(sources, {name}, 0);
    if (size > 0 && (fewest == 0 || size < fewest)) fewest = size;
  }
  return fewest;
}

LaunchSources process_sources() {
  LaunchSources sources;
  sources.environment = [](const char* name) -> const char* { return std::getenv(name); };
  sources.ancestor_command = [](unsigned n) -> std::string {
    pid_t pid = ::getpid();
    for (unsigned i = 0; i < n && pid > 0; ++i) pid = parent_of(pid);
    return pid > 0 ? base::read_file(fmt::format("/proc/{}/cmdline", pid)) : std::string();
  };
  return sources;
}

Result<Launch> read_launch(const LaunchSources& sources) {
  Launch launch = launched_by_mpi(sources);
  if (has_torch_ranks(sources) && (launch.rank < 0 || runs_under_torchrun(sources)))
    launch = launched_by_torch(sources);
  launch.job = job_key(sources);
  launch.world = world_key(sources);
  PENSTOCK_TRY(set_emulated_node(sources, launch));
  return launch;
}

}  // namespace penstock::plugin

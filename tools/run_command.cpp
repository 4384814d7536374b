// penstock run: runs an unmodified MPI program over a pool, by the MPI's own mpiexec.
#include <fmt/core.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>
#include <CLI/CLI.hpp>

#include <cstdlib>
#include <fstream>
#include <memory>
#include <optional>

#include "base/env.hpp"
#include "base/format.hpp"
#include "base/wait.hpp"
#include "command.hpp"
#include "janitor.hpp"
#include "json.hpp"
#include "locations.hpp"
#include "mpi_choice.hpp"
#include "mpi_environment.hpp"
#include "pool/leftovers.hpp"
#include "pool/members.hpp"
#include "run_job.hpp"
#include "run_pool.hpp"
#include "terminal.hpp"
#include "transport/transport.hpp"

namespace penstock::tools {
namespace {

constexpr const char* default_mode = "software";

struct RunArguments {
  std::uint32_t ranks = 0;
  std::optional<std::uint32_t> nodes_asked;
  std::uint32_t nodes = 0;
  std::string pool, mode, size, mpi, mpiexec, json;
  std::vector<std::string> command;
  bool bind = false, stats = false, allow_fallback = false, no_windows = false, nccl = false;
};

template <class... Args>
void say(fmt::format_string<Args...> format, Args&&... args) {
  fmt::print(stderr, "penstock run: {}\n", fmt::format(format, std::forward<Args>(args)...));
}

Result<std::string> check_arguments(RunArguments& arguments) {
  arguments.nodes = arguments.nodes_asked.value_or(arguments.ranks >= 2 ? 2 : 1);
  if (arguments.nodes > arguments.ranks) {
    return fail(ErrorCode::invalid_argument, "{} cannot fill {}: use --nodes {} or fewer",
                counted(arguments.ranks, "rank"), counted(arguments.nodes, "node"),
                arguments.ranks);
  }
  const bool named = !arguments.pool.empty();
  arguments.pool = named_or_set(arguments.pool);
  if (!arguments.size.empty() && !arguments.pool.empty()) {
    return fail(ErrorCode::invalid_argument,
                "--size is for a temporary pool, and {} names {}: leave --size out, or {}",
                named ? "--pool" : "PENSTOCK_POOL", arguments.pool,
                named ? "leave --pool out" : "unset PENSTOCK_POOL");
  }
  if (arguments.mode.empty()) arguments.mode = base::env_text("PENSTOCK_MODE");
  const std::string program = find_on_path(arguments.command.front());
  if (program.empty()) {
    return fail(ErrorCode::not_found,
                "{} is absent or not a program: check the path, or chmod +x it",
                arguments.command.front());
  }
  return program;
}

Result<MpiRuntime> choose_mpi(const RunArguments& arguments, const std::string& program) {
  MpiWanted wanted{.kind = std::nullopt, .mpiexec = arguments.mpiexec, .program = program};
  if (!arguments.mpi.empty()) {
    wanted.kind = PENSTOCK_TRY(parse_mpi(arguments.mpi));
  }
  return find_mpi(wanted);
}

Result<pool::Info> prepare_pool(const RunArguments& arguments, const std::string& spec) {
  if (!arguments.pool.empty())
    return check_named_pool(spec, arguments.mode,
                            {arguments.ranks, arguments.nodes, !arguments.no_windows});
  std::uint64_t bytes = 0;
  if (!arguments.size.empty()) {
    bytes = PENSTOCK_TRY(base::parse_bytes(arguments.size));
  }
  return make_temporary_pool(spec, arguments.mode.empty() ? default_mode : arguments.mode, bytes,
                             arguments.ranks, arguments.nodes);
}

/// Lies below the run's own folder, so that the janitor removes what the launcher leaves there.
std::string scratch_of(const std::string& folder) {
  return folder + "/mpi";
}

Result<JobPlan> make_plan(const RunArguments& arguments, const MpiRuntime& runtime,
                          const pool::Info& info, const Janitor::Charge& own) {
  const std::string& spec = info.spec;
  JobEnvironment job;
  job.pool = spec;
  job.job = own.job;
  job.exit_log = own.folder;
  job.nodes = arguments.nodes;
  job.require = !arguments.allow_fallback;
  job.windows = !arguments.no_windows;
  job.nccl = arguments.nccl;
  job.mode = coherence::mode_name(info.mode);
  job.scratch = scratch_of(own.folder);
  job.take_turns = arguments.ranks > base::usable_cpus();
  auto environment = PENSTOCK_TRY(mpi_environment(runtime, job));
  for (const std::string& note : unset_notes(environment)) say("{}", note);
  JobPlan plan;
  plan.pool = spec;
  plan.job = own.job;
  plan.exit_log = own.folder;
  plan.ranks = arguments.ranks;
  plan.environment = std::move(environment);
  plan.command = launch_command(runtime, arguments.ranks, arguments.nodes, arguments.bind);
  plan.command.insert(plan.command.end(), arguments.command.begin(), arguments.command.end());
  return plan;
}

/// One line about what the pool carried.
void print_totals(const JobTotals& totals) {
  std::string calls;
  for (const auto& [what, count] : totals.calls)
    calls += fmt::format(", {} {} with {}", count.calls, what, about(count.bytes));
  say("{} on {} sent {} with {}{} through the pool", counted(totals.ranks, "rank"),
      counted(totals.nodes, "node"), counted(totals.messages, "message"), about(totals.bytes),
      calls);
}

void print_stats(const JobOutcome& outcome, const pool::Info& info, const std::string& spec) {
  say("transport: penstock, {} coherence, pool {}", coherence::mode_name(info.mode), spec);
  print_totals(outcome.totals);
}

/// `status`: the exit status of the command.
Json summary(const JobOutcome& outcome, const pool::Info& info, const MpiRuntime& runtime,
             int status) {
  const JobTotals& totals = outcome.totals;
  Json death;
  Json calls = Json::array();
  for (const auto& [what, count] : totals.calls)
    calls.push_back({{"what", what}, {"calls", count.calls}, {"bytes", count.bytes}});
  if (outcome.first_death)
    death = {{"who", outcome.first_death->who}, {"how", outcome.first_death->how}};
  return {{"status", status},
          {"interrupted_by", outcome.interrupted_by ? Json(*outcome.interrupted_by) : Json()},
          {"first_death", death},
          {"unfinalized", outcome.unfinalized ? Json(*outcome.unfinalized) : Json()},
          {"mpi", runtime.name()},
          {"transport", totals.ranks > 0 ? Json("penstock") : Json()},
          {"pool", info.spec},
          {"mode", coherence::mode_name(info.mode)},
          {"ranks", totals.ranks},
          {"nodes", totals.nodes},
          {"messages", totals.messages},
          {"bytes", totals.bytes},
          {"calls", calls}};
}

/// A temporary pool is gone by the time its error message is read: this says what would have
/// helped.
void explain_full_pool(const RunArguments& arguments, const std::string& spec) {
  constexpr std::uint64_t next_to_nothing = 256u << 10;
  auto view = look_at(spec);
  if (!view) return;
  const arena::Stats stats = view->arena->stats();
  if (stats.damaged) return;  // the damage was reported
  // ranks that have ended meanwhile have given their memory back
  bool full = stats.bytes_largest_free < next_to_nothing;
  for (const auto& process : view->pool->members().processes())
    full = full || (arguments.pool.empty() && process.activity == pool::activity_pool_full);
  if (!full) return;
  const std::uint64_t bytes = view->pool->info().bytes;
  struct statvfs room;
  const bool grows = arguments.pool.empty() && ::statvfs("/dev/shm", &room) == 0;
  const std::uint64_t free = grows ? std::uint64_t{room.f_bavail} * room.f_frsize : UINT64_MAX;
  if (free < next_to_nothing * arguments.ranks + bytes / 16) {
    say("the temporary pool grows as it is used, and /dev/shm has {} left: mount -o "
        "remount,size=... "
        "/dev/shm (in a container: --shm-size), or fewer ranks",
        about(free));
  } else if (arguments.pool.empty()) {
    say("the temporary pool of {} was full: run it with --size {}M", about(bytes),
        (bytes >> 20) * 2);
  } else {
    say("pool {} is full: see 'penstock pool ls {}' and 'penstock pool gc {}'", spec,
        shell_quote(spec), shell_quote(spec));
  }
}

/// Reports failures beyond the launcher's own status; returns the exit status.
int judge(const JobOutcome& outcome, const RunArguments& arguments, const std::string& spec) {
  if (outcome.interrupted_by) {
    say("interrupted by signal {}; the job was ended", *outcome.interrupted_by);
    return 128 + *outcome.interrupted_by;
  }
  int status = outcome.status;
  if (outcome.first_death) {
    say("{} {}; the job was ended", outcome.first_death->who, outcome.first_death->how);
    if (status == 0) status = exit_error;
  }
  if (outcome.unfinalized)
    say("{} {} exited without MPI_Finalize; MPI asks each rank to call it before it exits",
        coloured(Colour::yellow, "warn:", stderr), *outcome.unfinalized);
  if (outcome.totals.ranks == 0) {
    if (status == 0)
      say("no process of the job attached to the pool: it used another transport, or {} is not a "
          "program of this mpiexec's MPI",
          arguments.command.front());
    else
      say("mpiexec ended with status {} before a process of the job had attached to the pool; what "
          "was printed above may say why",
          status);
    if (status == 0 && !arguments.allow_fallback) {
      say("--allow-fallback accepts that; 'penstock doctor' shows what is wrong");
      status = exit_error;
    }
  }
  if (status != 0) explain_full_pool(arguments, spec);
  return status;
}

std::string temporary_folder() {
  const char* named = std::getenv("TMPDIR");
  return named != nullptr && *named != 0 ? named : "/tmp";
}

Result<void> make_folders(const std::string& folder) {
  for (const std::string& path : {folder, scratch_of(folder)}) {
    if (::mkdir(path.c_str(), 0700) == 0) continue;
    return fail(ErrorCode::internal,
                "cannot make the folder {}: {}; unset TMPDIR, or set it to a folder that can be "
                "written",
                path, strerror(errno));
  }
  return {};
}

/// Prints the collective calls that stayed with the MPI, from the file that the plug-in wrote.
void print_stayed(const std::string& folder) {
  std::ifstream file(folder + "/stayed");
  for (std::string line; std::getline(file, line);) say("stayed with the MPI: {}", line);
}

int run(RunArguments arguments) {
  auto program = check_arguments(arguments);
  if (!program) return report(program.error());
  auto summary_file = base::OutputFile::open(arguments.json);
  if (!summary_file) return report(summary_file.error());
  auto runtime = choose_mpi(arguments, *program);
  if (!runtime) return report(runtime.error());
  const bool temporary = arguments.pool.empty();
  const Result<std::string> named =
      temporary ? "shm:" + unique_name() : device::absolute_spec(arguments.pool);
  if (!named) return report(named.error());
  const std::string& spec = *named;
  const std::string job = unique_name();
  pool::sweep_leftovers();  // of runs that were killed together with their janitor
  tidy_after_the_killed(temporary_folder());
  const Janitor::Charge own{.job = job,
                            .pool = temporary ? spec : "",
                            .folder = fmt::format("{}/penstock-{}", temporary_folder(), job)};
  // Must precede anything that may start a thread. Its destructor cleans up after all that follows.
  auto janitor = Janitor::start(own);
  if (!janitor) return report(janitor.error());
  if (auto made = make_folders(own.folder); !made) return report(made.error());
  auto info = prepare_pool(arguments, spec);
  if (!info) return report(info.error());
  const auto claim =
      temporary ? pool::claim_own_pool(device::parse_spec(spec)->front().path) : base::UniqueFd();
  auto plan = make_plan(arguments, *runtime, *info, own);
  if (!plan) return report(plan.error());
  auto outcome = run_job(*plan);
  if (!outcome) return report(outcome.error());
  if (arguments.stats) print_stayed(own.folder);
  if (outcome->totals.ranks > 0) {  // otherwise judge() says that the job used another transport
    if (arguments.stats) {
      print_stats(*outcome, *info, spec);
    } else if (::isatty(STDERR_FILENO) == 1) {
      print_totals(outcome->totals);
    }
  }
  const int status = judge(*outcome, arguments, spec);
  const auto written = write_json(*summary_file, summary(*outcome, *info, *runtime, status));
  if (written) return status;
  const int failed = report(written.error());
  return status != exit_ok ? status : failed;
}

}  // namespace

void add_run_command(CLI::App& app, Action& chosen) {
  auto arguments = std::make_shared<RunArguments>();
  CLI::App* command = app.add_subcommand("run", "run an unmodified MPI program over a pool");
  command->add_option("-n,--ranks,--np", arguments->ranks, "ranks (also -np)")
      ->required()
      ->check(CLI::Range(1u, transport::max_endpoints));
  command
      ->add_option("--nodes", arguments->nodes_asked,
                   "emulated hosts; ranks are dealt to them in blocks (default 2)")
      ->check(CLI::Range(1u, pool::max_nodes));
  command->add_option(
      "--pool", arguments->pool,
      "the pool (default: PENSTOCK_POOL, else a temporary one, removed afterwards)");
  command
      ->add_option(
          "--mode", arguments->mode,
          "of the temporary pool (default: PENSTOCK_MODE, else software); a named pool must "
          "be of this mode")
      ->type_name("software|hardware|uncached|simulated|auto");
  command->add_option("--size", arguments->size, "bytes of the temporary pool (default: by ranks)");
  command
      ->add_option("--mpi", arguments->mpi,
                   "the MPI (default: what the program is linked with, else the first that can be "
                   "used)")
      ->type_name("mpich|openmpi|intel");
  command->add_option("--mpiexec", arguments->mpiexec,
                      "the launcher (default: beside the program, $VIRTUAL_ENV, PATH, ./.venv)");
  add_trust_option(*command);
  command->add_flag("--bind", arguments->bind, "bind each rank to a core");
  command->add_flag("-v,--verbose,--stats", arguments->stats,
                    "print which transport carried the job, messages and bytes");
  command->add_option("--json", arguments->json,
                      "write what --stats prints, and how the job ended, as JSON to this file: "
                      "standard output is the program's");
  command->add_flag("--allow-fallback", arguments->allow_fallback,
                    "let the job use another provider when the pool cannot be used");
  command->add_flag("--no-windows", arguments->no_windows,
                    "do not preload libpenstock-mpi.so: windows and collectives "
                    "stay with the MPI");
  command->add_flag("--nccl", arguments->nccl,
                    "preload Penstock's libnccl.so.2: what calls NCCL goes through the pool too");
  command->add_option("COMMAND", arguments->command, "the program and its arguments, behind --")
      ->required()
      ->type_name("");
  command->footer(
      "Exit status: that of the program, as mpiexec gives it; 1 where that is 0 and a rank died "
      "or\n"
      "none used the pool; 128 + N after signal N.");
  command->positionals_at_end();
  command->callback([&chosen, arguments] { chosen = [arguments] { return run(*arguments); }; });
}

}  // namespace penstock::tools

// penstock env: prints exports for the user's own launcher, and the table of variables.
#include <fmt/core.h>
#include <CLI/CLI.hpp>

#include <cstdlib>
#include <memory>
#include <optional>

#include "base/env.hpp"
#include "base/format.hpp"
#include "command.hpp"
#include "json.hpp"
#include "mpi_choice.hpp"
#include "mpi_environment.hpp"
#include "pool/pool.hpp"
#include "table.hpp"

namespace penstock::tools {
namespace {

struct EnvArguments {
  std::string mpi, pool, mpiexec, mode;
  std::optional<std::uint32_t> nodes;
  bool list = false, allow_fallback = false, no_windows = false, nccl = false, json = false;
};

int print_variables(bool json) {
  Table table({{"VARIABLE"}, {"VALUE"}, {"SOURCE"}, {"MEANING"}});
  Json facts = Json::array();
  for (const base::Variable& variable : base::variables()) {
    const char* source = base::env_is_set(variable.name) ? "environment" : "default";
    const std::string value = base::env_text(variable.name);
    table.add({variable.name, value.empty() ? "-" : value, source,
               fmt::format("{} [{}]", variable.meaning, variable.values)});
    facts.push_back({{"name", variable.name},
                     {"value", value},
                     {"source", source},
                     {"default", variable.fallback},
                     {"values", variable.values},
                     {"audience", base::audience_name(variable.audience)},
                     {"meaning", variable.meaning}});
  }
  if (json) return print_json(facts);
  fmt::print("{}", table.text());
  return exit_ok;
}

std::string variables_help() {
  std::string text = "Variables (penstock env --list shows the values in force):\n";
  std::optional<base::Audience> group;
  for (const base::Variable& variable : base::variables()) {
    if (variable.audience == base::Audience::tests) continue;
    if (group != variable.audience)
      text += fmt::format(" {}:\n", base::audience_name(variable.audience));
    group = variable.audience;
    text += fmt::format("  {:<20} {} [{}]{}\n", variable.name, variable.meaning, variable.values,
                        *variable.fallback ? fmt::format(" default {}", variable.fallback) : "");
  }
  return text;
}

/// Prints lines for a shell, or the same as facts; `title` and `notes` become comments.
int print_environment(const std::string& title, const Environment& environment,
                      const std::vector<std::string>& notes, bool json) {
  if (json) {
    Json exports = Json::object();
    for (const auto& [name, value] : environment) exports[name] = value ? Json(*value) : Json();
    return print_json({{"for", title}, {"exports", exports}, {"notes", notes}});
  }
  fmt::print("# for {}\n", title);
  for (const auto& [name, value] : environment)
    fmt::print("{}\n", value ? fmt::format("export {}={}", name, shell_quote(*value))
                             : fmt::format("unset {}", name));
  for (const std::string& note : notes) fmt::print("# {}\n", note);
  return exit_ok;
}

int print_nccl_exports(const std::string& pool, std::uint32_t nodes, bool json) {
  auto environment = nccl_environment(pool, nodes);
  if (!environment) return report(environment.error());
  return print_environment("programs that call NCCL, started by any launcher", *environment, {},
                           json);
}

int print_exports(const EnvArguments& arguments) {
  if (arguments.mpi.empty() && !arguments.nccl) {
    return report({ErrorCode::invalid_argument,
                   "for which MPI? penstock env --mpi mpich (or openmpi, intel), or --nccl for "
                   "what calls NCCL; penstock env --list shows the variables"});
  }
  const auto kind = parse_mpi(arguments.mpi.empty() ? "mpich" : arguments.mpi);
  if (!kind) return report(kind.error());
  if (!arguments.mode.empty()) {
    if (auto mode = coherence::parse_mode(arguments.mode); !mode) return report(mode.error());
  }
  const std::string named = named_or_set(arguments.pool);
  if (named.empty()) {
    return report({ErrorCode::invalid_argument,
                   fmt::format("no pool is named: penstock env {} --pool SPEC, after "
                               "'penstock pool create SPEC --size 2G'",
                               arguments.mpi.empty() ? "--nccl" : "--mpi " + arguments.mpi)});
  }
  if (auto checked = base::check_variables(); !checked) return report(checked.error());
  // Ranks may be started in another folder.
  const auto absolute = device::absolute_spec(named);
  if (!absolute) return report(absolute.error());
  const std::string& pool = *absolute;
  auto info = pool::inspect(pool);
  if (!info) return report(info.error());
  if (auto usable = check_use(pool); !usable) return report(usable.error());
  if (arguments.mpi.empty())
    return print_nccl_exports(pool, arguments.nodes.value_or(0), arguments.json);
  auto runtime = find_mpi({.kind = *kind, .mpiexec = arguments.mpiexec, .program = ""});
  if (!runtime) return report(runtime.error());
  JobEnvironment job;
  job.pool = pool;
  job.nodes = arguments.nodes.value_or(0);
  job.require = !arguments.allow_fallback;
  job.windows = !arguments.no_windows;
  job.nccl = arguments.nccl;
  job.mode = arguments.mode;
  auto environment = mpi_environment(*runtime, job);
  if (!environment) return report(environment.error());
  return print_environment(base::printable(runtime->name()), *environment,
                           launcher_notes(*runtime, *environment, job), arguments.json);
}

}  // namespace

void add_env_command(CLI::App& app, Action& chosen) {
  auto arguments = std::make_shared<EnvArguments>();
  CLI::App* command = app.add_subcommand(
      "env",
      "print what your own mpiexec or srun needs in its environment; --list: the "
      "variables");
  command->add_option("--mpi", arguments->mpi, "the MPI that will be used")
      ->type_name("mpich|openmpi|intel");
  command->add_option("--pool", arguments->pool, "the pool (default: PENSTOCK_POOL)");
  command->add_option("--nodes", arguments->nodes, "number of hosts to emulate on one machine")
      ->check(CLI::Range(1u, pool::max_nodes));
  command->add_option("--mode", arguments->mode, "refuse a pool of another mode")
      ->type_name("software|hardware|uncached|simulated");
  command->add_option("--mpiexec", arguments->mpiexec, "the launcher that will be used");
  add_trust_option(*command);
  command->add_flag("--allow-fallback", arguments->allow_fallback,
                    "let the job use another provider when the pool cannot be used");
  command->add_flag("--no-windows", arguments->no_windows,
                    "do not preload libpenstock-mpi.so: windows and collectives "
                    "stay with the MPI");
  command->add_flag("--nccl", arguments->nccl,
                    "preload Penstock's libnccl.so.2; without --mpi nothing else");
  command->add_flag("--list", arguments->list,
                    "print each variable with its value and where that comes from");
  add_json_option(*command, arguments->json);
  command->footer(variables_help());
  command->callback([&chosen, arguments] {
    chosen = [arguments] {
      return arguments->list ? print_variables(arguments->json) : print_exports(*arguments);
    };
  });
}

}  // namespace penstock::tools

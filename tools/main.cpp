// The `penstock` command.
#include <fmt/core.h>
#include <string.h>
#include <unistd.h>
#include <CLI/CLI.hpp>

#include <cerrno>
#include <system_error>
#include <vector>

#include "base/env.hpp"
#include "bench_experiments.hpp"
#include "command.hpp"
#include "command_tree.hpp"
#include "option_values.hpp"
#include "spelling.hpp"
#include "version.hpp"

namespace penstock::tools {
namespace {

int refuse(const std::string& why, const std::string& help) {
  const int status = report({ErrorCode::invalid_argument, why});
  fmt::print(stderr, "penstock: see '{}'\n", help);
  return status;
}

/// The doctor and `env --list` show all variables, the wrong ones too.
Result<void> check_variables(const std::vector<std::string>& arguments) {
  const bool shows_them = arguments.front() == "doctor" || arguments.front() == "env";
  return shows_them ? Result<void>() : base::check_variables();
}

int parse_and_run(CLI::App& app, const Action& chosen, const std::vector<std::string>& arguments) {
  try {
    std::vector<std::string> reversed(arguments.rbegin(), arguments.rend());  // as the parser wants
    app.parse(reversed);
  } catch (const CLI::Success& asked) {
    const std::string unknown = about_unknown_word(app, arguments);
    return unknown.empty() ? app.exit(asked) : refuse(unknown, help_command(app, arguments));
  } catch (const CLI::ParseError& wrong) {
    const std::string unknown = about_unknown_word(app, arguments);
    return refuse(unknown.empty() ? wrong.what() : unknown, help_command(app, arguments));
  }
  if (const std::string slip = about_misspelt_subcommand(app, arguments); !slip.empty())
    return refuse(slip, help_command(app, arguments));
  base::warn_unknown_variables();
  if (auto checked = check_variables(arguments); !checked) return report(checked.error());
  return chosen ? chosen() : exit_usage;
}

/// penstock bench run and the like, which Python parses; spelling mistakes are still found here.
int check_and_hand_on(const CLI::App& app, const std::vector<std::string>& arguments) {
  const std::string unknown = about_unknown_word(app, arguments);
  if (!unknown.empty()) return refuse(unknown, help_command(app, arguments));
  base::warn_unknown_variables();
  if (auto checked = base::check_variables(); !checked) return report(checked.error());
  return hand_on(arguments);
}

/// `eval "$(penstock env ...)"` ignores the exit status, so the printed text must stop the shell.
/// It does not end an interactive shell: the rest of the line is not run, and no MPI falls back to
/// another transport. The text itself says why, because it may be kept in a file and read much
/// later.
void stop_the_shell() {
  fmt::print("echo {} >&2\n", shell_quote("penstock env failed: " + last_reported()));
  fmt::print(
      "case $- in *i*) export FI_PROVIDER=penstock-env-failed OMPI_MCA_pml=cm; kill -INT $$;; "
      "*) exit 1;; esac\n");
}

/// Reports output that was lost, as on a full device.
int flush_output(int status) {
  if (std::fflush(stdout) == 0 && std::ferror(stdout) == 0) return status;
  fmt::print(stderr, "penstock: error: cannot write the output: {}\n", strerror(errno));
  return status == exit_ok ? exit_error : status;
}

int run(int argc, char** argv) {
  CLI::App app{"Penstock: MPI programs over a memory pool that several hosts map."};
  app.name("penstock");
  app.set_version_flag("--version", std::string("penstock ") + PENSTOCK_VERSION,
                       "print the version and exit");
  set_help(app);
  app.require_subcommand(1);
  app.failure_message(CLI::FailureMessage::help);
  app.footer(
      "To begin: penstock doctor, then penstock run -n 4 -- ./program. To make a pool and look at\n"
      "it: penstock pool create shm:mine --size 2G, penstock ps, penstock pool rm shm:mine.\n"
      "Each subcommand: penstock SUBCOMMAND --help, or man penstock-SUBCOMMAND.");
  Action chosen;
  add_pool_command(app, chosen);
  add_doctor_command(app, chosen);
  add_run_command(app, chosen);
  add_env_command(app, chosen);
  add_ps_command(app, chosen);
  add_switch_command(app, chosen);
  add_bench_command(app, chosen);
  add_model_command(app, chosen);
  add_timeline_command(app, chosen);
  add_completion_command(app, chosen);
  check_values(app);
  const auto arguments = as_parsed(app, {argv + 1, argv + argc});
  const int status = flush_output(handed_on(arguments) ? check_and_hand_on(app, arguments)
                                                       : parse_and_run(app, chosen, arguments));
  if (status == exit_ok || !for_eval(app, arguments) || ::isatty(STDOUT_FILENO) == 1) return status;
  stop_the_shell();
  return status;
}

}  // namespace
}  // namespace penstock::tools

int main(int argc, char** argv) {
  try {
    return penstock::tools::run(argc, argv);
  } catch (const std::system_error& error) {  // thrown by fmt if the output is longer than its
                                              // buffer
    fmt::print(stderr, "penstock: error: cannot write the output: {}\n", error.code().message());
    return penstock::tools::exit_error;
  }
}

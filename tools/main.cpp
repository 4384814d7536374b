// The `penstock` command.
#include <fmt/core.h>
#include <CLI/CLI.hpp>

#include "base/env.hpp"
#include "command.hpp"
#include "version.hpp"

int main(int argc, char** argv) {
  using namespace penstock;
  CLI::App app{"Penstock: MPI programs over a memory pool that several hosts map."};
  app.name("penstock");
  app.set_version_flag("--version", std::string("penstock ") + PENSTOCK_VERSION);
  app.require_subcommand(1);
  app.failure_message(CLI::FailureMessage::help);
  tools::Action chosen;
  tools::add_pool_command(app, chosen);
  tools::add_doctor_command(app, chosen);
  tools::add_run_command(app, chosen);
  tools::add_env_command(app, chosen);
  tools::add_ps_command(app, chosen);
  tools::add_bench_command(app, chosen);
  try {
    app.parse(argc, argv);
  } catch (const CLI::Success& asked) {
    return app.exit(asked);
  } catch (const CLI::ParseError& wrong) {
    fmt::print(stderr, "penstock: error: {}\n", wrong.what());
    fmt::print(stderr, "penstock: see 'penstock --help' or 'penstock SUBCOMMAND --help'\n");
    return tools::exit_usage;
  }
  base::warn_unknown_variables();
  return chosen ? chosen() : tools::exit_usage;
}

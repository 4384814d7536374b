// penstock bench.
#include <CLI/CLI.hpp>

#include "bench_experiments.hpp"
#include "command.hpp"

namespace penstock::tools {

void add_bench_command(CLI::App& app, Action& chosen) {
  CLI::App* command =
      app.add_subcommand("bench", "measure this machine, or the memory that a job needs");
  command->require_subcommand(1);
  add_experiments(*command);
  add_measurements(*command, chosen);
}

}  // namespace penstock::tools

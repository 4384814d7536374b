// penstock bench: what this machine gives at best.
#include <memory>

#include "bench/limits.hpp"
#include "command.hpp"

namespace penstock::tools {

void add_bench_command(CLI::App& app, Action& chosen) {
  auto options = std::make_shared<bench::Options>();
  options->size = "64M";
  options->modes = {"software", "hardware"};
  CLI::App* command = app.add_subcommand("bench", "measure this machine");
  command->require_subcommand(1);
  CLI::App* limits = command->add_subcommand(
      "limits", "hand-overs and copies through a pool without any protocol, on two cores");
  options->add_to(*limits);
  limits->callback([&chosen, options] {
    chosen = [options] {
      return bench::run_modes(*options,
                              [&](auto mode) { return bench::measure_limits(*options, mode); });
    };
  });
}

}  // namespace penstock::tools

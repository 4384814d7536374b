// penstock bench: what this machine gives at best, and what of a pool a job takes.
#include <CLI/CLI.hpp>
#include <memory>

#include "bench/footprint.hpp"
#include "bench/limits.hpp"
#include "command.hpp"

namespace penstock::tools {

namespace {

void add_footprint(CLI::App& command, Action& chosen) {
  auto options = std::make_shared<bench::FootprintOptions>();
  CLI::App* footprint = command.add_subcommand(
      "footprint", "measure how much of a pool ranks take that talk to their neighbours");
  footprint->add_option("--ranks", options->ranks, "endpoints")->capture_default_str();
  footprint->add_option("--neighbours", options->neighbours, "that each sends to")
      ->capture_default_str();
  footprint->add_option("--pool", options->pool, "measure in this pool (default: a temporary one)");
  footprint->add_option("--size", options->size, "bytes of a pool that is made")
      ->capture_default_str();
  footprint->callback([&chosen, options] {
    chosen = [options] {
      auto measured = bench::measure_footprint(*options);
      if (!measured) return report(measured.error());
      measured->print();
      return exit_ok;
    };
  });
}

void add_limits(CLI::App& command, Action& chosen) {
  auto options = std::make_shared<bench::Options>();
  options->size = "64M";
  options->modes = {"software", "hardware"};
  CLI::App* limits = command.add_subcommand(
      "limits",
      "measure hand-overs and copies through a pool without any protocol, on two "
      "cores");
  options->add_to(*limits);
  limits->add_flag("--json", options->json_only, "print JSON");
  limits->callback([&chosen, options] {
    chosen = [options] {
      return bench::run_modes(*options,
                              [&](auto mode) { return bench::measure_limits(*options, mode); });
    };
  });
}

}  // namespace

void add_bench_command(CLI::App& app, Action& chosen) {
  CLI::App* command =
      app.add_subcommand("bench", "measure this machine, or the memory that a job needs");
  command->require_subcommand(1);
  add_experiments(*command, chosen);
  add_limits(*command, chosen);
  add_footprint(*command, chosen);
  add_tune_command(*command, chosen);
}

}  // namespace penstock::tools

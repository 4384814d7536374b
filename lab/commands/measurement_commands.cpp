// penstock bench limits, footprint, stream and tune: what no experiment in Python measures.
#include <fmt/core.h>
#include <CLI/CLI.hpp>
#include <memory>

#include "bench/footprint.hpp"
#include "bench/limits.hpp"
#include "bench/stream/stream.hpp"
#include "command.hpp"
#include "transport/transport.hpp"

namespace penstock::tools {

namespace {

void add_footprint(CLI::App& command, Action& chosen) {
  auto options = std::make_shared<bench::FootprintOptions>();
  CLI::App* footprint = command.add_subcommand(
      "footprint", "measure how much of a pool ranks take that talk to their neighbours");
  footprint->add_option("--ranks", options->ranks, "endpoints, all of this process")
      ->check(CLI::Range(2u, transport::max_endpoints))
      ->capture_default_str();
  footprint->add_option("--neighbours", options->neighbours, "peers that each sends to")
      ->check(CLI::Range(1u, transport::max_endpoints - 1))
      ->capture_default_str();
  footprint->add_option("--pool", options->pool, "measure in this pool (default: a temporary one)");
  footprint->add_option("--size", options->size, "bytes of a pool that is made")
      ->capture_default_str();
  auto json = std::make_shared<bool>(false);
  add_json_option(*footprint, *json);
  footprint->callback([&chosen, options, json] {
    chosen = [options, json] {
      auto measured = bench::measure_footprint(*options);
      if (!measured) return report(measured.error());
      if (*json)
        fmt::print("{}", bench::json_of({*measured}));
      else
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
  add_json_option(*limits, options->json_only);
  limits->callback([&chosen, options] {
    chosen = [options] {
      return bench::run_modes(*options,
                              [&](auto mode) { return bench::measure_limits(*options, mode); });
    };
  });
}

void add_stream(CLI::App& command, Action& chosen) {
  auto options = std::make_shared<bench::stream::StreamOptions>();
  CLI::App* stream = command.add_subcommand(
      "stream",
      "STREAM on each kind of memory: NUMA nodes, libpmemobj, pools; with what makes a store "
      "persistent, shared or all-or-nothing");
  options->add_to(*stream);
  stream->callback(
      [&chosen, options] { chosen = [options] { return bench::stream::run_stream(*options); }; });
}

}  // namespace

void add_measurements(CLI::App& bench, Action& chosen) {
  add_limits(bench, chosen);
  add_footprint(bench, chosen);
  add_stream(bench, chosen);
  add_tune_command(bench, chosen);
}

}  // namespace penstock::tools

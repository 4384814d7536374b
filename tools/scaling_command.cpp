// penstock model scaling: a program's messages on many hosts, replayed by SimGrid.
#include <fmt/core.h>
#include <unistd.h>
#include <CLI/CLI.hpp>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <memory>

#include "base/format.hpp"
#include "command.hpp"
#include "json.hpp"
#include "model/cg.hpp"
#include "scaling_run.hpp"
#include "scaling_study.hpp"
#include "table.hpp"

namespace penstock::tools {

namespace {

struct ScalingArguments {
  ScalingOptions options;
  std::vector<std::string> sets;
  std::string measured, traces;
  bool json = false, quick = false;
};

Result<std::vector<ScalingNetwork>> networks_of(const ScalingArguments& arguments) {
  std::vector<ScalingNetwork> all = scaling_networks(), wanted;
  if (!arguments.measured.empty())
    for (const ScalingNetwork& each : PENSTOCK_TRY(measured_networks(arguments.measured)))
      all.push_back(each);
  std::string known;
  for (const ScalingNetwork& each : all)
    if (known.find(each.set) == std::string::npos) known += (known.empty() ? "" : ", ") + each.set;
  for (const std::string& set : arguments.sets)
    if (std::none_of(all.begin(), all.end(), [&](const auto& each) { return each.set == set; }))
      return fail(ErrorCode::not_found, "there is no set '{}'; there are {}{}", set, known,
                  arguments.measured.empty() ? ", and with --measured penstock-here" : "");
  for (const ScalingNetwork& each : all) {
    const bool named =
        arguments.sets.empty()
            ? !arguments.quick || each.set.starts_with("table1") || !each.measured.empty()
            : std::find(arguments.sets.begin(), arguments.sets.end(), each.set) !=
                  arguments.sets.end();
    if (named) wanted.push_back(each);
  }
  return wanted;
}

/// For `smpirun -replay`, or to compare with what a program sends.
int leave_traces(const ScalingArguments& arguments) {
  const auto size = model::cg_class(arguments.options.size);
  if (!size) return report(size.error());
  const std::uint32_t nodes = arguments.options.nodes.empty() ? 2 : arguments.options.nodes[0];
  const std::uint32_t ranks = nodes * arguments.options.per_node;
  std::vector<std::string> all;
  for (std::uint32_t rank = 0; rank < ranks; ++rank) {
    const auto trace = model::cg_trace(*size, ranks, rank, 1);
    if (!trace) return report(trace.error());
    all.push_back(*trace);
  }
  const auto written = write_traces(arguments.traces, all);
  if (!written) return report(written.error());
  fmt::print("written: {}, which names the traces of {}\n", *written, counted(ranks, "rank"));
  return exit_ok;
}

Json facts_of(const ScalingArguments& arguments, const std::string& version,
              const std::vector<ScalingCase>& cases, const std::vector<Calibration>& calibrations) {
  Json rows = Json::array(), calibrated = Json::array();
  for (const ScalingCase& each : cases)
    rows.push_back({{"set", each.network->set},
                    {"network", each.network->network},
                    {"source", each.network->source},
                    {"nodes", each.nodes},
                    {"ranks", each.ranks},
                    {"devices", each.devices == 0 ? Json() : Json(each.devices)},
                    {"total_s", each.total},
                    {"compute_s", each.compute},
                    {"latency_s", each.latency},
                    {"bandwidth_s", each.bandwidth},
                    {"contention_s", each.contention},
                    {"wait_s", each.wait}});
  for (const Calibration& each : calibrations)
    calibrated.push_back(
        {{"network", each.network->network}, {"worst", each.worst}, {"at_bytes", each.at}});
  const bool own = arguments.options.replayed.empty();
  return {{"simgrid", version},
          {"program", own ? "CG class " + arguments.options.size : arguments.options.replayed},
          {"calibration", calibrated},
          {"cases", rows},
          {"findings", findings_of(cases)}};
}

void print_cases(const ScalingArguments& arguments, const std::string& version,
                 const std::vector<ScalingCase>& cases,
                 const std::vector<Calibration>& calibrations) {
  const bool own = arguments.options.replayed.empty();
  fmt::print("{}, SimGrid {}, hosts of {} ranks of 1 Gflop/s\n",
             own ? fmt::format("An outer iteration of CG class {}", arguments.options.size)
                 : arguments.options.replayed,
             version, arguments.options.per_node);
  Table table({{"SET"},
               {"NETWORK"},
               {"HOSTS", Align::right},
               {"DEVICES", Align::right},
               {"TOTAL", Align::right},
               {"COMPUTE", Align::right},
               {"LATENCY", Align::right},
               {"BANDWIDTH", Align::right},
               {"CONTENTION", Align::right},
               {"WAIT", Align::right}});
  const auto time = [](double seconds) {
    return std::abs(seconds) < 5e-7 ? std::string("0") : about_ns(seconds * 1e9);
  };
  for (const ScalingCase& each : cases)
    table.add({each.network->set, each.network->network, std::to_string(each.nodes),
               each.devices == 0 ? std::string("-") : std::to_string(each.devices),
               time(each.total), time(each.compute), time(each.latency), time(each.bandwidth),
               time(each.contention), time(each.wait)});
  fmt::print("{}\n", table.text());
  for (const Calibration& each : calibrations)
    fmt::print("{}: simulated latencies within {:.1f} % of the measured ones\n",
               each.network->network, each.worst * 100);
  for (const std::string& finding : findings_of(cases)) fmt::print("{}\n", finding);
}

int run_scaling(ScalingArguments arguments) {
  if (!arguments.traces.empty()) return leave_traces(arguments);
  const auto version = simgrid_version();
  if (!version) return report(version.error());
  auto networks = networks_of(arguments);
  if (!networks) return report(networks.error());
  ScalingOptions& options = arguments.options;
  options.networks = *std::move(networks);
  if (options.nodes.empty())
    options.nodes = arguments.quick ? std::vector<std::uint32_t>{2, 16}
                                    : std::vector<std::uint32_t>{1, 2, 4, 8, 16, 32};
  if (options.devices.empty())
    options.devices = arguments.quick ? std::vector<std::uint32_t>{0, 1, 6}
                                      : std::vector<std::uint32_t>{0, 1, 2, 4, 6};
  const auto calibrations = check_calibration(options.networks);
  if (!calibrations) return report(calibrations.error());
  const bool terminal = ::isatty(STDERR_FILENO) == 1;
  const auto cases = study_scaling(options, [&](std::size_t done, std::size_t all) {
    if (terminal) fmt::print(stderr, "\rsimulated {} of {}{}", done, all, done == all ? "\n" : "");
  });
  if (!cases) return report(cases.error());
  if (arguments.json) return print_json(facts_of(arguments, *version, *cases, *calibrations));
  print_cases(arguments, *version, *cases, *calibrations);
  return exit_ok;
}

}  // namespace

void add_scaling_command(CLI::App& model, Action& chosen) {
  auto arguments = std::make_shared<ScalingArguments>();
  CLI::App* command = model.add_subcommand(
      "scaling",
      "CG's messages on 1 to 32 hosts over CXL and networks, by SimGrid: where the time goes, and "
      "what a pool's devices bear");
  command->add_option("--class", arguments->options.size, "of CG: S, W, A, B, C, D")
      ->capture_default_str();
  command
      ->add_option("--nodes", arguments->options.nodes,
                   "numbers of hosts, separated by commas (default: 1 to 32)")
      ->delimiter(',')
      ->check(CLI::Range(1, 256));
  command->add_option("--per-node", arguments->options.per_node, "ranks of a host")
      ->check(CLI::Range(1, 64))
      ->capture_default_str();
  command
      ->add_option("--devices", arguments->options.devices,
                   "devices of the pool, separated by commas; 0: no limit (default: 0,1,2,4,6)")
      ->delimiter(',')
      ->check(CLI::Range(0, 64));
  command
      ->add_option("--set", arguments->sets,
                   "sets of parameters, separated by commas: table1, section4.2, "
                   "real-cxl-model, table1-defaults, penstock-here (default: all)")
      ->delimiter(',');
  command->add_option("--measured", arguments->measured,
                      "FILE of 'penstock bench run pt2pt --json FILE': adds the set penstock-here");
  command->add_option(
      "--replay", arguments->options.replayed,
      "FILE of 'smpirun -trace-ti -trace-file FILE': another program in place of CG");
  command->add_option("--traces", arguments->traces,
                      "write CG's traces for the first number of hosts into this folder, and end");
  command->add_flag("--quick", arguments->quick, "fewer sets, hosts and devices");
  add_json_option(*command, arguments->json);
  command->callback(
      [&chosen, arguments] { chosen = [arguments] { return run_scaling(*arguments); }; });
}

}  // namespace penstock::tools

// penstock model scaling: a program's messages on many hosts, replayed by SimGrid.
#include <fmt/core.h>
#include <unistd.h>
#include <CLI/CLI.hpp>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <filesystem>
#include <memory>

#include "base/format.hpp"
#include "command.hpp"
#include "json.hpp"
#include "scaling_calibration.hpp"
#include "scaling_run.hpp"
#include "scaling_study.hpp"
#include "scaling_traces.hpp"
#include "table.hpp"

namespace penstock::tools {

namespace {

struct ScalingArguments {
  ScalingOptions options;
  std::vector<std::string> programs = {"cg", "miniamr"}, sets;
  std::string size = "D", replayed, measured, traces;
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
      return fail(ErrorCode::invalid_argument, "there is no set '{}'; there are {}{}", set, known,
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

Result<std::vector<ScalingProgram>> programs_of(const ScalingArguments& arguments) {
  std::vector<ScalingProgram> programs;
  if (!arguments.replayed.empty()) {
    programs.push_back(PENSTOCK_TRY(traced_program(arguments.replayed)));
    return programs;
  }
  for (const std::string& name : arguments.programs)
    programs.push_back(PENSTOCK_TRY(scaling_program(name, arguments.size)));
  return programs;
}

/// Writes traces for `smpirun -replay`, or for comparison with what a program sends.
Result<void> leave_traces(const ScalingArguments& arguments, const ScalingOptions& options) {
  std::error_code failed;
  std::filesystem::create_directories(arguments.traces, failed);
  const ScalingProgram& program = options.programs[0];
  const std::uint32_t ranks =
      program.ranks != 0 ? program.ranks : options.nodes[0] * options.per_node;
  const auto texts = PENSTOCK_TRY(program.traces(ranks));
  const auto written = PENSTOCK_TRY(write_traces(arguments.traces, texts));
  fmt::print("written: {}, which names the traces of {} of {}\n", written, counted(ranks, "rank"),
             program.unit);
  return {};
}

Json facts_of(const ScalingOptions& options, const std::string& version,
              const std::vector<ScalingCase>& cases, const std::vector<Calibration>& calibrations) {
  Json rows = Json::array(), calibrated = Json::array();
  for (const ScalingCase& each : cases)
    rows.push_back({{"program", each.program->name},
                    {"set", each.network->set},
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
    calibrated.push_back({{"network", each.network->network},
                          {"worst", each.worst},
                          {"at_bytes", each.at},
                          {"worst_exchange", each.worst_exchange},
                          {"exchange_at_bytes", each.exchange_at}});
  Json programs = Json::array();
  for (const ScalingProgram& each : options.programs)
    programs.push_back({{"name", each.name}, {"unit", each.unit}});
  return {{"simgrid", version},        {"programs", programs}, {"gflops", options.gflops},
          {"calibration", calibrated}, {"cases", rows},        {"findings", findings_of(cases)}};
}

void print_cases(const ScalingOptions& options, const ScalingProgram& program,
                 const std::vector<ScalingCase>& cases) {
  Table table({{"SET"},
               {"NETWORK"},
               {"HOSTS", Align::right},
               {"RANKS", Align::right},
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
    if (each.program == &program)
      table.add({each.network->set, each.network->network, std::to_string(each.nodes),
                 std::to_string(each.ranks),
                 each.devices == 0 ? std::string("-") : std::to_string(each.devices),
                 time(each.total), time(each.compute), time(each.latency), time(each.bandwidth),
                 time(each.contention), time(each.wait)});
  fmt::print("Simulated: {}, ranks of {:g} Gflop/s\n{}\n", program.unit, options.gflops,
             table.text());
}

void print_study(const ScalingOptions& options, const std::string& version,
                 const std::vector<ScalingCase>& cases,
                 const std::vector<Calibration>& calibrations) {
  for (const ScalingProgram& each : options.programs) print_cases(options, each, cases);
  for (const Calibration& each : calibrations)
    fmt::print(
        "{}: simulated latencies within {:.1f} % of the measured ones, exchanges within {:.1f} %\n",
        each.network->network, each.worst * 100, each.worst_exchange * 100);
  for (const std::string& finding : findings_of(cases)) fmt::print("{}\n", finding);
  fmt::print("By SimGrid {}.\n", version);
}

/// Fills in the defaults.
Result<ScalingOptions> complete(const ScalingArguments& arguments) {
  ScalingOptions options = arguments.options;
  options.programs = PENSTOCK_TRY(programs_of(arguments));
  const std::uint32_t traced = options.programs[0].ranks;
  if (options.nodes.empty() && traced != 0)
    options.nodes = {std::max(traced / options.per_node, 1u)};
  if (options.nodes.empty())
    options.nodes = arguments.quick ? std::vector<std::uint32_t>{2, 16}
                                    : std::vector<std::uint32_t>{1, 2, 4, 8, 16, 32};
  if (options.devices.empty())
    options.devices = arguments.quick ? std::vector<std::uint32_t>{0, 1, 6}
                                      : std::vector<std::uint32_t>{0, 1, 2, 4, 6};
  options.networks = PENSTOCK_TRY(networks_of(arguments));
  return options;
}

Result<void> study(const ScalingArguments& arguments) {
  const ScalingOptions options = PENSTOCK_TRY(complete(arguments));
  if (!arguments.traces.empty()) return leave_traces(arguments, options);
  const std::string version = PENSTOCK_TRY(simgrid_version());
  const bench::HeldSignals signals;  // before the first file that an interruption would leave
                                     // behind
  const auto calibrations = PENSTOCK_TRY(check_calibration(options.networks, signals));
  const bool terminal = ::isatty(STDERR_FILENO) == 1;
  const auto cases =
      PENSTOCK_TRY(study_scaling(options, signals, [&](std::size_t done, std::size_t all) {
        if (terminal)
          fmt::print(stderr, "\rsimulated {} of {}{}", done, all, done == all ? "\n" : "");
      }));
  if (arguments.json)
    print_json(facts_of(options, version, cases, calibrations));
  else
    print_study(options, version, cases, calibrations);
  return {};
}

int run_scaling(const ScalingArguments& arguments) {
  const auto done = study(arguments);
  return done ? exit_ok : report(done.error());
}

}  // namespace

void add_scaling_command(CLI::App& model, Action& chosen) {
  auto arguments = std::make_shared<ScalingArguments>();
  CLI::App* command = model.add_subcommand(
      "scaling",
      "messages of CG and miniAMR on 1 to 32 hosts over CXL and networks, by SimGrid: where the "
      "time goes, and what a pool's devices bear");
  CLI::Option* const programs =
      command
          ->add_option("--program", arguments->programs,
                       "programs, separated by commas: cg, miniamr (default: both)")
          ->delimiter(',');
  command->add_option("--class", arguments->size, "of CG: S, W, A, B, C, D")->capture_default_str();
  command->add_option("--gflops", arguments->options.gflops, "what a rank computes, Gflop/s")
      ->check(CLI::Range(1e-3, 1e6))
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
  command
      ->add_option("--replay", arguments->replayed,
                   "FILE of 'smpirun -trace-ti -trace-file FILE': another program in their place")
      ->excludes(programs);
  command->add_option(
      "--traces", arguments->traces,
      "write the first program's traces for the first number of hosts into this folder, and end");
  command->add_flag("--quick", arguments->quick, "fewer sets, hosts and devices");
  add_json_option(*command, arguments->json);
  command->callback(
      [&chosen, arguments] { chosen = [arguments] { return run_scaling(*arguments); }; });
}

}  // namespace penstock::tools

#include "bench/options.hpp"

#include <fmt/core.h>
#include <CLI/CLI.hpp>

#include "base/env.hpp"
#include "base/exit_status.hpp"
#include "base/log.hpp"
#include "base/output_file.hpp"
#include "bench/program.hpp"

namespace penstock::bench {

void Options::add_to(CLI::App& app) {
  app.add_option("--pool", pool,
                 "measure in this pool: one that is there is left as found, another is made and "
                 "removed (default: a temporary one in /dev/shm)");
  app.add_option("--size", size, "bytes of a pool that is made")->capture_default_str();
  app.add_option("--mode", modes, "software, hardware or both, separated by a comma")
      ->delimiter(',')
      ->capture_default_str();
  app.add_option("--rounds", rounds, "each variant is measured once a round, in turn")
      ->check(CLI::Range(1, 100000))
      ->capture_default_str();
  app.add_flag("--fifo", fifo,
               "run measured bursts with real-time priority, each followed by as long a nap");
  app.add_flag("--one-node", one_node, "both processes on one node (ring only)");
}

Result<std::uint64_t> Options::size_bytes() const {
  return base::parse_bytes(size);
}

PairOptions Options::pair() const {
  PairOptions pair;
  pair.fifo = fifo;
  return pair;
}

int run_modes(const Options& options,
              const std::function<Result<Report>(coherence::Mode mode)>& measure) {
  std::vector<Report> reports;
  const auto failed = [](const Error& error) {
    base::log(base::Level::error, "{}", error.message);
    return base::exit_status_of(error.code);
  };
  auto file = base::OutputFile::open(options.json);
  if (!file) return failed(file.error());
  for (const std::string& name : options.modes) {
    const auto mode = coherence::parse_mode(name);
    if (!mode) return failed(mode.error());
    auto report = measure(*mode);
    if (!report) return failed(report.error());
    if (!options.json_only) report->print();
    reports.push_back(std::move(*report));
  }
  if (options.json_only) fmt::print("{}", json_of(reports));
  if (auto written = file->write(json_of(reports)); !written) return failed(written.error());
  return 0;
}

int run_benchmark(const char* description, Options options, int argc, char** argv,
                  const std::function<Result<Report>(const Options&, coherence::Mode)>& measure) {
  Program program(description);
  program.add(options);
  if (const auto status = program.parse(argc, argv)) return *status;
  return run_modes(options, [&](coherence::Mode mode) { return measure(options, mode); });
}

}  // namespace penstock::bench

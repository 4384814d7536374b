// Command-line options of all benchmarks.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "bench/pair_runner.hpp"
#include "bench/report.hpp"
#include "coherence/coherence.hpp"

namespace CLI {
class App;
}

namespace penstock::bench {

struct Options {
  std::string pool;  ///< SPEC; "" for a temporary pool
  std::string size;  ///< of a pool that the benchmark makes
  std::vector<std::string> modes = {"software"};
  std::size_t rounds = 15;
  bool fifo = false;
  bool one_node = false;   ///< both sides on one node; otherwise each has its own
  std::string json;        ///< file; "": none
  bool json_only = false;  ///< print the results as JSON on standard output, in place of the tables

  void add_to(CLI::App& app);
  Result<std::uint64_t> size_bytes() const;
  PairOptions pair() const;
};

/// Makes a report for each mode asked for, prints it, and writes the JSON file at the end. Returns
/// the exit status.
int run_modes(const Options& options,
              const std::function<Result<Report>(coherence::Mode mode)>& measure);

/// The main function of a program that has only these options; `options` holds their defaults.
/// Returns the exit status.
int run_benchmark(const char* description, Options options, int argc, char** argv,
                  const std::function<Result<Report>(const Options&, coherence::Mode)>& measure);

}  // namespace penstock::bench

// Command-line options that all benchmarks have.
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
  std::string size;  ///< of a pool that is made
  std::vector<std::string> modes = {"software"};
  std::size_t rounds = 15;
  bool fifo = false;
  bool one_node = false;   ///< both sides; else each is one by itself
  std::string json;        ///< file, "" for none
  bool json_only = false;  ///< the results as JSON on standard output, in place of the tables

  void add_to(CLI::App& app);
  Result<std::uint64_t> size_bytes() const;
  PairOptions pair() const;
};

/// Makes a report for each mode asked for, prints it, and writes the JSON file at the end. Gives
/// the exit status.
int run_modes(const Options& options,
              const std::function<Result<Report>(coherence::Mode mode)>& measure);

/// The main of a program that has these options alone; `options` holds their defaults. Gives the
/// exit status.
int run_benchmark(const char* description, Options options, int argc, char** argv,
                  const std::function<Result<Report>(const Options&, coherence::Mode)>& measure);

}  // namespace penstock::bench

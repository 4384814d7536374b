// penstock bench stream: options, and the order of the whole.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "bench/stream/classes.hpp"
#include "bench/stream/measure.hpp"

namespace CLI {
class App;
}

namespace penstock::bench::stream {

/// As they were written; run_stream checks them.
struct StreamOptions {
  std::vector<std::string> kernels, targets, classes, stores, modes, affinities;
  std::string threads, cores;
  std::uint64_t elements = 0;  ///< 0: as many as fit, 100 million at most
  unsigned ntimes = 10, repeat = 1;
  bool first_touch = false, any_size = false, smallest = false, list = false;
  std::string json, csv;

  void add_to(CLI::App& app);
};

/// Measures, prints the tables and writes the files asked for. Gives the exit status: 0; 1 where
/// the options are wrong or nothing could be measured or a result was wrong; 128 and the signal
/// where it was interrupted, with what had been measured till then.
int run_stream(const StreamOptions& options);

inline constexpr std::uint64_t published_elements = 100'000'000;
/// An array is to be so many times all last-level caches in use.
inline constexpr std::uint64_t caches_an_array = 4;

/// The options, checked.
struct Settings {
  Run run;                        ///< of which cpus are set for each series and number of threads
  std::vector<unsigned> threads;  ///< empty: powers of two, and all CPUs
  std::vector<int> cpus;          ///< that may be used
  std::vector<Affinity> affinities;
  TargetOptions targets;
};
Result<Settings> check(const StreamOptions& options);
/// "1,2,8", "1-4", "1..4"; empty for "". Error: invalid_argument.
Result<std::vector<unsigned>> parse_threads(const std::string& text);

/// What is measured: series that have room, and their common number of elements.
struct Sized {
  std::vector<Series> series;
  std::uint64_t elements = 0;
};
/// `room`: as max_elements. Moves series without room to `absent`. Error: invalid_argument, where
/// --elements is too small, or no multiple of a line.
Result<Sized> choose_elements(const StreamOptions& options, const Topology& topology,
                              std::vector<Series> series, std::vector<Absent>& absent,
                              Result<std::uint64_t> (*room)(const TargetSpec&) = max_elements);

}  // namespace penstock::bench::stream

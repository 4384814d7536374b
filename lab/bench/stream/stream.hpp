// penstock bench stream: its options, and the order of its steps.
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

/// The options as written; run_stream checks them.
struct StreamOptions {
  std::vector<std::string> kernels, targets, classes, stores, modes, affinities;
  std::string threads, cores;
  std::uint64_t elements = 0;  ///< 0: as many as fit, at most 100 million
  unsigned ntimes = 10, repeat = 1;
  bool first_touch = false, any_size = false, smallest = false, list = false;
  std::string json, csv;

  void add_to(CLI::App& app);
};

/// Measures, prints the tables and writes the files asked for. Returns the exit status: 0; 1 if the
/// options are wrong, nothing could be measured, or a result was wrong; 128 and the signal if
/// interrupted, with the results so far.
int run_stream(const StreamOptions& options);

inline constexpr std::uint64_t published_elements = 100'000'000;
/// Least length of an array, as a multiple of all last-level caches in use.
inline constexpr std::uint64_t caches_an_array = 4;

/// The options, checked.
struct Settings {
  Run run;                        ///< its cpus are set for each series and number of threads
  std::vector<unsigned> threads;  ///< empty: powers of two, and all CPUs
  std::vector<int> cpus;          ///< CPUs that may be used
  std::vector<Affinity> affinities;
  TargetOptions targets;
};
Result<Settings> check(const StreamOptions& options);
/// "1,2,8", "1-4", "1..4"; empty for "". Errors: invalid_argument.
Result<std::vector<unsigned>> parse_threads(const std::string& text);

/// The measured series, which have room, and their common number of elements.
struct Sized {
  std::vector<Series> series;
  std::uint64_t elements = 0;
};
/// `room`: as max_elements. Moves series without room to `absent`. Errors: invalid_argument if
/// --elements is too small, or no multiple of a line.
Result<Sized> choose_elements(const StreamOptions& options, const Topology& topology,
                              std::vector<Series> series, std::vector<Absent>& absent,
                              Result<std::uint64_t> (*room)(const TargetSpec&) = max_elements);

}  // namespace penstock::bench::stream

// The command line of a benchmark program. CLI11 stands in its source alone: a program that
// includes it compiles for fifteen seconds more.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "bench/options.hpp"

namespace penstock::bench {

/// Bounds of a number, both allowed.
struct Bounds {
  std::uint64_t least, most;
};

class Program {
 public:
  explicit Program(const char* description);
  ~Program();

  /// --pool, --size, --mode and the other options of all benchmarks.
  void add(Options& options);
  /// An option that sets `value`, which holds its default. A list is separated by commas. T: int,
  /// std::uint16_t, std::uint32_t, std::size_t, std::string, or a std::vector of std::uint32_t or
  /// std::size_t.
  template <class T>
  void add(const char* name, T& value, const char* what, std::optional<Bounds> bounds = {});
  /// A list of some of `words`.
  void add(const char* name, std::vector<std::string>& value, const char* what,
           const std::vector<std::string>& words);
  void add_flag(const char* name, bool& value, const char* what);

  /// Parses the command line. Returns the exit status where the program has to end: after --help,
  /// or an error, which it has printed.
  std::optional<int> parse(int argc, char** argv);

 private:
  std::unique_ptr<CLI::App> app_;
};

}  // namespace penstock::bench

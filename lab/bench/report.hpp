// Results of a benchmark: tables for people, and the same as JSON for programs.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "base/status.hpp"

namespace penstock::bench {

/// A word, a number, or empty.
using Cell = std::variant<std::monostate, std::string, double>;

struct Column {
  std::string title;  ///< also the key in JSON
  int decimals = 0;
};

struct Table {
  std::string title;
  std::vector<Column> columns;
  std::vector<std::vector<Cell>> rows;
};

/// All rounds of one measured thing, for programs that compare runs
/// (penstock.bench.experiment.Key).
struct Figure {
  std::string series, op, metric;  ///< the series, its operation, and the unit: "latency_us"
  std::optional<std::uint64_t> bytes;
  std::string group;  ///< "" if there is only one table of this kind
  unsigned procs = 1;
  std::optional<unsigned> serialized;  ///< consecutive device accesses
};

class Report {
 public:
  explicit Report(std::string benchmark) : benchmark_(std::move(benchmark)) {}
  /// Adds a fact about the whole run: mode, placement, rounds.
  void note(std::string key, Cell value) { notes_.emplace_back(std::move(key), std::move(value)); }
  Table& add(Table table) { return tables_.emplace_back(std::move(table)); }
  /// Does nothing if no round was recorded. `scale` converts the recorded unit into that of the
  /// metric.
  void add(Figure figure, std::vector<double> values, double scale = 1);
  void print() const;
  std::string json() const;

 private:
  std::string benchmark_;
  std::vector<std::pair<std::string, Cell>> notes_;
  std::vector<Table> tables_;
  std::vector<std::pair<Figure, std::vector<double>>> figures_;
};

/// All reports of a run as one JSON array.
std::string json_of(const std::vector<Report>& reports);

inline Cell cell(std::optional<double> value) {
  return value ? Cell(*value) : Cell();
}
/// a / b if both are known.
Cell ratio(std::optional<double> a, std::optional<double> b);

}  // namespace penstock::bench

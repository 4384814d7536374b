// The figures of a run as tables, JSON and CSV.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "bench/report.hpp"
#include "bench/stream/classes.hpp"
#include "bench/stream/measure.hpp"

namespace penstock::bench::stream {

/// One series with one number of threads, with all its repetitions.
struct Figure {
  const Series* series = nullptr;
  unsigned threads = 0;
  std::vector<Measured> measured;

  /// Median of the best MB/s of its repetitions; nullopt if the kernel was not measured.
  std::optional<double> median(Kernel kernel) const;
};

struct Facts {
  std::uint64_t elements = 0;
  unsigned ntimes = 0;
  std::optional<std::uint64_t> cache_bytes;
  bool first_touch = false;
};

/// A table for each class, then the ratios; for people.
Report tables_of(const std::vector<Figure>& figures, const Facts& facts);
/// The same, each single figure, facts about the memory, and what is absent; for programs.
Report all_of(const std::vector<Figure>& figures, const std::vector<Absent>& absent,
              const Facts& facts);
/// The ratios of the paper's argument, at the largest number of threads that both series have:
/// remote/local, CXL/remote, App-Direct/Memory-Mode, the price of crash consistency.
Table ratios_of(const std::vector<Figure>& figures);
/// Each series once, with the facts found about its memory.
std::vector<std::pair<const Series*, std::string>> memory_of(const std::vector<Figure>& figures);
/// Columns as in the paper's files, and then the series.
std::string csv_of(const std::vector<Figure>& figures, const Facts& facts);

}  // namespace penstock::bench::stream

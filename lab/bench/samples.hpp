// Measured values, one for each row and round: written by one side, later read by the supervisor.
#pragma once

#include <cstddef>
#include <optional>
#include <span>
#include <vector>

namespace penstock::bench {

/// Values that this process shares with processes that it forks later.
class Samples {
 public:
  Samples(std::size_t rows, std::size_t rounds);
  Samples(const Samples&) = delete;
  Samples& operator=(const Samples&) = delete;
  ~Samples();

  void record(std::size_t row, std::size_t round, double value) {
    values_[row * rounds_ + round] = value;
  }
  std::size_t rounds() const { return rounds_; }
  /// Median of the recorded rounds; nullopt if there are none.
  std::optional<double> median(std::size_t row) const;
  std::optional<double> minimum(std::size_t row) const;
  /// Values of the recorded rounds, ascending.
  std::vector<double> values(std::size_t row) const { return sorted(row); }

 private:
  std::vector<double> sorted(std::size_t row) const;
  std::size_t rows_, rounds_;
  std::span<double> values_;
};

}  // namespace penstock::bench

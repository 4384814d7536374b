// The contents of the arrays after a number of runs, computed on scalars, and the arrays' distance
// from them: STREAM's own validation (papers/3, section 3.2). It finds a wrong kernel, a wrong
// scalar, and data that did not arrive.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "bench/stream/kernels.hpp"

namespace penstock::bench::stream {

/// All elements of an array have one value.
struct Values {
  double a = 0, b = 0, c = 0;
};

/// The values after a = 1, b = 2, c = 0 and a = 2 a, by which STREAM measures its clock.
Values first_values();
/// The values after `times` runs of the kernels, in their order.
Values replay(const std::vector<Kernel>& kernels, unsigned times);
/// With more runs the values leave the range of a double.
inline constexpr unsigned max_runs = 200;

/// Mean absolute errors, each relative to the expected value.
struct Errors {
  double a = 0, b = 0, c = 0;
  bool small() const;        ///< each is below 1e-13; false for NaN
  std::string text() const;  ///< "a 0, b 2.1e-16, c 0"
};
inline constexpr double error_limit = 1e-13;

/// Adds up the errors of an array, block by block.
class ErrorSum {
 public:
  explicit ErrorSum(double expected) : expected_(expected) {}
  void add(const double* block, std::uint64_t elements);
  /// Mean relative error; absolute if 0 is expected.
  double mean() const;

 private:
  double expected_, sum_ = 0;
  std::uint64_t elements_ = 0;
};

}  // namespace penstock::bench::stream

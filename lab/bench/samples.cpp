#include "bench/samples.hpp"

#include <sys/mman.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <new>

namespace penstock::bench {

Samples::Samples(std::size_t rows, std::size_t rounds) : rows_(rows), rounds_(rounds) {
  void* memory = mmap(nullptr, rows * rounds * sizeof(double), PROT_READ | PROT_WRITE,
                      MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED) throw std::bad_alloc();
  values_ = {static_cast<double*>(memory), rows * rounds};
  std::fill(values_.begin(), values_.end(), std::numeric_limits<double>::quiet_NaN());
}

Samples::~Samples() {
  munmap(values_.data(), values_.size_bytes());
}

std::vector<double> Samples::sorted(std::size_t row) const {
  std::vector<double> values;
  for (const double value : values_.subspan(row * rounds_, rounds_))
    if (!std::isnan(value)) values.push_back(value);
  std::sort(values.begin(), values.end());
  return values;
}

std::optional<double> Samples::median(std::size_t row) const {
  const auto values = sorted(row);
  if (values.empty()) return std::nullopt;
  const std::size_t middle = values.size() / 2;
  return values.size() % 2 == 1 ? values[middle] : (values[middle - 1] + values[middle]) / 2;
}

std::optional<double> Samples::minimum(std::size_t row) const {
  const auto values = sorted(row);
  if (values.empty()) return std::nullopt;
  return values.front();
}

}  // namespace penstock::bench

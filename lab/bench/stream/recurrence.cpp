#include "bench/stream/recurrence.hpp"

#include <cmath>

#include "base/format.hpp"

namespace penstock::bench::stream {

Values first_values() {
  return {2.0 * 1.0, 2.0, 0.0};
}

Values replay(const std::vector<Kernel>& kernels, unsigned times) {
  Values at = first_values();
  for (unsigned i = 0; i < times; ++i)
    for (const Kernel kernel : kernels) switch (kernel) {
        case Kernel::copy:
          at.c = at.a;
          break;
        case Kernel::scale:
          at.b = published_scalar * at.c;
          break;
        case Kernel::add:
          at.c = at.a + at.b;
          break;
        case Kernel::triad:
          at.a = at.b + published_scalar * at.c;
          break;
      }
  return at;
}

bool Errors::small() const {
  return a < error_limit && b < error_limit && c < error_limit;
}

std::string Errors::text() const {
  return fmt::format("a {:.2g}, b {:.2g}, c {:.2g}", a, b, c);
}

void ErrorSum::add(const double* block, std::uint64_t elements) {
  double sum = 0;
  for (std::uint64_t j = 0; j < elements; ++j) sum += std::fabs(block[j] - expected_);
  sum_ += sum;
  elements_ += elements;
}

double ErrorSum::mean() const {
  if (elements_ == 0) return std::nan("");  // no element was compared
  const double mean = sum_ / static_cast<double>(elements_);
  return expected_ == 0 ? mean : mean / std::fabs(expected_);
}

}  // namespace penstock::bench::stream

// Compiled without turning the loop into a memcpy: the C library's would store past the cache, and
// Copy would no longer be plain stores (CMakeLists.txt).
#include "bench/stream/kernels.hpp"

#include <strings.h>

#include <algorithm>
#include <string>

#include "base/format.hpp"

namespace penstock::bench::stream {

const char* kernel_name(Kernel kernel) {
  switch (kernel) {
    case Kernel::copy:
      return "Copy";
    case Kernel::scale:
      return "Scale";
    case Kernel::add:
      return "Add";
    case Kernel::triad:
      return "Triad";
  }
  return "?";
}

Result<Kernel> parse_kernel(std::string_view text) {
  for (const Kernel kernel : all_kernels)
    if (strcasecmp(std::string(text).c_str(), kernel_name(kernel)) == 0) return kernel;
  return fail(ErrorCode::invalid_argument,
              "'{}' is no kernel of STREAM; they are copy, scale, add, triad: --kernels copy,triad",
              text);
}

Part part_of(std::uint64_t elements, unsigned index, unsigned threads) {
  const std::uint64_t lines = (elements + line_elements - 1) / line_elements;
  const std::uint64_t each = (lines + threads - 1) / threads;
  const std::uint64_t first = std::min(elements, index * each * line_elements);
  return {first, std::min(elements - first, each * line_elements)};
}

Share share_of(Kernel kernel, const Arrays& arrays, unsigned index, unsigned threads) {
  const Part part = part_of(arrays.elements, index, threads);
  Share share{.kernel = kernel, .first = part.first, .count = part.count};
  switch (kernel) {
    case Kernel::copy:  // c = a
      share.to = arrays.c;
      share.from = arrays.a;
      break;
    case Kernel::scale:  // b = s * c
      share.to = arrays.b;
      share.from = arrays.c;
      break;
    case Kernel::add:  // c = a + b
      share.to = arrays.c;
      share.from = arrays.a;
      share.also = arrays.b;
      break;
    case Kernel::triad:  // a = b + s * c
      share.to = arrays.a;
      share.from = arrays.b;
      share.also = arrays.c;
      break;
  }
  return share;
}

void run_plain(const Share& share) {
  double* const to = share.to;
  const double* const from = share.from;
  const double* const also = share.also;
  run_kernel(
      share, [to](std::uint64_t j) -> double& { return to[j]; },
      [from](std::uint64_t j) { return from[j]; }, [also](std::uint64_t j) { return also[j]; });
}

}  // namespace penstock::bench::stream

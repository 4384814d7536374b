#include "window/ranges.hpp"

#include <algorithm>

namespace penstock::window {

namespace {

/// Ranges less than this apart are merged: writing extra lines back costs less than a request.
constexpr std::uint64_t near_bytes = 4096;

std::uint64_t gap(const Range& range, const Range& other) {
  if (other.first >= range.end) return other.first - range.end;
  if (range.first >= other.end) return range.first - other.end;
  return 0;
}

Range grown(const Range& range, const Range& by, std::uint64_t limit, Ranges::Growth growth) {
  Range all{std::min(range.first, by.first), std::max(range.end, by.end)};
  if (growth == Ranges::Growth::exact) return all;
  const std::uint64_t bytes = all.bytes();
  if (by.end > range.end) all.end = std::min(limit, all.end + bytes);
  if (by.first < range.first) all.first -= std::min(all.first, bytes);
  return all;
}

}  // namespace

void Ranges::include(std::uint64_t from, std::uint64_t to, std::uint64_t bytes, Growth growth) {
  const std::uint64_t limit = (bytes + line_bytes - 1) / line_bytes * line_bytes;
  const Range wanted{from / line_bytes * line_bytes,
                     std::min(limit, (to + line_bytes - 1) / line_bytes * line_bytes)};
  Range* nearest = nullptr;
  Range* free = nullptr;
  for (Range& range : ranges_) {
    if (range.bytes() == 0) {
      free = &range;
    } else if (nearest == nullptr || gap(range, wanted) < gap(*nearest, wanted)) {
      nearest = &range;
    }
  }
  if (free != nullptr && (nearest == nullptr || gap(*nearest, wanted) >= near_bytes)) {
    *free = wanted;
  } else {
    *nearest = grown(*nearest, wanted, limit, growth);
  }
}

}  // namespace penstock::window

#include "persist/line_pair.hpp"

namespace penstock::persist {

std::optional<PairLine> LinePair::latest() const {
  device_.invalidate(place(0), line_bytes);
  device_.invalidate(place(1), line_bytes);
  device_.load_fence();
  std::optional<PairLine> newest;
  for (std::uint64_t parity = 0; parity < 2; ++parity) {
    PairLine line;
    device_.load_line(place(parity), &line);
    const bool whole = (line.step & 1) == parity && line.checksum == checksum_of(line, key_);
    if (whole && (!newest || line.step > newest->step)) newest = line;
  }
  return newest;
}

}  // namespace penstock::persist

#include "base/pace.hpp"

#include <algorithm>

#include "base/clock.hpp"

namespace penstock::base {

bool Pace::is_time() const {
  return now_ns() >= next_ns_;
}

void Pace::not_before(std::uint64_t ns) {
  next_ns_ = std::max(next_ns_, now_ns() + std::min(ns, longest_ns));
}

void Pace::set_next(std::uint64_t lines) {
  constexpr std::uint64_t ns_a_read = 1'000'000'000 / reads_a_second, parts = 8;
  const std::uint64_t now = now_ns();
  if (since_ns_ == 0) since_ns_ = now;
  const std::uint64_t waited = now - since_ns_;
  if (waited >= brisk_ns)
    next_ns_ = now + std::min({lines * ns_a_read, waited / parts, longest_ns});
}

}  // namespace penstock::base

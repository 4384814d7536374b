#include "group/waiting.hpp"

#include "base/clock.hpp"
#include "base/format.hpp"

namespace penstock::group {

bool Waiting::is_time() {
  constexpr std::uint64_t a_while_ns = 300'000'000;
  const std::uint64_t now = base::coarse_ns();
  if (since_ns_ == 0) {
    since_ns_ = now;
    next_ns_ = now + a_while_ns;
  }
  return now >= next_ns_;
}

void Waiting::publish(const std::string& what) {
  constexpr std::uint64_t between_ns = 500'000'000;
  const std::uint64_t now = base::coarse_ns();
  next_ns_ = now + between_ns;
  if (what == published_) return;
  if (!published_.empty()) since_ns_ = now;
  published_ = what;
  pool_.publish_activity(base::since_text(what, now - since_ns_));
}

}  // namespace penstock::group

#include "group/waiting.hpp"

#include "base/clock.hpp"
#include "base/format.hpp"

namespace penstock::group {

bool Waiting::is_long() {
  constexpr std::uint64_t a_while_ns = 300'000'000;
  const std::uint64_t now = base::coarse_ns();
  if (since_ns_ == 0) since_ns_ = now;
  return now - since_ns_ >= a_while_ns;
}

void Waiting::tell(const std::string& what) {
  told_ = true;
  pool_.publish_activity(base::since_text(what, base::coarse_ns() - since_ns_));
}

}  // namespace penstock::group

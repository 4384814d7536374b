#include "transport/deferral.hpp"

#include "base/clock.hpp"

namespace penstock::transport {
namespace {

/// Limits of deferring an unexpected long message, and how many are taken after a vain deferral.
constexpr std::uint64_t short_bytes = 8192, defer_ns = 20'000, defer_for_room_ns = 1'000'000;
constexpr std::uint32_t undeferred_after_late = 64;

}  // namespace

/// A long message that comes shortly before its receive waits in the pool: an extra copy into fresh
/// memory and out of it would triple the cost. It waits only briefly, since the user may need a
/// message behind it. After a receive that came too late, the next messages do not wait.
bool Deferral::may_wait(std::uint64_t bytes, std::uint64_t no_deferral_until_ns) const {
  if (bytes <= short_bytes || undeferred_left_ > 0) return false;
  const std::uint64_t now = base::now_ns();
  return now >= no_deferral_until_ns && (since_ns_ == 0 || now - since_ns_ < defer_ns);
}

/// Waits for room in this process: otherwise the sender's next messages would fill its memory
/// before the sender learns of it. Does not apply to the last messages of an ended peer.
bool Deferral::may_wait_for_room(std::uint64_t bytes, std::uint64_t no_deferral_until_ns) const {
  if (bytes <= short_bytes || no_deferral_until_ns == ~std::uint64_t{0}) return false;
  return since_ns_ == 0 || base::now_ns() - since_ns_ < defer_for_room_ns;
}

void Deferral::begin() {
  if (since_ns_ == 0) since_ns_ = base::now_ns();
}

void Deferral::note(std::uint64_t bytes, bool posted) {
  if (posted || bytes <= short_bytes) return;
  undeferred_left_ = undeferred_left_ > 0 ? undeferred_left_ - 1 : undeferred_after_late;
}

}  // namespace penstock::transport

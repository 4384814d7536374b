// Doorbell: one line, the sequence in its first word.
//
//   | word 0: sequence | words 1..7: unused |     writer: the ringer
//
// The sequence is one naturally aligned word, so a reader never sees it in parts.
#include <string>

#include "base/format.hpp"
#include "base/wait.hpp"
#include "sync/sync.hpp"

namespace penstock::sync {

void Doorbell::ring(std::uint64_t sequence) {
  memory_.store_fence();  // what was published before is at the device before the sequence
                          // announces it
  memory_.publish_word(line_, sequence);
  memory_.store_fence();  // pairs with read(): no part of the ring stays in a store buffer
}

std::uint64_t Doorbell::read() const {
  return memory_.observe_word(line_);
}

Result<void> Doorbell::wait(std::uint64_t sequence, std::uint64_t timeout_ns,
                            const AliveCheck& alive, std::uint64_t token) const {
  auto ringer_dead = [&]() -> Result<void> {
    if (!alive || token == 0 || alive(token)) return {};
    // The ringer may have rung just before its death.
    const std::uint64_t reached = read();
    if (reached >= sequence) return {};
    return fail(ErrorCode::peer_dead, "doorbell: the ringer died at sequence {}, {} was awaited",
                reached, sequence);
  };
  base::Waiter waiter("doorbell", timeout_ns, ringer_dead);
  while (read() < sequence) {
    if (auto paused = waiter.pause(); !paused) {
      if (paused.error().code != ErrorCode::deadline) return paused;
      return fail(ErrorCode::deadline, "{} (sequence {} awaited, {} found)", paused.error().message,
                  sequence, read());
    }
  }
  return {};
}

}  // namespace penstock::sync

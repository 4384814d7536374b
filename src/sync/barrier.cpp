// Sequence barrier. Line i, written by participant i only:
//
//   | word 0: sequence of the barrier reached | word 1: token | words 2..7: 0 |
//
// Sequences grow, so the lines are never reset: a participant that runs ahead into the next barrier
// still counts as arrived in this one. After a deadline the wait may be repeated; it waits for the
// same barrier again.
#include <fmt/format.h>

#include <string>
#include <vector>

#include "base/format.hpp"
#include "base/pace.hpp"
#include "base/wait.hpp"
#include "sync/sync.hpp"

namespace penstock::sync {

namespace {

struct alignas(64) BarrierLine {
  std::uint64_t sequence = 0;
  std::uint64_t token = 0;
  std::uint64_t unused[6] = {};
};
static_assert(sizeof(BarrierLine) == coherence::line_bytes);

std::string join(const std::vector<std::uint32_t>& numbers) {
  constexpr std::size_t shown = 16;
  std::string text;
  for (std::size_t i = 0; i < numbers.size() && i < shown; ++i) {
    text += fmt::format("{}{}", i == 0 ? "" : ", ", numbers[i]);
  }
  if (numbers.size() > shown) text += fmt::format(" and {} more", numbers.size() - shown);
  return text;
}

}  // namespace

Barrier::Barrier(const coherence::Memory& memory, void* lines, std::uint32_t participants,
                 std::uint32_t self, std::uint64_t token, AliveCheck alive)
    : memory_(memory),
      lines_(static_cast<std::byte*>(lines)),
      participants_(participants),
      self_(self),
      token_(token),
      alive_(std::move(alive)) {}

void Barrier::arrive() {
  const BarrierLine mine{.sequence = sequence_ + 1, .token = token_};
  memory_.store_fence();  // publishes before the barrier reach the device before the arrival
  memory_.send_line(lines_ + 64ull * self_, &mine);
  memory_.store_fence();
}

/// One batch of invalidations.
void Barrier::drop_arrived(std::vector<std::uint32_t>& missing) const {
  for (std::uint32_t i : missing) memory_.invalidate(lines_ + 64ull * i, coherence::line_bytes);
  memory_.load_fence();
  std::erase_if(missing,
                [&](std::uint32_t i) { return memory_.load_word(lines_ + 64ull * i) > sequence_; });
}

Result<void> Barrier::find_dead(const std::vector<std::uint32_t>& missing) const {
  if (!alive_) return {};
  for (std::uint32_t i : missing) {
    BarrierLine line;
    memory_.load_line(&line, lines_ + 64ull * i);  // as of the last poll
    if (line.token == 0 || line.sequence > sequence_ || alive_(line.token)) continue;
    // The dead participant may have arrived just before its death.
    memory_.observe_line(&line, lines_ + 64ull * i);
    if (line.sequence > sequence_) continue;
    return fail(ErrorCode::peer_dead, "barrier {}: participant {} of {}{} died before it arrived",
                sequence_ + 1, i, participants_,
                describe_ ? fmt::format(" ({})", describe_(line.token)) : "");
  }
  return {};
}

Result<void> Barrier::wait(std::uint64_t timeout_ns) {
  arrive();
  std::vector<std::uint32_t> missing;
  missing.reserve(participants_);
  for (std::uint32_t i = 0; i < participants_; ++i) {
    if (i != self_) missing.push_back(i);
  }
  base::Waiter waiter(
      "barrier", timeout_ns, [&] { return find_dead(missing); },
      base::WaitPolicy::for_processes(participants_));
  base::Pace pace;
  for (;;) {
    if (pace.due()) {
      const std::uint64_t read = memory_.device_reads();
      drop_arrived(missing);
      if (missing.empty()) break;
      pace.looked(memory_.device_reads() - read);
    }
    if (auto paused = waiter.pause(); !paused) {
      if (paused.error().code != ErrorCode::deadline) return paused;
      return fail(ErrorCode::deadline, "{}: barrier {} misses {} of {} participants: {}",
                  paused.error().message, sequence_ + 1, missing.size(), participants_,
                  join(missing));
    }
  }
  ++sequence_;
  return {};
}

}  // namespace penstock::sync

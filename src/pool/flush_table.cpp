#include "pool/flush_table.hpp"

#include "pool/checksummed_line.hpp"

namespace penstock::pool {

namespace {

struct alignas(64) FlushLine {
  std::uint64_t ticks = 0;
  std::uint64_t last_death = 0;  ///< tick of the last death
  std::uint64_t leader = 0;      ///< this and the next: in flush lines
  std::uint64_t steps = 0;
  std::uint64_t unused[3] = {};
  std::uint64_t checksum = 0;
};
static_assert(sizeof(FlushLine) == coherence::line_bytes);

/// A half-written line counts as the worst case.
constexpr std::uint64_t unknown_death = UINT64_MAX;

}  // namespace

// The first copy is published first, so of two whole copies it is the newer one. If neither is
// whole, both were damaged: then everything waits for every node.
FlushTable::Clock FlushTable::clock() const {
  memory_.invalidate(base_ + clock_place(0), 2 * coherence::line_bytes);
  memory_.load_fence();
  // a process that was stopped within a tick and declared dead may still store one of the two
  std::optional<FlushLine> newest;
  for (std::uint32_t copy = 0; copy < 2; ++copy) {
    const auto line = load_checksummed_line<FlushLine>(memory_, base_, clock_place(copy));
    if (line && (!newest || line->ticks > newest->ticks)) newest = line;
  }
  if (newest) return {.ticks = newest->ticks, .last_death = newest->last_death};
  return {.ticks = unreadable_ticks, .last_death = unknown_death};
}

void FlushTable::publish_clock(const Clock& clock) const {
  FlushLine line;
  line.ticks = clock.ticks;
  line.last_death = clock.last_death;
  memory_.store_fence();  // the last tick's second copy first: one copy is always whole
  if (confirm_) confirm_();
  publish_checksummed_line(memory_, base_, clock_place(0), line);  // pairs with clock()
  memory_.store_fence();
  if (confirm_) confirm_();
  publish_checksummed_line(memory_, base_, clock_place(1), line);
}

void FlushTable::tick() const {
  Clock now = clock();
  ++now.ticks;
  publish_clock(now);
}

void FlushTable::record_deaths(const std::set<std::uint32_t>& nodes) const {
  if (nodes.empty() || !memory_.loads_may_be_stale()) return;
  const Clock now = clock();
  FlushLine line;
  line.ticks = now.ticks + 1;
  for (const std::uint32_t node : nodes) {
    if (node >= nodes_) continue;
    if (confirm_) confirm_();
    publish_checksummed_line(memory_, base_, death_place(node), line);  // pairs with times()
  }
  publish_clock({.ticks = line.ticks, .last_death = line.ticks});
}

void FlushTable::forget_deaths(std::uint32_t node) const {
  if (node >= nodes_) return;
  if (confirm_) confirm_();
  publish_checksummed_line(memory_, base_, death_place(node), FlushLine{});
}

void FlushTable::record_flush(std::uint32_t node, const Flush& flush) const {
  if (node >= nodes_) return;
  FlushLine line;
  line.ticks = flush.ticks;
  line.leader = flush.leader;
  line.steps = flush.steps;
  publish_checksummed_line(memory_, base_, flush_place(node), line);  // pairs with times()
  memory_.store_fence();
}

FlushTable::Times FlushTable::times() const {
  Times times;
  memory_.invalidate(base_ + death_place(0), 2ull * nodes_ * coherence::line_bytes);
  memory_.load_fence();
  for (std::uint32_t node = 0; node < nodes_; ++node) {
    const auto death = load_checksummed_line<FlushLine>(memory_, base_, death_place(node));
    const auto flush = load_checksummed_line<FlushLine>(memory_, base_, flush_place(node));
    times.deaths.push_back(death ? death->ticks : unknown_death);
    times.flushes.push_back(flush ? flush->ticks : 0);
  }
  return times;
}

FlushTable::Flush FlushTable::flush(std::uint32_t node) const {
  if (node >= nodes_) return {};
  const auto line = observe_checksummed_line<FlushLine>(memory_, base_, flush_place(node));
  if (!line) return {};
  return {.ticks = line->ticks, .leader = line->leader, .steps = line->steps};
}

}  // namespace penstock::pool

#include "arena/flusher.hpp"

#include <algorithm>

#include "arena/space.hpp"
#include "base/clock.hpp"
#include "pool/flush_table.hpp"
#include "pool/members.hpp"
#include "pool/reclaim.hpp"

namespace penstock::arena {

namespace {

constexpr std::uint64_t part_bytes = 1 << 20;
constexpr std::uint64_t longest_step_ns = 20'000'000;
constexpr int max_walks = 4;
/// A leader advances at each heartbeat, so after this many looks it has missed some.
constexpr int patient_looks = 3;

}  // namespace

/// Returns 0 if no process has died, or if the clock cannot be read.
std::uint64_t Flusher::ticks_to_flush() const {
  const auto clock = pool_.reclaim().flushes().clock();
  const bool readable = clock.ticks < pool::FlushTable::unreadable_ticks;
  return clock.last_death != 0 && readable ? clock.ticks : 0;
}

/// Decides whether there is something to flush that this process must flush. Two processes that ask
/// at the same time may both be chosen; doing the work twice is harmless.
bool Flusher::lead() {
  const auto& flushes = pool_.reclaim().flushes();
  const std::uint64_t ticks = ticks_to_flush();
  auto flush = ticks != 0 ? flushes.flush(pool_.node()) : pool::FlushTable::Flush{};
  if (flush.ticks >= ticks) {
    seen_ = {};
    looks_ = 0;
    return false;
  }
  if (flush.leader != pool_.token() && is_led(flush)) return false;
  flush.leader = pool_.token();
  ++flush.steps;
  flushes.record_flush(pool_.node(), flush);  // pairs with is_led()
  return true;
}

/// A leader that was stopped is replaced after some looks, one that has ended at once.
bool Flusher::is_led(const pool::FlushTable::Flush& flush) {
  const bool goes_on = flush.leader == seen_.leader && flush.steps != seen_.steps;
  looks_ = flush.leader == seen_.leader && !goes_on ? looks_ + 1 : 0;
  seen_ = flush;
  return goes_on || (looks_ < patient_looks && pool_.members().attached_on_this_host(flush.leader));
}

/// Reads the ticks first: all extents set aside up to them are in the chain by now, and stay in
/// place until this node has flushed. So a walk without the lock meets all of them, whatever else
/// changes meanwhile; a walk that runs into a change is repeated.
Flusher::Begun Flusher::begin() {
  const auto& flushes = pool_.reclaim().flushes();
  const auto ticks = ticks_to_flush();
  if (flushes.flushed(pool_.node()) >= ticks) return Begun::nothing_to_do;
  if (pool_.reclaim().declared_dead_still_runs()) return Begun::nothing_to_do;
  // Extents that all nodes of these caches have flushed since need no further flush.
  std::uint64_t flushed = UINT64_MAX;
  for (const std::uint32_t node : pool_.members().nodes_of_these_caches())
    flushed = std::min(flushed, flushes.flushed(node));
  ranges_.clear();
  const ExtentReader reader(region_, geometry_, key_);
  const auto walked = reader.for_each([&](const ExtentHeader& extent) {
    if (waits_for_flush(extent) && extent.owner > flushed)
      ranges_.push_back({extent.offset + line_bytes, extent.bytes - line_bytes});
  });
  if (!walked) return Begun::try_again;
  ticks_ = ticks;
  begun_ = true;
  return Begun::yes;
}

bool Flusher::advance(std::uint64_t max_bytes) {
  for (int tries = 0; !begun_; ++tries) {
    const Begun begun = begin();
    if (begun == Begun::nothing_to_do || (begun == Begun::try_again && tries == max_walks))
      return true;
  }
  const bool others_were_quicker = pool_.reclaim().flushes().flushed(pool_.node()) >= ticks_;
  if (others_were_quicker) ranges_.clear();
  while (!ranges_.empty() && max_bytes != 0) {
    Range& range = ranges_.back();
    const std::uint64_t part = std::min(range.bytes, max_bytes);
    region_.invalidate(range.offset, part);
    range.offset += part;
    range.bytes -= part;
    max_bytes -= part;
    if (range.bytes == 0) ranges_.pop_back();
  }
  region_.load_fence();  // all of it is at the device before the record says so
  if (!ranges_.empty()) return false;
  begun_ = false;
  if (!others_were_quicker) record();
  return true;
}

/// Records its own node last: until then some process goes on flushing.
void Flusher::record() {
  const auto& flushes = pool_.reclaim().flushes();
  const auto record_for = [&](std::uint32_t node) {
    auto flush = flushes.flush(node);
    if (flush.ticks >= ticks_) return;
    flush.ticks = ticks_;
    flushes.record_flush(node, flush);  // pairs with Space::is_flushed
  };
  for (const std::uint32_t node : pool_.members().nodes_of_these_caches()) {
    if (node != pool_.node()) record_for(node);
  }
  record_for(pool_.node());
}

bool Flusher::advance_for(std::uint64_t ns) {
  const std::uint64_t end_ns = base::now_ns() + ns;
  while (!advance(part_bytes)) {
    if (base::now_ns() >= end_ns) return false;
  }
  return true;
}

void Flusher::step() {
  const std::unique_lock hold(mutex_, std::try_to_lock);
  if (!hold) return;  // another thread is flushing all of it
  if (lead()) advance_for(longest_step_ns);
}

void Flusher::help() {
  const std::lock_guard hold(mutex_);
  while (lead() && !advance_for(longest_step_ns)) {
  }
}

void Flusher::finish() {
  const std::lock_guard hold(mutex_);
  while (!advance(part_bytes)) {
  }
}

}  // namespace penstock::arena

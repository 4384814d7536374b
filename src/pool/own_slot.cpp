#include "pool/own_slot.hpp"

#include <unistd.h>

#include <utility>

#include "base/clock.hpp"
#include "base/log.hpp"
#include "pool/lease.hpp"

namespace penstock::pool {

OwnSlot::OwnSlot(const device::Device& device, const Tables& tables, Liveness& liveness,
                 Caller self, const AttachOptions& options)
    : device_(device),
      tables_(tables),
      liveness_(liveness),
      self_(std::move(self)),
      options_(options) {}

ProcessTable::Entry OwnSlot::entry() const {
  return {.host = self_.host,
          .process = self_.process,
          .node = node_,
          .rank = options_.rank,
          .job = options_.job};
}

void OwnSlot::take(const SlotView& chosen) {
  slot_ = chosen.slot;
  state_ = tables_.processes.take(chosen, entry(), [this] { confirm(); });
  confirm();  // stopped before the last store, it may have lost the slot, under the same token
  generation_ = state_.generation;
  beaten_ns_ = base::now_ns();
}

void OwnSlot::keep(std::function<void()> chores) {
  exit_log_entry_ = ExitLogEntry(device_.superblock().pool_id, slot_, generation_);
  heartbeat_->replace([this] { beat(); }, std::move(chores));
}

bool OwnSlot::owns(const SlotView& view) const {
  return view.whole && view.line.generation == generation_ && view.attached() &&
         !is_late_store(view);
}

/// True if the line was stored late, by an earlier owner of this slot or by a process that was
/// about to take it when this one did: it was stopped right before the store, declared dead, and
/// resumed.
bool OwnSlot::is_late_store(const SlotView& view) const {
  const StateLine& line = view.line;
  if (!view.whole) return false;
  if (line.generation != generation_) return line.generation < generation_;
  return line.pid != state_.pid || line.start_time != state_.start_time ||
         line.scope != state_.scope || line.node != state_.node;
}

bool OwnSlot::has_lost(const SlotView& view) const {
  return view.whole && !owns(view) && !is_late_store(view);
}

/// Writes the slot's lines again after its state line was overwritten (a new owner would have a
/// greater generation). The lines beside it may have been overwritten too.
void OwnSlot::restore() {
  tables_.processes.publish_details(slot_, entry(), [this] { exit_if_declared_dead_now(token()); });
  exit_if_declared_dead_now(token());
  tables_.processes.publish_state(slot_, state_);
}

void OwnSlot::beat() {
  const std::uint64_t now_ns = base::now_ns();
  if (now_ns - beaten_ns_ >= certain_ns(liveness_.lease_ns())) exit_if_declared_dead_now(token());
  beaten_ns_ = now_ns;
  tables_.processes.publish_beat(slot_, generation_, ++beats_, shares_with_.load());
  exit_if_declared_dead(token());
  const SlotView view = tables_.processes.state(slot_);
  if (owns(view)) return;
  if (has_lost(view)) exit_process(std::nullopt);
  restore();
}

void OwnSlot::exit_if_declared_dead(std::uint64_t token) {
  liveness_.stay_awake();
  device_.memory().full_fence();
  if (const auto judge = tables_.verdicts.judge_of(token)) exit_process(judge);
}

/// Call it before a store to a line that would belong to another process if this one was declared
/// dead. Repeats the check if this process was stopped after it.
void OwnSlot::exit_if_declared_dead_now(std::uint64_t token) {
  for (std::uint64_t since_ns = 0; !is_recent(since_ns);) {
    since_ns = base::now_ns();
    exit_if_declared_dead(token);
  }
}

/// Ends a process that was declared dead: its locks, slots and memory have new owners, and the
/// program would go on storing to that memory.
void OwnSlot::exit_process(std::optional<std::uint64_t> judge) const {
  std::string who = "another process";
  if (judge && *judge < device_.superblock().max_processes) {
    const SlotView view = tables_.processes.state(static_cast<std::uint32_t>(*judge));
    who = tables_.describe(make_token(view.line.generation, *judge));
  }
  if (!judge) {
    base::log(base::Level::error,
              "pool {}: the slot of this process has a new owner; either this process showed no "
              "life for a lease ({} ms), or the pool was overwritten; it exits",
              options_.spec, liveness_.lease_ns() / 1'000'000);
    ::_exit(declared_dead_status);
  }
  base::log(base::Level::error,
            "pool {}: this process showed no life for a lease ({} ms), for example because it was "
            "stopped, and was declared dead by {}; it exits, because its locks and memory have new "
            "owners; to allow longer stops: export PENSTOCK_LEASE_MS={}",
            options_.spec, liveness_.lease_ns() / 1'000'000, who,
            liveness_.lease_ns() / 1'000'000 * 4);
  ::_exit(declared_dead_status);
}

void OwnSlot::publish_stats(const ProcessStats& stats) {
  if (!writes()) return;
  const std::lock_guard lock(lines_);
  tables_.processes.publish_stats(slot_, generation_, stats);
}

void OwnSlot::publish_activity(std::string_view text) {
  if (!writes()) return;
  const std::lock_guard lock(lines_);
  tables_.processes.publish_activity(slot_, text);
}

void OwnSlot::share_with(std::uint64_t tokens) {
  shares_with_.fetch_or(tokens);
  if (heartbeat_) (void)heartbeat_->beat_now();
}

void OwnSlot::leave() {
  confirm();
  heartbeat_.reset();
  exit_log_entry_.sign_off();
  const SlotView view = tables_.processes.state(slot_);
  const std::uint64_t since_ns = base::now_ns();
  exit_if_declared_dead_now(token());  // the slot still belongs to this process
  if (!has_lost(view))
    tables_.processes.set_state(slot_, state_,
                                defers_reclaim_ ? SlotState::left : SlotState::detached);
  if (!is_recent(since_ns)) exit_if_declared_dead_now(token());  // or at least reports the loss
}

}  // namespace penstock::pool

// The process slot of this attachment: its lines, its heartbeat, and what happens when the process
// learns that it was declared dead.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string_view>

#include "device/device.hpp"
#include "pool/attach_as.hpp"
#include "pool/exit_log.hpp"
#include "pool/heartbeat.hpp"
#include "pool/liveness.hpp"
#include "pool/tables.hpp"

namespace penstock::pool {

class OwnSlot {
 public:
  OwnSlot(const device::Device& device, const Tables& tables, Liveness& liveness, Caller self,
          const AttachOptions& options);

  const Caller& self() const { return self_; }
  const AttachOptions& options() const { return options_; }
  std::uint32_t slot() const { return slot_; }
  std::uint32_t node() const { return node_; }
  std::uint64_t generation() const { return generation_; }  ///< 0: no slot yet
  const StateLine& state() const { return state_; }         ///< as last published
  /// 0 for an observer.
  std::uint64_t token() const { return options_.observer ? 0 : make_token(generation_, slot_); }

  // while attaching
  /// The heartbeat, first of the attaching process and then of its slot.
  std::unique_ptr<Heartbeat>& heartbeat() { return heartbeat_; }
  void set_node(std::uint32_t node) { node_ = node; }
  void take(const SlotView& chosen);
  /// From now on the heartbeat is that of the slot. `chores`: run after each beat.
  void keep(std::function<void()> chores);

  /// As Pool::confirm().
  std::uint64_t confirm() const { return heartbeat_ ? heartbeat_->confirm() : base::coarse_ns(); }
  /// Exits the process if `token` was declared dead. Call it after publishing a beat: processes
  /// that check later see this one alive, and a process that declared it dead earlier has left a
  /// verdict.
  void exit_if_declared_dead(std::uint64_t token);

  /// False for an observer, and in a forked child.
  bool writes() const { return !options_.observer && device_.opened_here(); }
  void publish_stats(const ProcessStats& stats);
  void publish_activity(std::string_view text);
  /// TokenSet of the processes that this one has announced: Reclaim::shares_with().
  std::uint64_t shares_with() const { return shares_with_.load(); }
  void share_with(std::uint64_t tokens);
  /// As Reclaim::defer_reclaim().
  void defer_reclaim() { defers_reclaim_ = true; }
  /// Stops the heartbeat and gives the slot back.
  void leave();

 private:
  ProcessTable::Entry entry() const;
  bool owns(const SlotView& view) const;
  bool is_late_store(const SlotView& view) const;
  bool has_lost(const SlotView& view) const;
  void restore();
  void beat();
  void exit_if_declared_dead_now(std::uint64_t token);
  [[noreturn]] void exit_process(std::optional<std::uint64_t> judge) const;

  const device::Device& device_;
  const Tables& tables_;
  Liveness& liveness_;
  const Caller self_;
  const AttachOptions options_;

  std::uint32_t slot_ = 0, node_ = 0;
  std::uint64_t generation_ = 0;
  StateLine state_;
  std::uint64_t beats_ = 1, beaten_ns_ = 0;     // under the heartbeat's mutex
  std::atomic<std::uint64_t> shares_with_ = 0;  // as published with each beat
  std::mutex lines_;                            // several threads may publish stats and activity
  std::atomic<bool> defers_reclaim_{false};
  ExitLogEntry exit_log_entry_;
  std::unique_ptr<Heartbeat> heartbeat_;  // last member: stops before the others are destroyed
};

}  // namespace penstock::pool

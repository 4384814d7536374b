// The state of an attachment.
#pragma once

#include <atomic>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <vector>

#include "base/fork.hpp"
#include "pool/attach_as.hpp"
#include "pool/exit_log.hpp"
#include "pool/flush_table.hpp"
#include "pool/growth.hpp"
#include "pool/heartbeat.hpp"
#include "pool/host_lock.hpp"
#include "pool/liveness.hpp"
#include "pool/mapping.hpp"
#include "pool/slot_blocks.hpp"
#include "pool/superblock.hpp"
#include "pool/verdicts.hpp"
#include "sync/sync.hpp"

namespace penstock::pool {

struct Pool::Impl final : PoolMappings::Attachments {
  Impl(const Superblock& s, Mapping mapped, base::UniqueFd fd, coherence::View pool_view,
       Caller caller, const AttachOptions& attach_options, std::uint64_t lease_ns)
      : superblock(s),
        info(info_of(s, attach_options.spec)),
        mapping(std::move(mapped)),
        lock_fd(fd.release()),
        seen(std::move(pool_view)),
        memory(seen.memory),
        base(seen.base),
        mappings(base, mapping.bytes(), this),
        self(std::move(caller)),
        options(attach_options),
        processes(memory, base, s),
        attaching(memory, base, s),
        flushes(memory, base, s.flushes_offset, s.max_nodes, [this] { confirm(); }),
        verdicts(memory, base, s),
        blocks(memory, base, s, processes, [this] { confirm(); }),
        liveness(processes, attaching, self.host, self.process, lease_ns) {}

  static const Impl& of(const Pool& pool) { return *pool.impl_; }
  Result<void> join();
  Result<void> take_slot(const std::shared_ptr<Visit>& visit);
  /// Kinds of slots that a process may take, in order of preference.
  enum class SlotUse : std::uint8_t { free, declared_dead, dead };
  std::optional<SlotView> choose_unlocked();
  std::optional<SlotView> choose_locked();
  std::optional<SlotView> search(SlotUse use, bool whole_blocks);
  std::optional<SlotView> best_of(const BlockView& block, SlotUse use);
  bool is_usable(const SlotView& view, SlotUse use);
  bool is_free(const SlotView& view) const;
  bool may_resume(const SlotView& view) const;
  void enter_home(std::uint32_t number, bool reuse) const;
  void take_block(BlockView& block);
  void await_attaching(std::uint32_t of_node);
  void take(const SlotView& chosen);
  void begin_reclaim();
  void end_reclaim();
  void record_deaths(const std::vector<SlotView>& dead) const;
  void beat();
  void do_chores();
  void exit_if_declared_dead(std::uint64_t as_token);
  void exit_if_declared_dead_now(std::uint64_t as_token);
  [[noreturn]] void exit_process(std::optional<std::uint64_t> judge) const;
  std::uint64_t confirm() const { return heartbeat ? heartbeat->confirm() : base::coarse_ns(); }
  bool is_living() {
    confirm();
    return true;
  }
  ProcessTable::Entry own_entry() const;
  bool owns_slot(const SlotView& view) const;
  bool is_late_store(const SlotView& view) const;
  bool has_lost_slot(const SlotView& view) const;
  void restore_slot();
  bool writes_own_lines() const { return !options.observer && origin.here(); }
  std::vector<std::uint32_t> find_suspects();
  std::vector<std::uint32_t> find_suspects_on_node();
  std::set<std::uint32_t> nodes_of_others() const;
  std::set<std::uint32_t> all_nodes() const;
  void note_death(std::uint64_t of_token);
  bool is_of_own_job(std::uint64_t of_token) const;
  bool peers_are_alive(const SlotView& dead);
  /// Two processes share memory if they have a job in common or one has announced the other.
  struct Sharing {
    std::set<std::string> jobs;
    std::uint64_t tokens = 0;       ///< TokenSet: the processes themselves
    std::uint64_t shares_with = 0;  ///< TokenSet: those that they announced
  };
  Sharing sharing_of(const SlotView& view, std::uint64_t if_unreadable) const;
  /// Of processes that share memory with the given ones: those in the table that have not detached,
  /// dead or alive; and the living.
  struct Peers {
    Sharing attached, living;
  };
  Peers peers_of(const Sharing& some);
  bool left_nothing_dirty(const SlotView& view, const Peers& peers) const;
  std::uint32_t reap_group(std::span<const std::uint32_t> suspects, const OnDead& on_dead);
  std::string describe(std::uint64_t of_token) const;
  Result<void> take_lock(std::uint64_t timeout_ns, const std::function<bool()>& unless = {});
  void release_lock();
  void repair_lock_line();
  ProcessRecord record(const SlotView& slot_view) const;
  std::vector<PoolMappings::Attachment> of_this_process() const override;
  /// Slots of the processes of `nodes`, all on this host. May include slots of other nodes.
  std::vector<SlotView> slots_of_this_host(const std::vector<std::uint32_t>& nodes) const;
  bool still_attached(const PoolMappings::Attachment& attachment) const override {
    return processes.cached_as_attached(attachment.slot, attachment.generation);
  }
  sync::Lock make_lock(std::uint64_t as_token) {
    sync::Lock made(memory, base + superblock.lock_offset, superblock.max_nodes, node, as_token,
                    [this, as_token](std::uint64_t other) {
                      if (other == as_token) return is_living();
                      rival = other;
                      return liveness.alive(other);
                    });
    made.exclude_by([this](std::uint64_t other) { return liveness.of_this_host(other); });
    return made;
  }
  std::uint64_t token() const { return options.observer ? 0 : make_token(generation, slot); }

  Superblock superblock;
  Info info;
  Growth growth;
  Durability durability = Durability::none;
  Mapping mapping;
  base::ProcessFd lock_fd;
  coherence::View seen;
  coherence::Memory memory;
  std::byte* base;
  PoolMappings mappings;
  Caller self;
  AttachOptions options;
  ProcessTable processes;
  AttachingTable attaching;
  FlushTable flushes;
  VerdictTable verdicts;
  SlotBlocks blocks;
  Liveness liveness;
  const base::Origin origin;

  std::uint32_t slot = 0, node = 0;
  std::uint64_t generation = 0;
  StateLine own_state;                         // as last published
  bool reclaiming = false;                     // the reclaim mark is set; under the lock
  bool lock_line_suspect = false;              // damaged at the last beat
  std::uint64_t beats = 1, beaten_ns = 0;      // under the heartbeat's mutex
  std::atomic<std::uint64_t> shares_with = 0;  // as published with each beat
  std::mutex noted_mutex;
  std::set<std::uint64_t> noted, recorded;  // dead tokens that alive() has found
  std::mutex chores_mutex;
  std::map<const void*, std::function<void()>> chores;  // run after each heartbeat
  std::mutex own_lines;  // several threads may publish stats and activity

  std::atomic<bool> defers_reclaim{false};
  std::atomic<bool> held{false};                 // by a thread of this attachment
  std::atomic<std::uint64_t> failed_wait_ns{0};  // last failed wait for the lock; 0: none since
  std::atomic<std::uint64_t> rival{0};           // last holder or waiter before us in the lock
  std::optional<HostLock> host_lock;
  std::optional<sync::Lock> lock;
  ExitLogEntry exit_log_entry;
  std::unique_ptr<Heartbeat> heartbeat;  // last member: stops before the others are destroyed
};

}  // namespace penstock::pool

// An attachment: joining, leaving, and its public calls.
//
// Joining, in order: open and check the parts; map; take the host lock; find the node's number,
// which makes this process the node's attaching process; take a slot (slots.cpp); keep the lease;
// release the host lock.
#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstring>
#include <set>
#include <utility>

#include "base/checked.hpp"
#include "base/clock.hpp"
#include "base/format.hpp"
#include "base/log.hpp"
#include "base/wait.hpp"
#include "pool/durability.hpp"
#include "pool/impl.hpp"
#include "pool/lease.hpp"
#include "pool/node_table.hpp"
#include "pool/owner.hpp"
#include "pool/placement.hpp"
#include "pool/process_end.hpp"

namespace penstock::pool {

namespace {

Result<void> check_mode(const Superblock& superblock, const AttachOptions& options) {
  const auto mode = static_cast<coherence::Mode>(superblock.mode);
  if (!options.mode || *options.mode == mode) return {};
  return fail(ErrorCode::mismatch,
              "pool {} is in {} mode, {} mode was asked for; unset PENSTOCK_MODE, or recreate it: "
              "penstock pool create {} --mode {} --overwrite",
              options.spec, coherence::mode_name(mode), coherence::mode_name(*options.mode),
              base::shell_quote(options.spec), coherence::mode_name(*options.mode));
}

Result<void> check_node(const AttachOptions& options) {
  if (options.emulated_node.value_or(0) <= last_emulated_node) return {};
  return fail(ErrorCode::invalid_argument,
              "emulated node {} was asked for, the last that can be is {}: export PENSTOCK_NODE=0",
              *options.emulated_node, last_emulated_node);
}

coherence::PoolMapping place_of(const Mapping& mapping, const Superblock& superblock,
                                const OpenPart& first, const AttachOptions& options) {
  return {.base = mapping.base(),
          .bytes = mapping.bytes(),
          .path = first.part.path,
          .pool_id = superblock.pool_id,
          .node = options.emulated_node ? *options.emulated_node + 1 : 0,
          .observer = options.observer};
}

/// The rest of a time limit; 0 still means "the default".
std::uint64_t remaining_ns(std::uint64_t timeout_ns, std::uint64_t start_ns) {
  if (timeout_ns == 0) return 0;
  const std::uint64_t passed = base::now_ns() - start_ns;
  return passed < timeout_ns ? timeout_ns - passed : 1;
}

}  // namespace

Result<std::unique_ptr<Pool>> Pool::attach(const AttachOptions& options) {
  auto host = PENSTOCK_TRY(this_host());
  auto process = PENSTOCK_TRY(this_process());
  return attach_as(options, Caller{host, process});
}

Result<std::unique_ptr<Pool>> attach_as(const AttachOptions& options, const Caller& caller) {
  auto lease_ns = PENSTOCK_TRY(lease_from_environment());
  PENSTOCK_TRY(check_node(options));
  const Access access = options.observer ? Access::read : Access::write;
  auto parts = PENSTOCK_TRY(open_parts(options.spec, access));
  if (!options.observer) {
    PENSTOCK_TRY(check_owners(parts, options.spec));
  }
  auto superblock = PENSTOCK_TRY(check_superblocks(parts, options.spec));
  PENSTOCK_TRY(check_mode(superblock, options));
  const auto mode = static_cast<coherence::Mode>(superblock.mode);
  if (mode != coherence::Mode::simulated) {
    PENSTOCK_TRY(coherence::bind(mode, options.flush));
  }
  auto mapping = PENSTOCK_TRY(map_pool(parts, superblock, access));
  auto view = PENSTOCK_TRY(
      coherence::view(mode, place_of(mapping, superblock, parts.front(), options), options.flush));

  auto for_locks = reopened(parts.front().fd);
  if (for_locks.get() < 0)
    return fail(ErrorCode::unavailable, "pool {} cannot be opened once more, by /proc/self/fd: {}",
                options.spec, std::strerror(errno));
  Caller self = caller;
  self.process.pool_file = pool_file_of(parts);
  auto impl = std::make_unique<Pool::Impl>(superblock, std::move(mapping), std::move(for_locks),
                                           std::move(view), std::move(self), options, lease_ns);
  impl->info.owner = owner_of(parts.front());
  impl->durability = durability_of(parts, mode);
  if (!options.observer) impl->growth = Growth::of(parts, superblock);  // takes the descriptors
  if (!options.observer) {
    PENSTOCK_TRY(impl->join());
  }
  return std::make_unique<Pool>(std::move(impl));
}

Result<void> Pool::Impl::join() {
  const auto host_locked = PENSTOCK_TRY(HostLock::acquire(lock_fd.get(), 0));
  liveness.judge_by([this](std::uint64_t dead) {
    verdicts.publish(dead, generation != 0 ? token() : attaching_bit);
  });
  const NodeTable nodes(memory, base, superblock);
  const NodeTable::Joiner joiner{
      .host = self.host,
      .process = self.process,
      .emulated_node = options.emulated_node,
      .processes = processes,
      .attaching = attaching,
      .liveness = liveness,
      .heartbeat = heartbeat,
      .exit_if_declared_dead = [this](std::uint64_t as) { exit_if_declared_dead(as); },
      .must_flush = [this](std::uint32_t of_node) { return flushes.times().deaths[of_node] != 0; },
      .spec = options.spec};
  auto seat = PENSTOCK_TRY(nodes.join(joiner));
  node = seat.node;
  if (auto taken = take_slot(seat.visit); !taken) {
    heartbeat.reset();
    seat.visit->leave();
    return taken;
  }
  exit_log_entry = ExitLogEntry(superblock.pool_id, slot, generation);
  lock.emplace(make_lock(token()));
  heartbeat->replace([this] { beat(); }, [this] { do_chores(); });
  seat.visit->leave();
  return {};
}

/// Includes attachments of the own node only: this one cannot write back stores of another emulated
/// node.
std::vector<PoolMappings::Attachment> Pool::Impl::of_this_process() const {
  std::vector<PoolMappings::Attachment> found;
  for (const SlotView& view : slots_of_this_host({node})) {
    const StateLine& line = view.line;
    if (!view.whole || line.state != static_cast<std::uint32_t>(SlotState::attached) ||
        line.node != node || line.pid != self.process.pid ||
        line.start_time != self.process.start_time || line.scope != self.process.scope ||
        line.file != self.process.pool_file)
      continue;
    const std::uint64_t at = processes.mapped_at(view.slot, line.generation);
    if (at != 0) found.push_back({at, view.slot, line.generation});
  }
  return found;
}

/// Avoids scanning all processes of the pool: there may be thousands.
std::vector<SlotView> Pool::Impl::slots_of_this_host(
    const std::vector<std::uint32_t>& nodes) const {
  std::vector<SlotView> views;
  if (options.observer) return processes.used();  // an observer has no node
  for (const std::uint32_t each : nodes) {
    const auto near = blocks.near(each);
    if (!near) return processes.used();
    views.insert(views.end(), near->begin(), near->end());
  }
  return views;
}

bool Pool::Impl::owns_slot(const SlotView& view) const {
  return view.whole && view.line.generation == generation && view.attached() &&
         !is_late_store(view);
}

/// True if the line was stored late, by an earlier owner of this slot or by a process that was
/// about to take it when this one did: it was stopped right before the store, declared dead, and
/// resumed.
bool Pool::Impl::is_late_store(const SlotView& view) const {
  const StateLine& line = view.line;
  if (!view.whole) return false;
  if (line.generation != generation) return line.generation < generation;
  return line.pid != own_state.pid || line.start_time != own_state.start_time ||
         line.scope != own_state.scope || line.node != own_state.node;
}

bool Pool::Impl::has_lost_slot(const SlotView& view) const {
  return view.whole && !owns_slot(view) && !is_late_store(view);
}

/// Writes the slot's lines again after its state line was overwritten (a new owner would have a
/// greater generation). The lines beside it may have been overwritten too.
void Pool::Impl::restore_slot() {
  processes.publish_details(slot, own_entry(), [this] { exit_if_declared_dead_now(token()); });
  exit_if_declared_dead_now(token());
  processes.publish_state(slot, own_state);
}

ProcessRecord Pool::Impl::record(const SlotView& slot_view) const {
  ProcessRecord found = processes.record(slot_view);
  const auto line = NodeTable(memory, base, superblock).read(found.node);
  if (line && line->emulated != 0) found.emulated_node = line->emulated - 1;
  return found;
}

void Pool::Impl::beat() {
  const std::uint64_t now_ns = base::now_ns();
  if (now_ns - beaten_ns >= certain_ns(liveness.lease_ns())) exit_if_declared_dead_now(token());
  beaten_ns = now_ns;
  processes.publish_beat(slot, generation, ++beats, shares_with.load());
  exit_if_declared_dead(token());
  const SlotView view = processes.state(slot);
  if (owns_slot(view)) return;
  if (has_lost_slot(view)) exit_process(std::nullopt);
  restore_slot();
}

/// Other nodes wait for an overwritten line until its own node takes the lock again.
void Pool::Impl::repair_lock_line() {
  // once is harmless: another process of this host may be writing the line
  const bool intact = lock->intact();
  if (!std::exchange(lock_line_suspect, !intact) || intact) return;
  if (take_lock(beat_period_ns(liveness.lease_ns()))) release_lock();
}

void Pool::Impl::do_chores() {
  repair_lock_line();
  const std::lock_guard hold(chores_mutex);
  for (const auto& [owner, chore] : chores) chore();
}

/// Exits the process if it was declared dead. Call it after publishing a beat: processes that check
/// later see this one alive, and a process that declared it dead earlier has left a verdict.
void Pool::Impl::exit_if_declared_dead(std::uint64_t as_token) {
  liveness.stay_awake();
  memory.full_fence();
  if (const auto judge = verdicts.judge_of(as_token)) exit_process(judge);
}

/// Call it before a store to a line that would belong to another process if this one was declared
/// dead. Repeats the check if this process was stopped after it.
void Pool::Impl::exit_if_declared_dead_now(std::uint64_t as_token) {
  for (std::uint64_t since_ns = 0; !is_recent(since_ns);) {
    since_ns = base::now_ns();
    exit_if_declared_dead(as_token);
  }
}

/// Ends a process that was declared dead: its locks, slots and memory have new owners, and the
/// program would go on storing to that memory.
void Pool::Impl::exit_process(std::optional<std::uint64_t> judge) const {
  std::string who = "another process";
  if (judge && *judge < superblock.max_processes) {
    const SlotView view = processes.state(static_cast<std::uint32_t>(*judge));
    who = describe(make_token(view.line.generation, *judge));
  }
  if (!judge) {
    base::log(base::Level::error,
              "pool {}: the slot of this process has a new owner; either this process showed no "
              "life for a lease ({} ms), or the pool was overwritten; it exits",
              options.spec, liveness.lease_ns() / 1'000'000);
    ::_exit(declared_dead_status);
  }
  base::log(base::Level::error,
            "pool {}: this process showed no life for a lease ({} ms), for example because it was "
            "stopped, and was declared dead by {}; it exits, because its locks and memory have new "
            "owners; to allow longer stops: export PENSTOCK_LEASE_MS={}",
            options.spec, liveness.lease_ns() / 1'000'000, who,
            liveness.lease_ns() / 1'000'000 * 4);
  ::_exit(declared_dead_status);
}

namespace {

std::atomic<bool> stays_mapped{false};

}  // namespace

void stay_mapped() {
  stays_mapped = true;
}

Pool::Pool(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}

Pool::~Pool() {
  if (impl_->options.observer) return;
  if (!impl_->origin.here()) {
    // a forked child: slot, lock and heartbeat thread belong to the parent
    [[maybe_unused]] Impl* leaked = impl_.release();
    return;
  }
  impl_->confirm();
  impl_->heartbeat.reset();
  impl_->exit_log_entry.sign_off();
  const SlotView view = impl_->processes.state(impl_->slot);
  const std::uint64_t since_ns = base::now_ns();
  impl_->exit_if_declared_dead_now(impl_->token());  // the slot still belongs to this process
  if (!impl_->has_lost_slot(view))
    impl_->processes.set_state(impl_->slot, impl_->own_state,
                               impl_->defers_reclaim ? SlotState::left : SlotState::detached);
  if (!is_recent(since_ns))
    impl_->exit_if_declared_dead_now(impl_->token());  // or at least reports the loss
  if (!stays_mapped) return;
  [[maybe_unused]] Impl* leaked = impl_.release();
}

bool Pool::attached_here() const {
  return impl_->origin.here();
}
const Info& Pool::info() const {
  return impl_->info;
}
const coherence::Memory& Pool::memory() const {
  return impl_->memory;
}
std::byte* Pool::base() const {
  return impl_->base;
}
std::uint64_t Pool::bytes() const {
  return impl_->mapping.bytes();
}

void* Pool::at(std::uint64_t offset, std::uint64_t bytes) const {
  if (!base::range_inside(offset, bytes, impl_->mapping.bytes())) return nullptr;
  return impl_->base + offset;
}

std::optional<std::uint64_t> Pool::offset_of(const void* address) const {
  const auto begin = reinterpret_cast<std::uintptr_t>(impl_->base);
  const auto at = reinterpret_cast<std::uintptr_t>(address);
  if (at < begin || at - begin >= impl_->mapping.bytes()) return std::nullopt;
  return at - begin;
}

PoolMappings& Pool::mappings() const {
  return impl_->mappings;
}

std::uint32_t Pool::slot() const {
  return impl_->slot;
}
std::uint64_t Pool::generation() const {
  return impl_->generation;
}
std::uint32_t Pool::node() const {
  return impl_->node;
}
std::uint64_t Pool::token() const {
  return impl_->token();
}
std::uint32_t Pool::own_part(std::uint64_t n) const {
  const AttachOptions& options = impl_->options;
  const std::uint32_t unnumbered =
      options.rank >= 0 ? static_cast<std::uint32_t>(options.rank) : impl_->slot;
  return part_for(options.seat.value_or(unnumbered), impl_->node, n, info().striping.parts);
}
bool Pool::alive(std::uint64_t token) const {
  if (token != 0 && token == impl_->token()) return impl_->is_living();
  const bool lives = impl_->liveness.alive(token);
  if (!lives) impl_->note_death(token);
  return lives;
}

bool Pool::declared_dead(std::uint64_t token) const {
  return impl_->verdicts.judge_of(token).has_value();
}

std::uint64_t Pool::confirm() const {
  return impl_->confirm();
}

std::optional<std::uint32_t> Pool::node_of(std::uint64_t token) const {
  if (token == 0 || is_attaching(token)) return std::nullopt;
  const SlotView view = impl_->processes.state(static_cast<std::uint32_t>(slot_of(token)));
  if (!view.whole || view.line.generation != generation_of(token)) return std::nullopt;
  return view.line.node;
}

std::string node_text(const ProcessRecord& record) {
  return record.emulated_node ? fmt::format("emulated node {}", *record.emulated_node)
                              : fmt::format("node {}", record.node);
}

std::string describe(const ProcessRecord& record) {
  const std::string who = record.rank >= 0 ? fmt::format("rank {}", record.rank)
                                           : fmt::format("\"{}\"", record.program);
  return fmt::format("{} (pid {} on host {}, {})", who, record.pid, record.host, node_text(record));
}

std::string Pool::describe(std::uint64_t token) const {
  return impl_->describe(token);
}

std::string Pool::Impl::describe(std::uint64_t token) const {
  if (is_attaching(token)) {
    const auto line = attaching.read(attaching_number_of(token));
    if (line && line->generation == generation_of(token)) {
      return fmt::format("a process that is attaching (pid {})", line->pid);
    }
    return "a process that was attaching";
  }
  const auto of_slot = static_cast<std::uint32_t>(slot_of(token));
  const SlotView view = processes.state(of_slot);
  if (view.line.generation != generation_of(token)) {
    return fmt::format("a process that is gone (slot {}, generation {})", of_slot,
                       generation_of(token));
  }
  return pool::describe(record(view));
}

bool Pool::grows() const {
  return impl_->growth.grows();
}

Result<void> Pool::reserve(std::uint64_t offset, std::uint64_t bytes) const {
  if (!impl_->growth.grows() || !impl_->origin.here()) return {};
  return impl_->growth.reserve(impl_->info, offset, bytes);
}

std::uint64_t Pool::give_back(std::uint64_t offset, std::uint64_t bytes) const {
  if (!impl_->growth.grows() || !impl_->origin.here()) return 0;
  return impl_->growth.give_back(impl_->info, offset, bytes);
}

Result<Pool::Guard> Pool::lock(std::uint64_t timeout_ns, const std::function<bool()>& unless) {
  Impl& impl = *impl_;
  if (impl.options.observer) {
    return fail(ErrorCode::invalid_argument,
                "an observer of pool {} cannot lock it; attach without "
                "observer",
                impl.options.spec);
  }
  if (!impl.origin.here()) {
    return fail(ErrorCode::invalid_argument,
                "this process was forked by one that is attached to pool {}, and cannot use its "
                "parent's attachment: attach again here",
                impl.options.spec);
  }
  // After a failed wait, for example for an overwritten lock, the process often needs the lock
  // again. Later waits are shorter, so that all together do not take much longer than one.
  const bool whole_wait = timeout_ns == 0;
  const std::uint64_t whole_ns = base::default_timeout_ns();
  const std::uint64_t failed_ns = impl.failed_wait_ns;
  if (whole_wait && failed_ns != 0 && base::now_ns() - failed_ns < whole_ns)
    timeout_ns = whole_ns / 4;  // longer than a lease, in case the holder has died
  const auto taken = impl.take_lock(timeout_ns, unless);
  if (taken) impl.failed_wait_ns = 0;
  if (taken) return Guard(this);
  if (taken.error().code != ErrorCode::deadline) return unexpected(taken.error());
  if (whole_wait) impl.failed_wait_ns = base::now_ns();
  return fail(ErrorCode::deadline, "{}; what its processes do: penstock ps {}",
              taken.error().message, impl.options.spec);
}

Result<void> Pool::Impl::take_lock(std::uint64_t timeout_ns, const std::function<bool()>& unless) {
  const std::uint64_t start_ns = base::now_ns();
  base::Waiter waiter("another thread to leave the pool's lock", timeout_ns);
  while (held.exchange(true, std::memory_order_acquire)) {
    PENSTOCK_TRY(waiter.pause());
  }
  auto host_locked = HostLock::acquire(lock_fd.get(), remaining_ns(timeout_ns, start_ns), unless);
  if (!host_locked) {
    held.store(false, std::memory_order_release);
    return unexpected(host_locked.error());
  }
  if (auto locked = lock->acquire(remaining_ns(timeout_ns, start_ns)); !locked) {
    host_locked = unexpected(Error{});  // releases the host lock before other threads try
    held.store(false, std::memory_order_release);
    if (locked.error().code != ErrorCode::deadline) return locked;
    return fail(ErrorCode::deadline, "{}; it is {}", locked.error().message, describe(rival));
  }
  host_lock.emplace(std::move(*host_locked));
  return {};
}

void Pool::Impl::release_lock() {
  confirm();  // a late release would overwrite the line of the node number's new owner
  end_reclaim();
  lock->release();
  host_lock.reset();
  held.store(false, std::memory_order_release);
}

Pool::Guard::~Guard() {
  if (pool_ == nullptr) return;
  Impl& impl = *pool_->impl_;
  if (impl.origin.here()) impl.release_lock();  // otherwise the parent holds it
}

std::vector<ProcessRecord> Pool::processes() const {
  std::vector<ProcessRecord> records;
  for (const SlotView& view : impl_->processes.used()) {
    // a half-written line does not identify its process
    if (view.line.generation == 0 || !view.whole) continue;
    ProcessRecord record = impl_->record(view);
    record.alive = impl_->liveness.alive(view);
    records.push_back(std::move(record));
  }
  return records;
}

std::uint32_t Pool::nodes_without_entry(std::uint32_t emulated_nodes) const {
  const auto owners = nodes_of_owners(impl_->processes);
  const auto times = impl_->flushes.times();
  return NodeTable(impl_->memory, impl_->base, impl_->superblock)
      .without_entry(impl_->self.host, emulated_nodes, [&](std::uint32_t node) {
        return !owners || owners->count(node) != 0 || times.deaths[node] != 0;
      });
}

Result<void> Pool::make_certain() const {
  LifeWatch life(impl_->processes, impl_->liveness);
  base::Waiter waiter("the heartbeats of a pool", certainty_limit_ns(impl_->liveness.lease_ns()),
                      {}, base::WaitPolicy{.spins = 0, .yields = 0, .sleep_ns = 5'000'000});
  for (;;) {
    bool undecided = false;
    for (const SlotView& slot_view : impl_->processes.used()) {
      undecided = life.look(slot_view) == LifeWatch::Verdict::undecided || undecided;
    }
    if (!undecided) return {};
    if (auto paused = waiter.pause(); !paused) return paused;
  }
}

void Pool::publish_stats(const ProcessStats& stats) {
  if (!impl_->writes_own_lines()) return;
  const std::lock_guard lock(impl_->own_lines);
  impl_->processes.publish_stats(impl_->slot, impl_->generation, stats);
}

void Pool::publish_activity(std::string_view text) {
  if (!impl_->writes_own_lines()) return;
  const std::lock_guard lock(impl_->own_lines);
  impl_->processes.publish_activity(impl_->slot, text);
}

std::uint32_t Pool::local_processes() const {
  // a process may be attached several times, once per library of ours that it loads
  std::set<std::pair<std::uint64_t, std::uint64_t>> found;
  for (const SlotView& view : impl_->slots_of_this_host(nodes_of_these_caches())) {
    if (impl_->liveness.runs_here(view)) found.emplace(view.line.scope, view.line.pid);
  }
  return static_cast<std::uint32_t>(found.size());
}

std::vector<Pool::Member> Pool::members_of_this_node() const {
  std::vector<Member> members;
  for (const SlotView& view : impl_->slots_of_this_host({impl_->node})) {
    if (view.whole && view.attached() && view.line.node == impl_->node)
      members.push_back({view.slot, make_token(view.line.generation, view.slot)});
  }
  return members;
}

}  // namespace penstock::pool

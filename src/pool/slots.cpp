// How an attaching process gets its slot (docs/protocols/pool.md): from a block of its node, under
// the host's lock alone; otherwise, under the pool's lock, from a block that its node takes.
//
// Unused slots are taken first, then those released longest ago, and only then those of dead
// processes: so statistics stay readable, and the arena can free the objects of the dead. Reusing a
// dead owner's slot before that breaks nothing: a token contains the slot's generation, so an
// object with the old token is still known to have a dead owner.
#include <algorithm>

#include "base/clock.hpp"
#include "base/format.hpp"
#include "base/wait.hpp"
#include "pool/impl.hpp"
#include "pool/node_table.hpp"

namespace penstock::pool {

namespace {

/// Own blocks that a node checks before it takes another block.
constexpr std::uint32_t max_home_looks = 4;

const SlotView* never_used(const BlockView& block) {
  for (const SlotView& view : block.slots) {
    if (view.whole && view.line.generation == 0) return &view;
  }
  return nullptr;
}

}  // namespace

/// True if any process may take the slot: it has no owner, and no process that was declared dead
/// may still use it.
bool Pool::Impl::is_free(const SlotView& view) const {
  return view.whole && !view.owns() && !may_resume(view);
}

/// A process that was declared dead may resume. While its slot says so, its host flushes nothing.
bool Pool::Impl::may_resume(const SlotView& view) const {
  return view.is(SlotState::reaped) &&
         verdicts.judge_of(make_token(view.line.generation, view.slot)).has_value();
}

/// An unused slot of the block, else the usable one that was released longest ago.
std::optional<SlotView> Pool::Impl::best_of(const BlockView& block, SlotUse use) {
  if (const SlotView* unused = never_used(block)) return *unused;
  const SlotView* oldest = nullptr;
  for (const SlotView& view : block.slots) {
    if (oldest != nullptr && view.line.attached_wall_ns >= oldest->line.attached_wall_ns) continue;
    if (is_usable(view, use)) oldest = &view;
  }
  if (oldest == nullptr) return std::nullopt;
  return *oldest;
}

bool Pool::Impl::is_usable(const SlotView& view, SlotUse use) {
  switch (use) {
    case SlotUse::free:
      return is_free(view);
    case SlotUse::declared_dead:
      return view.whole && !view.owns();
    case SlotUse::dead:
      return !liveness.alive(view) && !peers_are_alive(view);
  }
  return false;
}

std::optional<SlotView> Pool::Impl::choose_unlocked() {
  HomeLine home = blocks.home(node);
  if (home.listed() == 0) return std::nullopt;
  if (home.reuse == 0) {
    const BlockView newest = blocks.look(home.blocks[(home.entered - 1) % HomeLine::capacity]);
    if (!newest.of(node)) return std::nullopt;
    const SlotView* unused = never_used(newest);
    if (unused == nullptr) return std::nullopt;
    return *unused;
  }
  const std::uint32_t looks = std::min(max_home_looks, home.listed());
  for (std::uint32_t i = 0; i < looks; ++i) {
    const std::uint32_t number = home.blocks[home.turn++ % home.listed()];
    const BlockView block = blocks.look(number);
    const auto found = block.of(node) ? best_of(block, SlotUse::free) : std::nullopt;
    if (!found) continue;
    confirm();
    blocks.publish_home(node, home);
    return found;
  }
  return std::nullopt;
}

std::optional<SlotView> Pool::Impl::choose_locked() {
  if (auto fresh = blocks.take_fresh(node)) {
    enter_home(fresh->number, false);
    if (const SlotView* unused = never_used(*fresh)) return *unused;
  }
  // own blocks and whole blocks of others; then any; then slots of processes declared dead; then of
  // dead processes
  if (auto found = search(SlotUse::free, /*whole_blocks=*/true)) return found;
  begin_reclaim();  // from here on only this process takes slots
  if (auto found = search(SlotUse::free, false)) return found;
  if (auto found = search(SlotUse::declared_dead, false)) return found;
  return search(SlotUse::dead, false);
}

void Pool::Impl::enter_home(std::uint32_t number, bool reuse) const {
  HomeLine home = blocks.home(node);
  auto* const end = home.blocks + home.listed();
  if (std::find(home.blocks, end, number) == end)
    home.blocks[home.entered++ % HomeLine::capacity] = static_cast<std::uint16_t>(number);
  home.reuse = reuse ? 1 : 0;
  confirm();
  blocks.publish_home(node, home);
}

std::optional<SlotView> Pool::Impl::search(SlotUse use, bool whole_blocks) {
  const std::uint32_t first = blocks.turn();
  for (std::uint32_t i = 0; i < blocks.blocks(); ++i) {
    BlockView block = blocks.look((first + i) % blocks.blocks());
    const bool own = block.of(node);
    if (!own && whole_blocks &&
        !std::all_of(block.slots.begin(), block.slots.end(),
                     [this](const SlotView& view) { return is_free(view); }))
      continue;
    auto found = best_of(block, use);
    if (!found) continue;
    if (!own) {
      take_block(block);
      found = best_of(block, use);
      if (!found) continue;
    }
    enter_home(block.number, true);
    blocks.set_turn(block.number + 1);
    return found;
  }
  return std::nullopt;
}

/// Processes of the block's previous node may be taking slots there: waits for them.
void Pool::Impl::take_block(BlockView& block) {
  std::uint32_t from = block.line.from != 0 ? block.line.from : block.line.owner;
  if (!block.whole || from == 0 || from > superblock.max_nodes) from = SlotBlocks::anybody;
  blocks.give(block, node, from);
  if (from != SlotBlocks::anybody) {
    await_attaching(from - 1);
  } else {
    for (const std::uint32_t each : attaching.nodes_attaching_unlocked()) await_attaching(each);
  }
  block = blocks.look(block.number);
  blocks.give(block, node, 0);
}

/// The attaching process takes no lock of the pool during that time; if it is stopped, it is
/// declared dead after a lease.
void Pool::Impl::await_attaching(std::uint32_t of_node) {
  base::Waiter waiter("a process of another node to attach",
                      certainty_limit_ns(liveness.lease_ns()), {},
                      base::WaitPolicy{.spins = 20, .yields = 100, .sleep_ns = 1'000'000});
  do {
    const auto visit = attaching.look(of_node);
    if (visit.whole && (visit.line.beat == 0 || visit.line.unlocked == 0)) return;
    if (!liveness.alive(attaching_token(visit.line.generation, of_node))) return;
  } while (waiter.pause());
}

/// Holds the pool's lock under the attaching token, since the process has no slot yet.
Result<void> Pool::Impl::take_slot(const std::shared_ptr<Visit>& visit) {
  // A process that reclaims under the lock looks for living processes and would miss this one.
  const auto unlocked = blocks.reclaim_marked() ? std::nullopt : choose_unlocked();
  if (unlocked) {
    take(*unlocked);
    return {};
  }
  // From here on no process waits for this visit, so it may wait for the pool's lock.
  heartbeat->replace(NodeTable::beat_of(
      visit, /*unlocked=*/false, [this](std::uint64_t token) { exit_if_declared_dead(token); }));
  sync::Lock as_attaching = make_lock(visit->token());
  // The death of a process without slot is not recorded, so the node number does not wait for its
  // caches.
  as_attaching.leave_nothing_dirty();
  PENSTOCK_TRY(as_attaching.acquire());
  const auto chosen = choose_locked();
  if (chosen) {
    if (chosen->owns() || !chosen->whole) record_deaths({*chosen});
    take(*chosen);
  }
  reclaiming = true;  // also clears the mark of a process that died while it reclaimed
  confirm();
  end_reclaim();
  as_attaching.release();
  if (chosen) return {};
  return fail(ErrorCode::no_slots,
              "all {} process slots of pool {} are held by living processes; end some, run: "
              "penstock pool gc {}, or recreate it: penstock pool create {} --ranks {} --overwrite",
              superblock.max_processes, options.spec, base::shell_quote(options.spec),
              base::shell_quote(options.spec),
              std::min(std::max(superblock.max_processes, 1u), max_processes / slots_per_rank));
}

ProcessTable::Entry Pool::Impl::own_entry() const {
  return {.host = self.host,
          .process = self.process,
          .node = node,
          .rank = options.rank,
          .job = options.job};
}

void Pool::Impl::take(const SlotView& chosen) {
  slot = chosen.slot;
  own_state = processes.take(chosen, own_entry(), [this] { confirm(); });
  confirm();  // stopped before the last store, it may have lost the slot, under the same token
  generation = own_state.generation;
  beaten_ns = base::now_ns();
}

/// Requires the lock; call it before the first check which processes live or are attached.
/// Processes that attached without the lock are visible after it, and none attaches so until
/// end_reclaim().
void Pool::Impl::begin_reclaim() {
  if (std::exchange(reclaiming, true)) return;
  confirm();
  blocks.mark_reclaim(token());
  for (const std::uint32_t each : attaching.nodes_attaching_unlocked()) await_attaching(each);
}

/// Call it before the lock is released.
void Pool::Impl::end_reclaim() {
  if (std::exchange(reclaiming, false)) blocks.unmark_reclaim();
}

}  // namespace penstock::pool

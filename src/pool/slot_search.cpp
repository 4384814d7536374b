#include "pool/slot_search.hpp"

#include <algorithm>

#include "base/format.hpp"
#include "pool/lease.hpp"
#include "pool/own_slot.hpp"
#include "pool/pool_lock.hpp"
#include "pool/reclaim.hpp"

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
bool SlotSearch::is_free(const SlotView& view) const {
  return view.whole && !view.owns() && !may_resume(view);
}

/// A process that was declared dead may resume. While its slot says so, its host flushes nothing.
bool SlotSearch::may_resume(const SlotView& view) const {
  return view.is(SlotState::reaped) &&
         tables_.verdicts.judge_of(make_token(view.line.generation, view.slot)).has_value();
}

/// An unused slot of the block, else the usable one that was released longest ago.
std::optional<SlotView> SlotSearch::best_of(const BlockView& block, SlotUse use) {
  if (const SlotView* unused = never_used(block)) return *unused;
  const SlotView* oldest = nullptr;
  for (const SlotView& view : block.slots) {
    if (oldest != nullptr && view.line.attached_wall_ns >= oldest->line.attached_wall_ns) continue;
    if (is_usable(view, use)) oldest = &view;
  }
  if (oldest == nullptr) return std::nullopt;
  return *oldest;
}

bool SlotSearch::is_usable(const SlotView& view, SlotUse use) {
  switch (use) {
    case SlotUse::free:
      return is_free(view);
    case SlotUse::declared_dead:
      return view.whole && !view.owns();
    case SlotUse::dead:
      return !liveness_.alive(view) && !reclaim_.peers_are_alive(view);
  }
  return false;
}

std::optional<SlotView> SlotSearch::choose_unlocked() {
  HomeLine home = tables_.blocks.home(own_.node());
  if (home.listed() == 0) return std::nullopt;
  if (home.reuse == 0) {
    const BlockView newest =
        tables_.blocks.look(home.blocks[(home.entered - 1) % HomeLine::capacity]);
    if (!newest.of(own_.node())) return std::nullopt;
    const SlotView* unused = never_used(newest);
    if (unused == nullptr) return std::nullopt;
    return *unused;
  }
  const std::uint32_t looks = std::min(max_home_looks, home.listed());
  for (std::uint32_t i = 0; i < looks; ++i) {
    const std::uint32_t number = home.blocks[home.turn++ % home.listed()];
    const BlockView block = tables_.blocks.look(number);
    const auto found = block.of(own_.node()) ? best_of(block, SlotUse::free) : std::nullopt;
    if (!found) continue;
    own_.confirm();
    tables_.blocks.publish_home(own_.node(), home);
    return found;
  }
  return std::nullopt;
}

std::optional<SlotView> SlotSearch::choose_locked() {
  if (auto fresh = tables_.blocks.take_fresh(own_.node())) {
    enter_home(fresh->number, false);
    if (const SlotView* unused = never_used(*fresh)) return *unused;
  }
  // own blocks and whole blocks of others; then any; then slots of processes declared dead; then of
  // dead processes
  if (auto found = search(SlotUse::free, /*whole_blocks=*/true)) return found;
  lock_.begin_reclaim();  // from here on only this process takes slots
  if (auto found = search(SlotUse::free, false)) return found;
  if (auto found = search(SlotUse::declared_dead, false)) return found;
  return search(SlotUse::dead, false);
}

void SlotSearch::enter_home(std::uint32_t number, bool reuse) const {
  HomeLine home = tables_.blocks.home(own_.node());
  auto* const end = home.blocks + home.listed();
  if (std::find(home.blocks, end, number) == end)
    home.blocks[home.entered++ % HomeLine::capacity] = static_cast<std::uint16_t>(number);
  home.reuse = reuse ? 1 : 0;
  own_.confirm();
  tables_.blocks.publish_home(own_.node(), home);
}

std::optional<SlotView> SlotSearch::search(SlotUse use, bool whole_blocks) {
  const std::uint32_t first = tables_.blocks.turn();
  for (std::uint32_t i = 0; i < tables_.blocks.blocks(); ++i) {
    BlockView block = tables_.blocks.look((first + i) % tables_.blocks.blocks());
    const bool own = block.of(own_.node());
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
    tables_.blocks.set_turn(block.number + 1);
    return found;
  }
  return std::nullopt;
}

/// Processes of the block's previous node may be taking slots there: waits for them.
void SlotSearch::take_block(BlockView& block) {
  std::uint32_t from = block.line.from != 0 ? block.line.from : block.line.owner;
  if (!block.whole || from == 0 || from > device_.superblock().max_nodes)
    from = SlotBlocks::anybody;
  tables_.blocks.give(block, own_.node(), from);
  if (from != SlotBlocks::anybody) {
    lock_.await_attaching(from - 1);
  } else {
    lock_.await_all_attaching();
  }
  block = tables_.blocks.look(block.number);
  tables_.blocks.give(block, own_.node(), 0);
}

/// Holds the pool's lock under the attaching token, since the process has no slot yet.
Result<void> SlotSearch::take(const std::shared_ptr<Visit>& visit) {
  // A process that reclaims under the lock looks for living processes and would miss this one.
  const auto unlocked = tables_.blocks.reclaim_marked() ? std::nullopt : choose_unlocked();
  if (unlocked) {
    own_.take(*unlocked);
    return {};
  }
  // From here on no process waits for this visit, so it may wait for the pool's lock.
  own_.heartbeat()->replace(
      NodeTable::beat_of(visit, /*unlocked=*/false,
                         [&own = own_](std::uint64_t token) { own.exit_if_declared_dead(token); }));
  sync::Lock as_attaching = lock_.among_nodes(visit->token());
  // The death of a process without slot is not recorded, so the node number does not wait for its
  // caches.
  as_attaching.leave_nothing_dirty();
  PENSTOCK_TRY(as_attaching.acquire());
  const auto chosen = choose_locked();
  if (chosen) {
    if (chosen->owns() || !chosen->whole) reclaim_.record_deaths({*chosen});
    own_.take(*chosen);
  }
  lock_.clear_mark();
  as_attaching.release();
  if (chosen) return {};
  const std::string& spec = device_.spec();
  const std::uint32_t slots = device_.superblock().max_processes;
  return fail(ErrorCode::no_slots,
              "all {} process slots of pool {} are held by living processes; end some, run: "
              "penstock pool gc {}, or recreate it: penstock pool create {} --ranks {} --overwrite",
              slots, spec, base::shell_quote(spec), base::shell_quote(spec),
              std::min(std::max(slots, 1u), max_processes / slots_per_rank));
}

}  // namespace penstock::pool

// Reclaiming dead processes: which processes have died, what that means for the caches of their
// nodes, and when their memory may be freed (docs/protocols/quarantine.md).
#include <algorithm>
#include <set>
#include <span>
#include <utility>

#include "base/format.hpp"
#include "pool/impl.hpp"
#include "pool/node_table.hpp"

namespace penstock::pool {

namespace {

/// False for a torn line: it proves nothing.
bool has_ended(const SlotView& view) {
  return view.whole && !view.attached();
}

/// True if the process detached in order: it has published its stores, so its node's caches hold
/// nothing of it.
bool left_in_order(const SlotView& view) {
  return view.whole && (view.is(SlotState::detached) || view.is(SlotState::left));
}

using Sharing = Pool::Impl::Sharing;

bool share(const Sharing& some, const Sharing& others) {
  return (some.shares_with & others.tokens) != 0 || (others.shares_with & some.tokens) != 0 ||
         std::any_of(some.jobs.begin(), some.jobs.end(),
                     [&](const std::string& job) { return others.jobs.count(job) != 0; });
}

void add(Sharing& all, const Sharing& its) {
  all.jobs.insert(its.jobs.begin(), its.jobs.end());
  all.tokens |= its.tokens;
  all.shares_with |= its.shares_with;
}

bool contains(const Sharing& all, const Sharing& its) {
  return (its.tokens & ~all.tokens) == 0 && (its.shares_with & ~all.shares_with) == 0 &&
         std::includes(all.jobs.begin(), all.jobs.end(), its.jobs.begin(), its.jobs.end());
}

}  // namespace

/// Stores of the dead may be dirty in their nodes' caches, and stores of other processes to their
/// memory in the caches of those: these may have died too, unnoticed so far.
void Pool::Impl::record_deaths(const std::vector<SlotView>& dead) const {
  auto nodes = nodes_of_others();
  for (const SlotView& each : dead) nodes.insert(each.line.node);
  const auto is_torn = [](const SlotView& view) { return !view.whole; };
  if (std::any_of(dead.begin(), dead.end(), is_torn)) nodes.merge(all_nodes());
  flushes.record_deaths(nodes);
}

std::set<std::uint32_t> Pool::Impl::all_nodes() const {
  std::set<std::uint32_t> nodes;
  if (!memory.loads_may_be_stale()) return nodes;
  for (const NodeTable::Entry& entry : NodeTable(memory, base, superblock).entries())
    if (entry.registered()) nodes.insert(entry.node);
  return nodes;
}

/// The nodes with attached processes other than this one, by the table.
std::set<std::uint32_t> Pool::Impl::nodes_of_others() const {
  std::set<std::uint32_t> nodes;
  if (!memory.loads_may_be_stale()) return nodes;
  for (const SlotView& view : processes.used()) {
    if (!view.whole) return all_nodes();
    if (view.attached() && view.slot != slot) nodes.insert(view.line.node);
  }
  return nodes;
}

void Pool::Impl::note_death(std::uint64_t of_token) {
  if (of_token == 0 || is_attaching(of_token)) return;
  const std::lock_guard hold(noted_mutex);
  if (recorded.count(of_token) == 0) noted.insert(of_token);
}

/// Usually there are none, and then no wait for attaching processes is needed.
void Pool::record_known_deaths() {
  {
    const std::lock_guard hold(impl_->noted_mutex);
    if (impl_->noted.empty()) return;
  }
  impl_->begin_reclaim();
  const std::lock_guard hold(impl_->noted_mutex);
  std::vector<SlotView> dead;
  for (const std::uint64_t token : impl_->noted) {
    const SlotView view = impl_->processes.state(static_cast<std::uint32_t>(slot_of(token)));
    const bool same_generation = impl_->processes.generation(view) == generation_of(token);
    if (same_generation && !left_in_order(view)) dead.push_back(view);
  }
  if (!dead.empty()) impl_->record_deaths(dead);
  impl_->recorded.merge(impl_->noted);
  impl_->noted.clear();
}

void Pool::record_unknown_deaths() {
  if (!impl_->memory.loads_may_be_stale()) return;
  impl_->begin_reclaim();
  impl_->flushes.record_deaths(impl_->nodes_of_others());
}

/// Checks without device access come first: most slots belong to other hosts or were reaped long
/// ago.
bool Pool::declared_dead_still_runs() const {
  for (const SlotView& view : impl_->processes.used()) {
    if (!view.is(SlotState::reaped) && !view.attached()) continue;
    if (!impl_->liveness.may_exist(view)) continue;
    const bool given_up = view.is(SlotState::reaped) ||
                          impl_->verdicts.judge_of(make_token(view.line.generation, view.slot));
    if (given_up && impl_->liveness.still_exists(view)) return true;
  }
  return false;
}

bool Pool::attached_on_this_host(std::uint64_t token) const {
  if (token == 0 || is_attaching(token)) return false;
  const SlotView view = impl_->processes.state(static_cast<std::uint32_t>(slot_of(token)));
  return view.whole && view.attached() && view.line.generation == generation_of(token) &&
         impl_->liveness.still_exists(view);
}

/// A survivor that has not noticed the death may still write to the dead process's memory, for
/// example the credits of a channel. Both ends of a channel belong to one job, or one of them has
/// called shares_with().
bool Pool::Impl::peers_are_alive(const SlotView& dead) {
  const Sharing its = sharing_of(dead, 0);
  for (const SlotView& view : processes.used()) {
    if (view.slot == dead.slot || has_ended(view)) continue;
    if (share(sharing_of(view, TokenSet::all), its) && liveness.alive(view)) return true;
  }
  return false;
}

/// `if_unreadable`: in place of what the process announced.
Pool::Impl::Sharing Pool::Impl::sharing_of(const SlotView& view,
                                           std::uint64_t if_unreadable) const {
  Sharing its;
  its.jobs.insert(processes.job(view.slot));
  its.jobs.erase("");
  its.tokens = TokenSet::bit_of(make_token(processes.generation(view), view.slot));
  its.shares_with = processes.shares_with(view).value_or(if_unreadable);
  return its;
}

Pool::Impl::Peers Pool::Impl::peers_of(const Sharing& some) {
  Peers found;
  for (const SlotView& view : processes.used()) {
    if (has_ended(view)) continue;
    Sharing its = sharing_of(view, TokenSet::all);
    if (!share(its, some)) continue;
    its.tokens &= some.shares_with;
    its.shares_with &= some.tokens;
    add(found.attached, its);
    // the liveness check of a process is slow
    if (!contains(found.living, its) && liveness.alive(view)) add(found.living, its);
  }
  return found;
}

/// True if every process that may have stored to its memory has published that, or its death was
/// recorded.
bool Pool::Impl::left_nothing_dirty(const SlotView& view, const Peers& peers) const {
  const Sharing its = sharing_of(view, 0);
  return left_in_order(view) && !its.jobs.empty() && !share(its, peers.attached);
}

/// Runs without the lock: liveness checks are slow.
std::vector<std::uint32_t> Pool::Impl::find_suspects() {
  std::vector<std::uint32_t> found;
  for (const SlotView& view : processes.used()) {
    if (!view.whole || (view.owns() && !liveness.alive(view))) found.push_back(view.slot);
  }
  return found;
}

/// A single look never declares processes of other hosts dead. Objects of processes that left wait
/// for the first process of some node, or until space is needed.
std::vector<std::uint32_t> Pool::Impl::find_suspects_on_node() {
  const auto near = blocks.near(node);
  if (!near) return find_suspects();
  std::vector<std::uint32_t> found;
  bool first = true;
  for (const SlotView& view : *near) {
    if (view.slot == slot || (view.whole && view.line.node != node)) continue;
    if (view.whole && !view.owns()) continue;
    if (!view.whole || !liveness.alive(view)) {
      found.push_back(view.slot);
      continue;
    }
    const auto place = [](const StateLine& line, std::uint32_t at) {
      return std::pair(line.attached_wall_ns, at);
    };
    first = first && place(own_state, slot) < place(view.line, view.slot);
  }
  return first ? find_suspects() : found;
}

/// Requires the lock. Does the work that is common to all suspects once.
std::uint32_t Pool::Impl::reap_group(std::span<const std::uint32_t> suspects,
                                     const OnDead& on_dead) {
  begin_reclaim();
  Sharing all;
  for (const std::uint32_t suspect : suspects) add(all, sharing_of(processes.state(suspect), 0));
  const Peers peers = peers_of(all);
  std::vector<SlotView> dead, unflushed;
  std::set<std::uint64_t> tokens;
  for (const std::uint32_t suspect : suspects) {
    SlotView view = processes.state(suspect);
    if ((view.whole && !view.owns()) || liveness.alive(view)) continue;
    if (share(sharing_of(view, 0), peers.living)) continue;
    if (!view.whole) {
      if (processes.state(suspect).whole) continue;  // it was just being written: next time
      view.line.generation = processes.generation(view);
      view.line.node = std::min(view.line.node, superblock.max_nodes - 1);
    }
    dead.push_back(view);
    if (!left_nothing_dirty(view, peers)) unflushed.push_back(view);
    tokens.insert(make_token(view.line.generation, view.slot));
  }
  if (dead.empty()) return 0;
  if (!unflushed.empty()) record_deaths(unflushed);
  if (on_dead) on_dead(tokens);
  for (const SlotView& view : dead) {
    confirm();
    // a process that left may go on without the pool; a dead one that still runs was declared dead
    const bool left = view.whole && view.is(SlotState::left);
    processes.set_state(view.slot, view.line, left ? SlotState::detached : SlotState::reaped);
  }
  return static_cast<std::uint32_t>(dead.size());
}

Result<std::uint32_t> Pool::reap(const OnDead& on_dead, Among among) {
  constexpr std::size_t dead_a_hold = 64;  // others want the lock too
  const std::vector<std::uint32_t> suspects =
      among == Among::near ? impl_->find_suspects_on_node() : impl_->find_suspects();
  std::uint32_t reaped = 0;
  for (std::span<const std::uint32_t> left(suspects); !left.empty();) {
    const auto some = left.first(std::min(left.size(), dead_a_hold));
    left = left.subspan(some.size());
    auto guard = lock();
    if (!guard && reaped == 0) return unexpected(guard.error());
    if (!guard) break;  // a later call reclaims the rest
    reaped += impl_->reap_group(some, on_dead);
  }
  return reaped;
}

bool Pool::may_reclaim(std::uint64_t token) {
  if (token == 0 || is_attaching(token)) return true;
  if (alive(token)) return false;
  const SlotView view = impl_->processes.state(static_cast<std::uint32_t>(slot_of(token)));
  const bool unrecorded =
      impl_->processes.generation(view) == generation_of(token) && (view.owns() || !view.whole);
  if (!unrecorded) return true;
  impl_->begin_reclaim();
  if (impl_->peers_are_alive(view)) return false;
  impl_->record_deaths({view});
  return true;
}

Result<void> Pool::shares_with(std::span<const std::uint64_t> tokens) {
  Impl& im = *impl_;
  if (!im.writes_own_lines()) return {};
  std::vector<std::uint64_t> others;
  std::uint64_t bits = 0;
  for (const std::uint64_t token : tokens) {
    if (im.is_of_own_job(token)) continue;
    others.push_back(token);
    bits |= TokenSet::bit_of(token);
  }
  const auto none_was_killed = [&]() -> Result<void> {
    for (const std::uint64_t token : others) {
      if (alive(token)) continue;
      const SlotView view = im.processes.state(static_cast<std::uint32_t>(slot_of(token)));
      const bool is_it = view.whole && view.line.generation == generation_of(token);
      if (is_it && !left_in_order(view))
        return fail(ErrorCode::not_found, "{} has died, and its memory may have been freed",
                    im.describe(token));
    }
    return {};
  };
  if ((bits & ~im.shares_with.load()) == 0) return none_was_killed();
  // a reap under way has not seen the announcement, and may free that memory
  const auto guard = PENSTOCK_TRY(lock());
  PENSTOCK_TRY(none_was_killed());
  im.shares_with.fetch_or(bits);
  if (im.heartbeat) (void)im.heartbeat->beat_now();
  return {};
}

/// Also true for this process, and for what is no token of a process.
bool Pool::Impl::is_of_own_job(std::uint64_t of_token) const {
  const auto its = static_cast<std::uint32_t>(slot_of(of_token));
  if (of_token == 0 || is_attaching(of_token) || its >= processes.slots() || its == slot)
    return true;
  if (options.job.empty()) return false;
  const SlotView view = processes.state(its);
  return view.whole && view.line.generation == generation_of(of_token) &&
         processes.job(its) == options.job;
}

void Pool::defer_reclaim() {
  impl_->defers_reclaim = true;
}

const FlushTable& Pool::flushes() const {
  return impl_->flushes;
}

std::vector<std::uint32_t> Pool::nodes_of_these_caches() const {
  std::vector<std::uint32_t> found{impl_->node};
  if (impl_->info.mode == coherence::Mode::simulated) return found;
  const NodeTable nodes(impl_->memory, impl_->base, impl_->superblock);
  for (const NodeTable::Entry& entry : nodes.entries()) {
    if (entry.node != impl_->node && entry.registered() &&
        entry.line.boot_id == impl_->self.host.boot_id)
      found.push_back(entry.node);
  }
  return found;
}

void Pool::on_beat(const void* owner, std::function<void()> chore) {
  const std::lock_guard hold(impl_->chores_mutex);
  if (chore) {
    impl_->chores[owner] = std::move(chore);
  } else {
    impl_->chores.erase(owner);
  }
}

}  // namespace penstock::pool

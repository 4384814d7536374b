// Reclaiming dead processes: which processes have died, what that means for the caches of their
// nodes, and when their memory may be freed (docs/protocols/quarantine.md).
#include <algorithm>
#include <set>
#include <span>
#include <utility>

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
/// example the credits of a channel. Both ends of a channel belong to one job.
bool Pool::Impl::job_is_alive(const SlotView& dead) {
  const std::string job = processes.job(dead.slot);
  if (job.empty()) return false;
  for (const SlotView& view : processes.used()) {
    if (view.slot == dead.slot || has_ended(view) || processes.job(view.slot) != job) continue;
    if (liveness.alive(view)) return true;
  }
  return false;
}

Pool::Impl::Jobs Pool::Impl::look_at(std::set<std::string> jobs) {
  Jobs found;
  jobs.erase("");
  for (const SlotView& view : processes.used()) {
    if (jobs.empty()) break;
    if (has_ended(view)) continue;
    const std::string job = processes.job(view.slot);
    if (jobs.count(job) == 0) continue;
    found.attached.insert(job);
    // the liveness check of a process is slow
    if (liveness.alive(view)) found.living.insert(jobs.extract(job));
  }
  return found;
}

/// True if every process that may have stored to its memory has published that, or its death was
/// recorded.
bool Pool::Impl::left_nothing_dirty(const SlotView& view, const Jobs& jobs) const {
  const std::string job = processes.job(view.slot);
  return left_in_order(view) && !job.empty() && jobs.attached.count(job) == 0;
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
  std::set<std::string> jobs;
  for (const std::uint32_t suspect : suspects) jobs.insert(processes.job(suspect));
  const Jobs found = look_at(std::move(jobs));
  std::vector<SlotView> dead, unflushed;
  std::set<std::uint64_t> tokens;
  for (const std::uint32_t suspect : suspects) {
    SlotView view = processes.state(suspect);
    if ((view.whole && !view.owns()) || liveness.alive(view)) continue;
    if (found.living.count(processes.job(suspect)) != 0) continue;
    if (!view.whole) {
      if (processes.state(suspect).whole) continue;  // it was just being written: next time
      view.line.generation = processes.generation(view);
      view.line.node = std::min(view.line.node, superblock.max_nodes - 1);
    }
    dead.push_back(view);
    if (!left_nothing_dirty(view, found)) unflushed.push_back(view);
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
  if (impl_->job_is_alive(view)) return false;
  impl_->record_deaths({view});
  return true;
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

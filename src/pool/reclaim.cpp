#include "pool/reclaim.hpp"

#include <algorithm>
#include <utility>

#include "base/format.hpp"
#include "pool/members.hpp"
#include "pool/own_slot.hpp"
#include "pool/pool_lock.hpp"

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

bool Reclaim::Sharing::with(const Sharing& others) const {
  return (shares_with & others.tokens) != 0 || (others.shares_with & tokens) != 0 ||
         std::any_of(jobs.begin(), jobs.end(),
                     [&](const std::string& job) { return others.jobs.count(job) != 0; });
}

void Reclaim::Sharing::add(const Sharing& its) {
  jobs.insert(its.jobs.begin(), its.jobs.end());
  tokens |= its.tokens;
  shares_with |= its.shares_with;
}

bool Reclaim::Sharing::contains(const Sharing& its) const {
  return (its.tokens & ~tokens) == 0 && (its.shares_with & ~shares_with) == 0 &&
         std::includes(jobs.begin(), jobs.end(), its.jobs.begin(), its.jobs.end());
}

/// Stores of the dead may be dirty in their nodes' caches, and stores of other processes to their
/// memory in the caches of those: these may have died too, unnoticed so far.
void Reclaim::record_deaths(const std::vector<SlotView>& dead) const {
  auto nodes = nodes_of_others();
  for (const SlotView& each : dead) nodes.insert(each.line.node);
  const auto is_torn = [](const SlotView& view) { return !view.whole; };
  if (std::any_of(dead.begin(), dead.end(), is_torn)) nodes.merge(all_nodes());
  tables_.flushes.record_deaths(nodes);
}

std::set<std::uint32_t> Reclaim::all_nodes() const {
  std::set<std::uint32_t> nodes;
  if (!device_.memory().loads_may_be_stale()) return nodes;
  for (const NodeTable::Entry& entry : tables_.nodes.entries())
    if (entry.registered()) nodes.insert(entry.node);
  return nodes;
}

/// The nodes with attached processes other than this one, by the table.
std::set<std::uint32_t> Reclaim::nodes_of_others() const {
  std::set<std::uint32_t> nodes;
  if (!device_.memory().loads_may_be_stale()) return nodes;
  for (const SlotView& view : tables_.processes.used()) {
    if (!view.whole) return all_nodes();
    if (view.attached() && view.slot != own_.slot()) nodes.insert(view.line.node);
  }
  return nodes;
}

/// Usually there are none, and then no wait for attaching processes is needed.
void Reclaim::record_known_deaths() {
  const auto reported = members_.take_reported_deaths();
  if (reported.empty()) return;
  lock_.begin_reclaim();
  std::vector<SlotView> dead;
  for (const std::uint64_t token : reported) {
    const SlotView view = tables_.processes.state(static_cast<std::uint32_t>(slot_of(token)));
    const bool same_generation = tables_.processes.generation(view) == generation_of(token);
    if (same_generation && !left_in_order(view)) dead.push_back(view);
  }
  if (!dead.empty()) record_deaths(dead);
}

void Reclaim::record_unknown_deaths() {
  if (!device_.memory().loads_may_be_stale()) return;
  lock_.begin_reclaim();
  tables_.flushes.record_deaths(nodes_of_others());
}

/// Checks without device access come first: most slots belong to other hosts or were reaped long
/// ago.
bool Reclaim::declared_dead_still_runs() const {
  for (const SlotView& view : tables_.processes.used()) {
    if (!view.is(SlotState::reaped) && !view.attached()) continue;
    if (!liveness_.may_exist(view)) continue;
    const bool given_up = view.is(SlotState::reaped) ||
                          tables_.verdicts.judge_of(make_token(view.line.generation, view.slot));
    if (given_up && liveness_.still_exists(view)) return true;
  }
  return false;
}

/// A survivor that has not noticed the death may still write to the dead process's memory, for
/// example the credits of a channel. Both ends of a channel belong to one job, or one of them has
/// called shares_with().
bool Reclaim::peers_are_alive(const SlotView& dead) const {
  const Sharing its = sharing_of(dead, 0);
  for (const SlotView& view : tables_.processes.used()) {
    if (view.slot == dead.slot || has_ended(view)) continue;
    if (sharing_of(view, TokenSet::all).with(its) && liveness_.alive(view)) return true;
  }
  return false;
}

/// `if_unreadable`: in place of what the process announced.
Reclaim::Sharing Reclaim::sharing_of(const SlotView& view, std::uint64_t if_unreadable) const {
  Sharing its;
  its.jobs.insert(tables_.processes.job(view.slot));
  its.jobs.erase("");
  its.tokens = TokenSet::bit_of(make_token(tables_.processes.generation(view), view.slot));
  its.shares_with = tables_.processes.shares_with(view).value_or(if_unreadable);
  return its;
}

Reclaim::Peers Reclaim::peers_of(const Sharing& some) const {
  Peers found;
  for (const SlotView& view : tables_.processes.used()) {
    if (has_ended(view)) continue;
    Sharing its = sharing_of(view, TokenSet::all);
    if (!its.with(some)) continue;
    its.tokens &= some.shares_with;
    its.shares_with &= some.tokens;
    found.attached.add(its);
    // the liveness check of a process is slow
    if (!found.living.contains(its) && liveness_.alive(view)) found.living.add(its);
  }
  return found;
}

/// True if every process that may have stored to its memory has published that, or its death was
/// recorded.
bool Reclaim::left_nothing_dirty(const SlotView& view, const Peers& peers) const {
  const Sharing its = sharing_of(view, 0);
  return left_in_order(view) && !its.jobs.empty() && !its.with(peers.attached);
}

/// Runs without the lock: liveness checks are slow.
std::vector<std::uint32_t> Reclaim::find_suspects() const {
  std::vector<std::uint32_t> found;
  for (const SlotView& view : tables_.processes.used()) {
    if (!view.whole || (view.owns() && !liveness_.alive(view))) found.push_back(view.slot);
  }
  return found;
}

/// A single look never declares processes of other hosts dead. Objects of processes that left wait
/// for the first process of some node, or until space is needed.
std::vector<std::uint32_t> Reclaim::find_suspects_on_node() const {
  const auto near = tables_.blocks.near(own_.node());
  if (!near) return find_suspects();
  std::vector<std::uint32_t> found;
  bool first = true;
  for (const SlotView& view : *near) {
    if (view.slot == own_.slot() || (view.whole && view.line.node != own_.node())) continue;
    if (view.whole && !view.owns()) continue;
    if (!view.whole || !liveness_.alive(view)) {
      found.push_back(view.slot);
      continue;
    }
    const auto place = [](const StateLine& line, std::uint32_t at) {
      return std::pair(line.attached_wall_ns, at);
    };
    first = first && place(own_.state(), own_.slot()) < place(view.line, view.slot);
  }
  return first ? find_suspects() : found;
}

/// Requires the lock. Does the work that is common to all suspects once.
std::uint32_t Reclaim::reap_group(std::span<const std::uint32_t> suspects, const OnDead& on_dead) {
  lock_.begin_reclaim();
  Sharing all;
  for (const std::uint32_t suspect : suspects)
    all.add(sharing_of(tables_.processes.state(suspect), 0));
  const Peers peers = peers_of(all);
  std::vector<SlotView> dead, unflushed;
  std::set<std::uint64_t> tokens;
  for (const std::uint32_t suspect : suspects) {
    SlotView view = tables_.processes.state(suspect);
    if ((view.whole && !view.owns()) || liveness_.alive(view)) continue;
    if (sharing_of(view, 0).with(peers.living)) continue;
    if (!view.whole) {
      if (tables_.processes.state(suspect).whole) continue;  // it was just being written: next time
      view.line.generation = tables_.processes.generation(view);
      view.line.node = std::min(view.line.node, device_.superblock().max_nodes - 1);
    }
    dead.push_back(view);
    if (!left_nothing_dirty(view, peers)) unflushed.push_back(view);
    tokens.insert(make_token(view.line.generation, view.slot));
  }
  if (dead.empty()) return 0;
  if (!unflushed.empty()) record_deaths(unflushed);
  if (on_dead) on_dead(tokens);
  for (const SlotView& view : dead) {
    own_.confirm();
    // a process that left may go on without the pool; a dead one that still runs was declared dead
    const bool left = view.whole && view.is(SlotState::left);
    tables_.processes.set_state(view.slot, view.line,
                                left ? SlotState::detached : SlotState::reaped);
  }
  return static_cast<std::uint32_t>(dead.size());
}

Result<std::uint32_t> Reclaim::reap(const OnDead& on_dead, Among among) {
  constexpr std::size_t dead_a_hold = 64;  // others want the lock too
  const std::vector<std::uint32_t> suspects =
      among == Among::near ? find_suspects_on_node() : find_suspects();
  std::uint32_t reaped = 0;
  for (std::span<const std::uint32_t> left(suspects); !left.empty();) {
    const auto some = left.first(std::min(left.size(), dead_a_hold));
    left = left.subspan(some.size());
    auto guard = lock_.lock();
    if (!guard && reaped == 0) return unexpected(guard.error());
    if (!guard) break;  // a later call reclaims the rest
    reaped += reap_group(some, on_dead);
  }
  return reaped;
}

bool Reclaim::may_reclaim(std::uint64_t token) {
  if (token == 0 || is_attaching(token)) return true;
  if (members_.alive(token)) return false;
  const SlotView view = tables_.processes.state(static_cast<std::uint32_t>(slot_of(token)));
  const bool unrecorded =
      tables_.processes.generation(view) == generation_of(token) && (view.owns() || !view.whole);
  if (!unrecorded) return true;
  lock_.begin_reclaim();
  if (peers_are_alive(view)) return false;
  record_deaths({view});
  return true;
}

Result<void> Reclaim::shares_with(std::span<const std::uint64_t> tokens) {
  if (!own_.writes()) return {};
  std::vector<std::uint64_t> others;
  std::uint64_t bits = 0;
  for (const std::uint64_t token : tokens) {
    if (is_of_own_job(token)) continue;
    others.push_back(token);
    bits |= TokenSet::bit_of(token);
  }
  if ((bits & ~own_.shares_with()) == 0) return check_none_was_killed(others);
  // a reap under way has not seen the announcement, and may free that memory
  const auto guard = PENSTOCK_TRY(lock_.lock());
  PENSTOCK_TRY(check_none_was_killed(others));
  own_.share_with(bits);
  return {};
}

Result<void> Reclaim::check_none_was_killed(const std::vector<std::uint64_t>& tokens) const {
  for (const std::uint64_t token : tokens) {
    if (members_.alive(token)) continue;
    const SlotView view = tables_.processes.state(static_cast<std::uint32_t>(slot_of(token)));
    const bool is_it = view.whole && view.line.generation == generation_of(token);
    if (is_it && !left_in_order(view))
      return fail(ErrorCode::not_found, "{} has died, and its memory may have been freed",
                  tables_.describe(token));
  }
  return {};
}

/// Also true for this process, and for what is no token of a process.
bool Reclaim::is_of_own_job(std::uint64_t token) const {
  const auto its = static_cast<std::uint32_t>(slot_of(token));
  if (token == 0 || is_attaching(token) || its >= tables_.processes.slots() || its == own_.slot())
    return true;
  if (own_.options().job.empty()) return false;
  const SlotView view = tables_.processes.state(its);
  return view.whole && view.line.generation == generation_of(token) &&
         tables_.processes.job(its) == own_.options().job;
}

void Reclaim::defer() {
  own_.defer_reclaim();
}

const FlushTable& Reclaim::flushes() const {
  return tables_.flushes;
}

}  // namespace penstock::pool

#include "pool/members.hpp"

#include <algorithm>
#include <utility>

#include "base/wait.hpp"
#include "pool/lease.hpp"
#include "pool/own_slot.hpp"

namespace penstock::pool {

std::vector<ProcessRecord> Members::processes() const {
  std::vector<ProcessRecord> records;
  for (const SlotView& view : tables_.processes.used()) {
    // a half-written line does not identify its process
    if (view.line.generation == 0 || !view.whole) continue;
    ProcessRecord record = tables_.record(view);
    record.alive = liveness_.alive(view);
    records.push_back(std::move(record));
  }
  return records;
}

bool Members::alive(std::uint64_t token) const {
  if (token != 0 && token == own_.token()) {
    own_.confirm();
    return true;
  }
  if (liveness_.alive(token)) return true;
  if (token == 0 || is_attaching(token)) return false;
  const std::lock_guard hold(deaths_);
  if (taken_.count(token) == 0) reported_.insert(token);
  return false;
}

std::set<std::uint64_t> Members::take_reported_deaths() const {
  const std::lock_guard hold(deaths_);
  taken_.insert(reported_.begin(), reported_.end());
  return std::exchange(reported_, {});
}

bool Members::died(std::uint64_t token) const {
  if (token == 0 || is_attaching(token) || token == own_.token()) return false;
  const SlotView view = tables_.processes.state(static_cast<std::uint32_t>(slot_of(token)));
  return view.whole && view.line.generation == generation_of(token) && view.attached() &&
         !alive(token);
}

bool Members::declared_dead(std::uint64_t token) const {
  return tables_.verdicts.judge_of(token).has_value();
}

std::string Members::describe(std::uint64_t token) const {
  return tables_.describe(token);
}

Result<void> Members::make_certain() const {
  LifeWatch life(tables_.processes, liveness_);
  base::Waiter waiter("the heartbeats of a pool", certainty_limit_ns(liveness_.lease_ns()), {},
                      base::WaitPolicy{.spins = 0, .yields = 0, .sleep_ns = 5'000'000});
  for (;;) {
    bool undecided = false;
    for (const SlotView& view : tables_.processes.used()) {
      undecided = life.look(view) == LifeWatch::Verdict::undecided || undecided;
    }
    if (!undecided) return {};
    if (auto paused = waiter.pause(); !paused) return paused;
  }
}

std::optional<std::uint32_t> Members::node_of(std::uint64_t token) const {
  if (token == 0 || is_attaching(token)) return std::nullopt;
  const SlotView view = tables_.processes.state(static_cast<std::uint32_t>(slot_of(token)));
  if (!view.whole || view.line.generation != generation_of(token)) return std::nullopt;
  return view.line.node;
}

std::vector<std::optional<std::uint32_t>> Members::nodes_of(
    const std::vector<std::uint64_t>& tokens) const {
  constexpr std::uint32_t at_once = 64;
  const ProcessTable& processes = tables_.processes;
  std::vector<std::optional<std::uint32_t>> nodes(tokens.size());
  std::vector<std::uint32_t> order;
  for (std::uint32_t i = 0; i < tokens.size(); ++i) {
    const bool has_slot = tokens[i] != 0 && !is_attaching(tokens[i]);
    if (has_slot && slot_of(tokens[i]) < processes.slots()) order.push_back(i);
  }
  const auto slot_at = [&](std::size_t place) { return slot_of(tokens[order[place]]); };
  std::sort(order.begin(), order.end(), [&](std::uint32_t a, std::uint32_t b) {
    return slot_of(tokens[a]) < slot_of(tokens[b]);
  });
  for (std::size_t begin = 0; begin < order.size();) {
    std::size_t end = begin + 1;
    while (end < order.size() && slot_at(end) - slot_at(end - 1) <= 1 &&
           slot_at(end) - slot_at(begin) < at_once)
      ++end;
    const auto first = static_cast<std::uint32_t>(slot_at(begin));
    const auto views = processes.states(first, static_cast<std::uint32_t>(slot_at(end - 1)) + 1);
    for (; begin != end; ++begin) {
      const SlotView& view = views[slot_at(begin) - first];
      if (view.whole && view.line.generation == generation_of(tokens[order[begin]]))
        nodes[order[begin]] = view.line.node;
    }
  }
  return nodes;
}

std::vector<std::uint32_t> Members::nodes_of_these_caches() const {
  std::vector<std::uint32_t> found{own_.node()};
  if (device_.superblock().mode == static_cast<std::uint32_t>(coherence::Mode::simulated))
    return found;
  for (const NodeTable::Entry& entry : tables_.nodes.entries()) {
    if (entry.node != own_.node() && entry.registered() &&
        entry.line.boot_id == own_.self().host.boot_id)
      found.push_back(entry.node);
  }
  return found;
}

std::uint32_t Members::nodes_without_entry(std::uint32_t emulated_nodes) const {
  const auto owners = nodes_of_owners(tables_.processes);
  const auto times = tables_.flushes.times();
  return tables_.nodes.without_entry(own_.self().host, emulated_nodes, [&](std::uint32_t node) {
    return !owners || owners->count(node) != 0 || times.deaths[node] != 0;
  });
}

/// Slots of the processes of `nodes`, all on this host. May include slots of other nodes. Avoids
/// scanning all processes of the pool: there may be thousands.
std::vector<SlotView> Members::slots_of_this_host(const std::vector<std::uint32_t>& nodes) const {
  std::vector<SlotView> views;
  if (own_.options().observer) return tables_.processes.used();  // an observer has no node
  for (const std::uint32_t each : nodes) {
    const auto near = tables_.blocks.near(each);
    if (!near) return tables_.processes.used();
    views.insert(views.end(), near->begin(), near->end());
  }
  return views;
}

std::vector<Members::Member> Members::of_this_node() const {
  std::vector<Member> members;
  for (const SlotView& view : slots_of_this_host({own_.node()})) {
    if (view.whole && view.attached() && view.line.node == own_.node())
      members.push_back({view.slot, make_token(view.line.generation, view.slot)});
  }
  return members;
}

std::uint32_t Members::local_processes() const {
  // a process may be attached several times, once per library of ours that it loads
  std::set<std::pair<std::uint64_t, std::uint64_t>> found;
  for (const SlotView& view : slots_of_this_host(nodes_of_these_caches())) {
    if (liveness_.runs_here(view)) found.emplace(view.line.scope, view.line.pid);
  }
  return static_cast<std::uint32_t>(found.size());
}

bool Members::attached_on_this_host(std::uint64_t token) const {
  if (token == 0 || is_attaching(token)) return false;
  const SlotView view = tables_.processes.state(static_cast<std::uint32_t>(slot_of(token)));
  return view.whole && view.attached() && view.line.generation == generation_of(token) &&
         liveness_.still_exists(view);
}

/// Includes attachments of the own node only: this one cannot write back stores of another emulated
/// node.
std::vector<device::PoolMappings::Attachment> Members::of_this_process() const {
  const ProcessIdentity& process = own_.self().process;
  std::vector<device::PoolMappings::Attachment> found;
  for (const SlotView& view : slots_of_this_host({own_.node()})) {
    const StateLine& line = view.line;
    if (!view.whole || !view.attached() || line.node != own_.node() || line.pid != process.pid ||
        line.start_time != process.start_time || line.scope != process.scope ||
        line.file != process.pool_file)
      continue;
    const std::uint64_t at = tables_.processes.mapped_at(view.slot, line.generation);
    if (at != 0) found.push_back({at, view.slot, line.generation});
  }
  return found;
}

bool Members::still_attached(const device::PoolMappings::Attachment& attachment) const {
  return tables_.processes.cached_as_attached(attachment.slot, attachment.generation);
}

}  // namespace penstock::pool

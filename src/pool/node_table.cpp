#include "pool/node_table.hpp"

#include <algorithm>

#include "base/checksum.hpp"
#include "base/clock.hpp"
#include "base/format.hpp"
#include "pool/checksummed_line.hpp"
#include "pool/pause.hpp"
#include "pool/registration.hpp"

namespace penstock::pool {

namespace {

std::uint32_t emulated_field(const NodeTable::Joiner& joiner) {
  return joiner.emulated_node ? *joiner.emulated_node + 1 : 0;
}

bool is_own(const NodeLine& line, const NodeTable::Joiner& joiner) {
  return line.boot_id == joiner.host.boot_id && line.emulated == emulated_field(joiner);
}

bool same_entry(const NodeLine& one, const NodeLine& other) {
  return one.boot_id == other.boot_id && one.emulated == other.emulated &&
         one.incarnation == other.incarnation && one.registered_wall_ns == other.registered_wall_ns;
}

}  // namespace

std::optional<std::set<std::uint32_t>> nodes_of_owners(const ProcessTable& processes) {
  std::set<std::uint32_t> nodes;
  for (const SlotView& view : processes.used()) {
    if (!view.whole) return std::nullopt;
    if (view.owns()) nodes.insert(view.line.node);
  }
  return nodes;
}

std::optional<NodeLine> NodeTable::read(std::uint32_t node) const {
  if (node >= superblock_.max_nodes) return std::nullopt;
  auto line = observe_checksummed_line<NodeLine>(memory_, base_, place(node));
  if (!line || line->incarnation == 0) return std::nullopt;
  return line;
}

std::vector<NodeTable::Entry> NodeTable::entries() const {
  constexpr std::uint32_t batch = 64;
  std::vector<Entry> found;
  for (std::uint32_t first = 0; first < superblock_.max_nodes; first += batch) {
    const std::uint32_t end = std::min(first + batch, superblock_.max_nodes);
    memory_.invalidate(base_ + place(first), std::uint64_t{end - first} * sizeof(NodeLine));
    memory_.load_fence();
    bool any = false;
    for (std::uint32_t node = first; node < end; ++node) {
      Entry entry{.node = node};
      entry.whole =
          load_checksummed_line<NodeLine>(memory_, base_, place(node), &entry.line).has_value();
      any = any || entry.taken();
      found.push_back(entry);
    }
    if (!any) break;  // entries are taken in order
  }
  return found;
}

std::uint32_t NodeTable::without_entry(
    const HostIdentity& host, std::uint32_t emulated_nodes,
    const std::function<bool(std::uint32_t node)>& needed) const {
  std::uint32_t missing = emulated_nodes, free = superblock_.max_nodes;
  for (const Entry& entry : entries()) {
    const NodeLine& line = entry.line;
    const bool own = line.boot_id == host.boot_id ||
                     (host.machine_id != Uuid{} && line.machine_id == host.machine_id);
    const bool joins =
        entry.registered() && own && line.emulated != 0 && line.emulated <= emulated_nodes;
    if (joins && missing > 0) --missing;
    if (entry.taken() && (joins || !entry.registered() || needed(entry.node))) --free;
  }
  return missing > free ? missing - free : 0;
}

void NodeTable::publish(std::uint32_t node, const NodeLine& line) const {
  publish_checksummed_line(memory_, base_, place(node), line);
  memory_.store_fence();
}

void NodeTable::begin(const Joiner& joiner, const std::shared_ptr<Visit>& visit, bool unlocked) {
  visit->begin();
  joiner.heartbeat = std::make_unique<Heartbeat>(
      joiner.liveness.lease_ns(), beat_of(visit, unlocked, joiner.exit_if_declared_dead));
}

/// A process that was stopped for long may have been declared dead and lost the line: it checks
/// first.
Heartbeat::Beat NodeTable::beat_of(const std::shared_ptr<Visit>& visit, bool unlocked,
                                   std::function<void(std::uint64_t token)> exit_if_declared_dead) {
  return [visit, unlocked, exit_if_declared_dead = std::move(exit_if_declared_dead)] {
    for (std::uint64_t since_ns = 0; !is_recent(since_ns);) {
      since_ns = base::now_ns();
      exit_if_declared_dead(visit->token());
    }
    visit->beat(unlocked);
    exit_if_declared_dead(visit->token());
  };
}

Result<NodeSeat> NodeTable::join(const Joiner& joiner) const {
  if (auto seat = join_own(joiner)) return *seat;
  if (auto seat = take_over(joiner)) return *seat;
  // A clone of this machine may take the new entry over; then another entry is free.
  for (int attempts = 0;; ++attempts) {
    const auto node =
        PENSTOCK_TRY(Registration(*this, joiner, memory_, base_, superblock_).enter());
    hint(joiner, node);
    if (auto seat = take_seat(joiner, node, 0)) return *seat;
    if (attempts == 8) {
      return fail(ErrorCode::unavailable,
                  "other machines take over each entry of pool {} that this one enters: they are "
                  "clones with the same /etc/machine-id; give each machine its own: "
                  "systemd-machine-id-setup",
                  joiner.spec);
    }
  }
}

namespace {

/// Hash that selects a host's hint.
std::uint64_t hash_of(const NodeTable::Joiner& joiner) {
  return base::xxh64(joiner.host.boot_id.data(), joiner.host.boot_id.size(),
                     emulated_field(joiner));
}
constexpr std::uint64_t node_mask = 0xffff;

}  // namespace

std::uint64_t NodeTable::place_of_hints(std::uint64_t hash) const {
  return superblock_.places_offset +
         hash % place_lines_of(superblock_.max_nodes) * sizeof(PlaceLine);
}

PlaceLine NodeTable::hints(std::uint64_t hash) const {
  PlaceLine line;
  memory_.observe_line(&line, base_ + place_of_hints(hash));
  return line;
}

void NodeTable::hint(const Joiner& joiner, std::uint32_t node) const {
  const std::uint64_t hash = hash_of(joiner);
  const std::uint64_t word = (hash & ~node_mask) | (node + 1);
  const PlaceLine line = hints(hash);
  if (std::find(line.words, std::end(line.words), word) != std::end(line.words)) return;
  const auto* free = std::find(line.words, std::end(line.words), 0u);
  const auto at = free != std::end(line.words) ? static_cast<std::uint64_t>(free - line.words)
                                               : (hash >> 16) % PlaceLine::words_a_line;
  memory_.publish_word(base_ + place_of_hints(hash) + at * sizeof word, word);
}

std::optional<NodeSeat> NodeTable::join_own(const Joiner& joiner) const {
  const std::uint64_t hash = hash_of(joiner);
  for (const std::uint64_t word : hints(hash).words) {
    const std::uint64_t number = word & node_mask;
    if (number == 0 || (word & ~node_mask) != (hash & ~node_mask)) continue;
    const auto node = static_cast<std::uint32_t>(number - 1);
    const std::uint64_t since_ns = base::now_ns();
    const auto line = read(node);
    if (!line || !is_own(*line, joiner)) continue;
    if (auto seat = take_seat(joiner, node, since_ns)) return seat;
  }
  for (const Entry& entry : entries()) {  // the hint was lost or never written
    if (!entry.registered() || !is_own(entry.line, joiner)) continue;
    hint(joiner, entry.node);
    if (auto seat = take_seat(joiner, entry.node, 0)) return seat;
  }
  return std::nullopt;
}

/// Fails if another machine has taken the entry over without seeing the attaching process: either
/// this process reads the other machine's line here, or the other one, much later, reads the
/// attaching line. During that time the other machine may have begun a visit, which this one must
/// not overwrite: so little time may pass between the look at the entry and the visit's first line.
std::optional<NodeSeat> NodeTable::take_seat(const Joiner& joiner, std::uint32_t node,
                                             std::uint64_t since_ns) const {
  joiner.heartbeat.reset();
  AttachingLine first = joiner.attaching.next(node, joiner.host, joiner.process);
  while (!is_recent(since_ns)) {
    since_ns = base::now_ns();
    const auto line = read(node);
    if (!line || !is_own(*line, joiner)) return std::nullopt;
    first = joiner.attaching.next(node, joiner.host, joiner.process);
  }
  const auto visit = std::make_shared<Visit>(joiner.attaching, node, first);
  begin(joiner, visit, /*unlocked=*/true);
  const auto again = read(node);
  if (again && is_own(*again, joiner)) return NodeSeat{.node = node, .visit = visit};
  joiner.heartbeat.reset();
  visit->leave();
  return std::nullopt;
}

std::uint64_t NodeTable::visits_of(const Joiner& joiner, std::uint32_t node) {
  const auto attaching = joiner.attaching.read(node);
  return attaching ? attaching->generation : 0;
}

std::optional<NodeSeat> NodeTable::take_over(const Joiner& joiner) const {
  if (joiner.host.machine_id == Uuid{}) return std::nullopt;
  for (const Entry& entry : entries()) {
    const NodeLine& line = entry.line;
    if (!entry.registered() || line.machine_id != joiner.host.machine_id ||
        line.emulated != emulated_field(joiner)) {
      continue;
    }
    if (!replace(joiner, entry.node, line)) continue;
    hint(joiner, entry.node);
    if (auto seat = take_seat(joiner, entry.node, 0)) return seat;
  }
  return std::nullopt;
}

/// The host of `line` may come back meanwhile, and clones of this machine may do the same: Fischer.
bool NodeTable::replace(const Joiner& joiner, std::uint32_t node, const NodeLine& line) const {
  const std::uint64_t visits = visits_of(joiner, node);
  if (!incarnation_is_dead(joiner, node)) return false;
  const NodeLine own = entry_of(joiner, line.incarnation + 1);
  if (!is_unchanged(joiner, node, line)) return false;
  publish(node, own);
  for (Pause pause(arrival_ns); pause.more();) {
  }
  if (!is_unchanged(joiner, node, own)) return false;
  if (visits_of(joiner, node) == visits) return true;
  if (is_unchanged(joiner, node, own)) publish(node, line);  // its machine came back meanwhile
  return false;
}

/// Repeats the look if this process was stopped after it: the entry may then belong to a third
/// host, which the caller must not overwrite.
bool NodeTable::is_unchanged(const Joiner& joiner, std::uint32_t node, const NodeLine& line) const {
  for (std::uint64_t since_ns = 0; !is_recent(since_ns);) {
    since_ns = base::now_ns();
    if (joiner.heartbeat) joiner.heartbeat->confirm();
    const auto there = read(node);
    if (!there || !same_entry(*there, line)) return false;
  }
  return true;
}

NodeLine NodeTable::entry_of(const Joiner& joiner, std::uint64_t incarnation) {
  return NodeLine{.boot_id = joiner.host.boot_id,
                  .machine_id = joiner.host.machine_id,
                  .emulated = emulated_field(joiner),
                  .registered_wall_ns = base::wall_ns(),
                  .incarnation = incarnation};
}

bool NodeTable::incarnation_is_dead(const Joiner& joiner, std::uint32_t node) const {
  LifeWatch life(joiner.processes, joiner.liveness);
  const auto shown = joiner.attaching.read(node);
  for (Pause pause(certainty_limit_ns(joiner.liveness.lease_ns())); pause.more();) {
    bool undecided = false;
    for (const SlotView& view : joiner.processes.used()) {
      if (view.line.node != node) continue;
      const auto verdict = life.look(view);
      if (verdict == LifeWatch::Verdict::alive) return false;
      undecided = undecided || verdict == LifeWatch::Verdict::undecided;
    }
    const auto now = joiner.attaching.read(node);
    if (shown && now) {
      if (now->beat != shown->beat || now->generation != shown->generation) return false;
      undecided = undecided || joiner.liveness.alive(attaching_token(now->generation, node));
    }
    if (!undecided) return true;
  }
  return false;
}

bool NodeTable::take_free_entry(const Joiner& joiner, std::uint32_t node) const {
  NodeLine raw;
  // a damaged line must not be reused: its node may still hold the number
  const bool whole =
      observe_checksummed_line<NodeLine>(memory_, base_, place(node), &raw).has_value();
  if (!whole || raw.incarnation != 0) return false;
  joiner.heartbeat->confirm();
  publish(node, entry_of(joiner, 1));
  return true;
}

}  // namespace penstock::pool

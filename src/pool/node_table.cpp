#include "pool/node_table.hpp"

#include <algorithm>

#include "base/clock.hpp"
#include "base/format.hpp"
#include "base/wait.hpp"
#include "pool/checksummed_line.hpp"
#include "pool/random_id.hpp"
#include "sync/sync.hpp"

namespace penstock::pool {

namespace {

/// Much longer than a publish takes to arrive.
constexpr std::uint64_t take_over_wait_ns = 50'000'000;

std::uint32_t emulated_field(const NodeTable::Joiner& joiner) {
  return joiner.emulated_node ? *joiner.emulated_node + 1 : 0;
}

bool is_own(const NodeLine& line, const NodeTable::Joiner& joiner) {
  return line.boot_id == joiner.host.boot_id && line.emulated == emulated_field(joiner);
}

/// Sleeps through the one way to wait; false when `ns` have passed.
class Pause {
 public:
  explicit Pause(std::uint64_t ns)
      : waiter_("time to pass", ns, {},
                base::WaitPolicy{.spins = 0, .yields = 0, .sleep_ns = 2'000'000}) {}
  bool more() { return waiter_.pause().has_value(); }

 private:
  base::Waiter waiter_;
};

}  // namespace

std::optional<NodeLine> NodeTable::read(std::uint32_t node) const {
  if (node >= superblock_.max_nodes) return std::nullopt;
  auto line = observe_checksummed_line<NodeLine>(memory_, base_, place(node));
  if (!line || line->incarnation == 0) return std::nullopt;
  if (line->name >= names_of(superblock_.max_nodes)) return std::nullopt;
  return line;
}

std::uint32_t NodeTable::without_entry(const HostIdentity& host,
                                       std::uint32_t emulated_nodes) const {
  std::uint32_t needed = emulated_nodes, entries = superblock_.max_nodes;
  for (std::uint32_t node = 0; node < superblock_.max_nodes; ++node) {
    const auto line = read(node);
    if (!line) continue;
    --entries;
    const bool own = line->boot_id == host.boot_id ||
                     (host.machine_id != Uuid{} && line->machine_id == host.machine_id);
    if (own && line->emulated != 0 && line->emulated <= emulated_nodes && needed > 0) --needed;
  }
  return needed > entries ? needed - entries : 0;
}

void NodeTable::publish(std::uint32_t node, const NodeLine& line) const {
  publish_checksummed_line(memory_, base_, place(node), line);
  memory_.store_fence();
}

std::uint64_t NodeTable::visit(const Joiner& joiner, std::uint32_t name) const {
  joiner.heartbeat.reset();
  const std::uint64_t token = joiner.attaching.enter(name, joiner.host, joiner.process);
  const AttachingTable attaching = joiner.attaching;
  joiner.heartbeat = std::make_unique<Heartbeat>(joiner.liveness.lease_ns(),
                                                 [attaching, name, token, heed = joiner.heed] {
                                                   attaching.beat(name);
                                                   heed(token);
                                                 });
  return token;
}

Result<NodeSeat> NodeTable::join(const Joiner& joiner) const {
  if (auto seat = join_own(joiner)) return *seat;
  if (auto seat = take_over(joiner)) return *seat;
  return register_new(joiner);
}

std::optional<NodeSeat> NodeTable::join_own(const Joiner& joiner) const {
  for (std::uint32_t node = 0; node < superblock_.max_nodes; ++node) {
    const auto line = read(node);
    if (!line || !is_own(*line, joiner)) continue;
    if (auto seat = sit_down(joiner, node, line->name)) return seat;
  }
  return std::nullopt;
}

/// Fails if a clone of this machine has taken the entry over without seeing the attaching process:
/// either the attaching process reads the clone's line here, or the clone, much later, reads the
/// attaching process's line.
std::optional<NodeSeat> NodeTable::sit_down(const Joiner& joiner, std::uint32_t node,
                                            std::uint32_t name) const {
  const std::uint64_t token = visit(joiner, name);
  const auto again = read(node);
  if (again && is_own(*again, joiner)) return NodeSeat{.node = node, .attaching_token = token};
  return std::nullopt;
}

std::uint64_t NodeTable::visits_of(const Joiner& joiner, std::uint32_t name) {
  const auto attaching = joiner.attaching.read(name);
  return attaching ? attaching->generation : 0;
}

std::optional<NodeSeat> NodeTable::take_over(const Joiner& joiner) const {
  if (joiner.host.machine_id == Uuid{}) return std::nullopt;
  for (std::uint32_t node = 0; node < superblock_.max_nodes; ++node) {
    const auto line = read(node);
    if (!line || line->machine_id != joiner.host.machine_id ||
        line->emulated != emulated_field(joiner)) {
      continue;
    }
    const std::uint64_t visits = visits_of(joiner, line->name);
    if (!incarnation_is_dead(joiner, node, *line)) continue;
    NodeLine mine = *line;
    mine.boot_id = joiner.host.boot_id;
    mine.registered_wall_ns = base::wall_ns();
    mine.incarnation += 1;
    publish(node, mine);
    for (Pause pause(take_over_wait_ns); pause.more();) {
    }
    const auto again = read(node);
    if (!again || !is_own(*again, joiner)) continue;
    if (visits_of(joiner, line->name) != visits) {
      publish(node, *line);  // its machine came back meanwhile
      continue;
    }
    if (auto seat = sit_down(joiner, node, line->name)) return seat;
  }
  return std::nullopt;
}

bool NodeTable::incarnation_is_dead(const Joiner& joiner, std::uint32_t node,
                                    const NodeLine& line) const {
  LifeWatch life(joiner.processes, joiner.liveness);
  const auto attaching = joiner.attaching.read(line.name);
  for (Pause pause(certainty_limit_ns(joiner.liveness.lease_ns())); pause.more();) {
    bool undecided = false;
    for (const SlotView& view : joiner.processes.used()) {
      if (view.line.node != node) continue;
      const auto verdict = life.look(view);
      if (verdict == LifeWatch::Verdict::alive) return false;
      undecided = undecided || verdict == LifeWatch::Verdict::undecided;
    }
    const auto attaching_now = joiner.attaching.read(line.name);
    if (attaching && attaching_now &&
        (attaching_now->beat != attaching->beat ||
         attaching_now->generation != attaching->generation)) {
      return false;
    }
    if (!undecided) return true;
  }
  return false;
}

Result<NodeSeat> NodeTable::register_new(const Joiner& joiner) const {
  auto id = PENSTOCK_TRY(random_id());
  sync::Renaming renaming(memory_, base_ + superblock_.renaming_offset, superblock_.max_nodes);
  auto name = renaming.claim(id);
  if (!name) {
    return fail(ErrorCode::no_slots,
                "{} nodes have joined pool {}, no more are possible; recreate it: penstock pool "
                "create {} --max-nodes {} --overwrite",
                superblock_.max_nodes, joiner.spec, base::shell_quote(joiner.spec),
                std::min(superblock_.max_nodes * 2, max_nodes));
  }
  const std::uint64_t token = visit(joiner, *name);
  sync::Lock registration(memory_, base_ + superblock_.registration_offset,
                          names_of(superblock_.max_nodes), *name, token,
                          [&joiner, token](std::uint64_t other) {
                            if (other != token) return joiner.liveness.alive(other);
                            joiner.heartbeat->confirm();
                            return true;
                          });
  PENSTOCK_TRY(registration.acquire());
  auto node = take_free_entry(joiner, *name);
  registration.release();
  if (!node) return unexpected(node.error());
  return NodeSeat{.node = *node, .attaching_token = token};
}

Result<std::uint32_t> NodeTable::take_free_entry(const Joiner& joiner, std::uint32_t name) const {
  for (std::uint32_t node = 0; node < superblock_.max_nodes; ++node) {
    NodeLine raw;
    // A damaged line must not be reused: its node may still hold the number.
    const bool whole =
        observe_checksummed_line<NodeLine>(memory_, base_, place(node), &raw).has_value();
    if (!whole || raw.incarnation != 0) continue;
    publish(node, NodeLine{.boot_id = joiner.host.boot_id,
                           .machine_id = joiner.host.machine_id,
                           .emulated = emulated_field(joiner),
                           .name = name,
                           .registered_wall_ns = base::wall_ns(),
                           .incarnation = 1});
    return node;
  }
  return fail(ErrorCode::no_slots,
              "all {} node entries of pool {} are taken; recreate it: penstock pool create {} "
              "--max-nodes {} --overwrite",
              superblock_.max_nodes, joiner.spec, joiner.spec,
              std::min(superblock_.max_nodes * 2, max_nodes));
}

}  // namespace penstock::pool

#include "pool/registration.hpp"

#include <algorithm>
#include <cstring>

#include "base/clock.hpp"
#include "base/format.hpp"
#include "base/wait.hpp"
#include "pool/pause.hpp"
#include "pool/random_id.hpp"

namespace penstock::pool {

namespace {

/// Ids serve as generations of tokens, which have 48 bits.
constexpr int spare_bits = 17;

bool same_visit(const std::optional<AttachingLine>& now, const std::optional<AttachingLine>& then) {
  return now.has_value() == then.has_value() &&
         (!now || std::memcmp(&*now, &*then, sizeof *now) == 0);
}

}  // namespace

Registration::Registration(const NodeTable& table, const NodeTable::Joiner& joiner,
                           const coherence::Memory& memory, std::byte* base,
                           const device::Superblock& superblock)
    : table_(table),
      joiner_(joiner),
      memory_(memory),
      base_(base),
      superblock_(superblock),
      doors_(memory, base + superblock.renaming_offset, names_of(superblock.max_nodes)) {}

Result<std::uint32_t> Registration::enter() {
  const auto abandoned = watch();
  PENSTOCK_TRY(claim());
  auto node = take_under_lock(abandoned);
  give_back();
  return node;
}

/// Passes a door and announces itself. A door is opened again only if no process is behind it, or
/// if it was shut and nothing happened for a lease.
Result<void> Registration::claim() {
  base::Waiter waiter("a name for this host to come free", 0, {},
                      base::WaitPolicy{.spins = 0, .yields = 10, .sleep_ns = 2'000'000});
  for (;;) {
    id_ = PENSTOCK_TRY(random_id()) >> spare_bits | 1;
    const std::uint64_t begun_ns = base::now_ns();
    const auto name = doors_.claim(id_);
    if (name && base::now_ns() - begun_ns < joiner_.liveness.lease_ns() / 4) {
      name_ = *name;
      const std::uint32_t line = joiner_.attaching.line_of_name(name_);
      visit_ =
          std::make_shared<Visit>(joiner_.attaching, line,
                                  joiner_.attaching.next(line, joiner_.host, joiner_.process, id_));
      token_ = visit_->token();
      NodeTable::begin(joiner_, visit_, /*unlocked=*/false);
      return {};
    }
    if (!name) open_one_door(watch());
    if (auto paused = waiter.pause(); !paused) {
      return fail(ErrorCode::no_slots,
                  "{} hosts are joining pool {}, the limit; try again later, or "
                  "recreate it: penstock pool create {} --nodes {} --overwrite",
                  names_of(superblock_.max_nodes), joiner_.spec, base::shell_quote(joiner_.spec),
                  std::min(superblock_.max_nodes * 2, max_nodes));
    }
  }
}

/// Opens one door if all are shut and perhaps no process is left to open them under the lock. If
/// several find that, the last one to write opens the door (Fischer), provided that it wrote soon
/// after its look: otherwise another may have opened it meanwhile, and a third may be behind it.
void Registration::open_one_door(const std::vector<Abandoned>& abandoned) const {
  if (abandoned.empty()) return;
  const Abandoned& door = abandoned[id_ % abandoned.size()];
  doors_.leave(door.name, id_);
  if (!is_recent(door.since_ns)) return;
  for (Pause pause(arrival_ns); pause.more();) {
  }
  const std::uint64_t since_ns = base::now_ns();
  const bool still_shut = doors_.shut_by()[door.name] == id_ &&
                          same_visit(joiner_.attaching.read_names()[door.name], door.shown);
  if (still_shut && is_recent(since_ns)) doors_.open(door.name);
}

/// Not needed, and empty, while half of the doors are open.
std::vector<Registration::Abandoned> Registration::watch() const {
  const auto before = doors_.shut_by();
  const auto open = static_cast<std::size_t>(std::count(before.begin(), before.end(), 0u));
  if (2 * open >= before.size()) return {};
  const auto visitors = joiner_.attaching.read_names();
  const auto lives = [&](std::uint32_t name) {
    return visitors[name] && visitors[name]->beat != 0 &&
           joiner_.liveness.alive(
               attaching_token(visitors[name]->generation, joiner_.attaching.line_of_name(name)));
  };
  const std::uint64_t lease_ns = joiner_.liveness.lease_ns();
  for (Pause pause(lease_ns + lease_ns / 4); pause.more();) {
    joiner_.liveness.stay_awake();
    for (std::uint32_t name = 0; name < before.size(); ++name) (void)lives(name);
  }
  const std::uint64_t since_ns = base::now_ns();
  const auto after = doors_.shut_by();
  const auto visitors_after = joiner_.attaching.read_names();
  std::vector<Abandoned> found;
  for (std::uint32_t name = 0; name < before.size(); ++name) {
    const bool same = same_visit(visitors_after[name], visitors[name]);
    if (before[name] == 0 || after[name] != before[name] || !same || lives(name)) continue;
    found.push_back({name, before[name], visitors[name], since_ns});
  }
  return found;
}

Result<std::uint32_t> Registration::take_under_lock(const std::vector<Abandoned>& abandoned) {
  sync::Lock registration(memory_, base_ + superblock_.registration_offset,
                          names_of(superblock_.max_nodes), name_, token_,
                          [this](std::uint64_t other) {
                            if (other != token_) return joiner_.liveness.alive(other);
                            joiner_.heartbeat->confirm();
                            return true;
                          });
  registration
      .leave_nothing_dirty();  // the next owner of the name, and of its line, is another host
  PENSTOCK_TRY(registration.acquire());
  open_doors(abandoned);
  auto node = take_entry();
  joiner_.heartbeat->confirm();
  registration.release();
  return node;
}

/// Opens the doors of hosts that have left, and the abandoned ones.
void Registration::open_doors(const std::vector<Abandoned>& abandoned) const {
  const auto shut_by = doors_.shut_by();
  const auto visitors = joiner_.attaching.read_names();
  const auto has_left = [&](std::uint32_t name) {
    const auto& shown = visitors[name];
    return shown && shown->beat == 0 && shown->generation == shut_by[name];
  };
  const auto is_abandoned = [&](std::uint32_t name) {
    const auto found = std::find_if(abandoned.begin(), abandoned.end(),
                                    [&](const Abandoned& each) { return each.name == name; });
    return found != abandoned.end() && found->shut_by == shut_by[name] &&
           same_visit(visitors[name], found->shown) &&
           (!visitors[name] || visitors[name]->generation != shut_by[name] ||
            !joiner_.liveness.alive(
                attaching_token(shut_by[name], joiner_.attaching.line_of_name(name))));
  };
  for (std::uint32_t name = 0; name < shut_by.size(); ++name) {
    if (name == name_ || shut_by[name] == 0) continue;
    if (!has_left(name) && !is_abandoned(name)) continue;
    joiner_.heartbeat->confirm();
    doors_.open(name);
  }
}

Result<std::uint32_t> Registration::take_entry() const {
  const auto entries = table_.entries();
  for (const NodeTable::Entry& entry : entries) {
    if (!entry.taken() && table_.take_free_entry(joiner_, entry.node)) return entry.node;
  }
  if (const auto node = take_unneeded(entries)) return *node;
  return fail(ErrorCode::no_slots,
              "all {} nodes of pool {} are taken: by hosts with attached processes, or with dead "
              "ones whose caches must be flushed; see which: penstock pool info {}; if a host is "
              "gone for good: penstock pool gc {} --host-is-gone NAME; or recreate the pool: "
              "penstock pool create {} --nodes {} --overwrite",
              superblock_.max_nodes, joiner_.spec, base::shell_quote(joiner_.spec),
              base::shell_quote(joiner_.spec), base::shell_quote(joiner_.spec),
              std::min(superblock_.max_nodes * 2, max_nodes));
}

/// Takes the oldest entry of a host that has no process here and nothing to flush.
std::optional<std::uint32_t> Registration::take_unneeded(
    const std::vector<NodeTable::Entry>& entries) const {
  const auto needed = nodes_of_owners(joiner_.processes);
  if (!needed) return std::nullopt;
  std::vector<NodeTable::Entry> others;
  for (const NodeTable::Entry& entry : entries) {
    if (entry.registered() && needed->count(entry.node) == 0) others.push_back(entry);
  }
  std::sort(others.begin(), others.end(), [](const auto& a, const auto& b) {
    return a.line.registered_wall_ns < b.line.registered_wall_ns;
  });
  for (const NodeTable::Entry& entry : others) {
    if (joiner_.must_flush(entry.node)) continue;
    if (table_.replace(joiner_, entry.node, entry.line)) return entry.node;
  }
  return std::nullopt;
}

/// The word at the door comes first: a process that finds the visit over and this id there opens
/// it.
void Registration::give_back() const {
  joiner_.heartbeat->confirm();
  doors_.leave(name_, id_);
  // once: another process may use the line by the next beat
  joiner_.heartbeat->replace([visit = visit_, over = false]() mutable {
    if (!std::exchange(over, true)) visit->leave();
  });
  joiner_.heartbeat.reset();
}

}  // namespace penstock::pool

#include "persist/recovery.hpp"

#include <algorithm>
#include <optional>
#include <unordered_set>

#include "base/checked.hpp"
#include "base/env.hpp"
#include "base/format.hpp"
#include "base/log.hpp"
#include "persist/lane.hpp"
#include "pool/members.hpp"
#include "pool/reclaim.hpp"

namespace penstock::persist {

namespace {

/// An entry, and the object whose old bytes it holds.
struct Kept {
  Entry entry;
  arena::Object object;
};

std::string how_to_discard(const arena::Arena& arena) {
  return fmt::format(
      "discard the log, then restore its objects from a copy: penstock pool gc {} "
      "--discard-damaged-logs",
      base::shell_quote(arena.pool().info().spec));
}

/// Returns the entries whose objects still exist.
Result<std::vector<Kept>> kept_of(arena::Arena& arena, const Lane& lane, std::uint64_t transaction,
                                  const std::string& name) {
  const auto entries = lane.entries(transaction);
  if (!entries)
    return fail(entries.error().code,
                "log \"{}\" of pool {}: {}; its objects are as the process left them: {}", name,
                arena.pool().info().spec, entries.error().message, how_to_discard(arena));
  std::vector<Kept> kept;
  for (const Entry& entry : *entries) {
    const auto object = arena.find(entry.header.slot, entry.header.generation);
    if (!object) continue;
    const std::uint64_t room = base::align_up(object->bytes, line_bytes);
    if (!base::range_inside(entry.header.offset, entry.header.bytes, room) ||
        entry.header.offset % line_bytes != 0)
      return fail(
          ErrorCode::wrong_format,
          "log \"{}\" of pool {}: {} bytes from {} on do not lie in object \"{}\" of {}; {}", name,
          arena.pool().info().spec, entry.header.bytes, entry.header.offset, object->name,
          object->bytes, how_to_discard(arena));
    kept.push_back({entry, *object});
  }
  return kept;
}

/// Asks for all objects, so that one flush of the node serves all.
Result<bool> are_flushed(arena::Arena& arena, const std::vector<Kept>& kept, std::uint32_t node) {
  bool flushed = true;
  for (const Kept& each : kept)
    flushed = PENSTOCK_TRY(arena.is_flushed(each.object, node)) && flushed;
  return flushed;
}

/// Restores the data first: while the log says that a transaction is under way, the next process
/// repeats the undoing.
Result<void> undo(arena::Arena& arena, const Device& device, Lane& lane, std::uint64_t transaction,
                  const std::vector<Kept>& kept) {
  for (auto each = kept.rbegin(); each != kept.rend(); ++each)
    lane.restore(each->entry, each->object);
  device.full_fence();
  for (const Kept& each : kept) {
    PENSTOCK_TRY(
        device.sync(each.object.offset + each.entry.header.offset, each.entry.header.bytes));
    PENSTOCK_TRY(arena.forget_flush(each.object));
  }
  lane.set(Lane::State::idle, transaction);
  device.full_fence();
  return lane.sync_state();
}

}  // namespace

Result<bool> roll_back(arena::Arena& arena, const WriterLine& writer) {
  pool::Pool& pool = arena.pool();
  if (writer.owner == 0 || pool.alive(writer.owner)) return true;
  pool.reclaim().record_known_deaths();
  const std::string name = log_name(writer);
  const auto log = arena.open(name);
  if (!log && log.error().code == ErrorCode::not_found) return true;
  if (!log) return unexpected(log.error());
  if (log->bytes < pair_bytes + line_bytes)
    return fail(ErrorCode::wrong_format,
                "log \"{}\" of pool {} has {} bytes, which no undo log has: {}", name,
                pool.info().spec, log->bytes, how_to_discard(arena));
  const auto device = PENSTOCK_TRY(Device::of(pool));
  Lane lane(device, *log, pool.info().id);
  const auto transaction = lane.active();
  if (!transaction) return true;
  const auto kept = PENSTOCK_TRY(kept_of(arena, lane, *transaction, name));
  const auto node = static_cast<std::uint32_t>(std::min<std::uint64_t>(writer.node, UINT32_MAX));
  if (!PENSTOCK_TRY(are_flushed(arena, kept, node))) return false;
  PENSTOCK_TRY(undo(arena, device, lane, *transaction, kept));
  base::log(base::Level::info, "pool {}: a transaction of {} was undone: {} pieces of objects",
            pool.info().spec, pool.describe(writer.owner), kept.size());
  return true;
}

Result<bool> end_dead_writer(arena::Arena& arena, const Writers& writers,
                             const arena::Object& object, const ObjectVersion::State& state) {
  if (state.owner == 0) return true;
  const WriterLine writer = writers.read(
      static_cast<std::uint32_t>(std::min<std::uint64_t>(state.writer, writers.count())));
  if (writer.owner != state.owner) return true;  // its log was undone and removed
  if (!arena.pool().alive(state.owner)) return roll_back(arena, writer);
  return fail(
      ErrorCode::unavailable,
      "object \"{}\" of pool {} is written by {}: an object has one writer, until that process "
      "gives it back or ends",
      object.name, arena.pool().info().spec, arena.pool().describe(state.owner));
}

namespace {

/// Another process may be doing the same.
Result<void> destroy_if_there(arena::Arena& arena, const arena::Object& object) {
  auto destroyed = arena.destroy(object);
  if (!destroyed && destroyed.error().code == ErrorCode::not_found) return {};
  return destroyed;
}

}  // namespace

/// Otherwise its writer would go on writing to memory that has another owner.
Result<void> destroy(arena::Arena& arena, const arena::Object& object) {
  std::optional<ObjectVersion> version;
  const auto check_no_writer = [&]() -> Result<void> {
    version = PENSTOCK_TRY(ObjectVersion::find(arena, object));
    if (!version) return {};
    const auto state = version->read();
    const bool idle_here = state.owner == arena.pool().token() && !state.changing();
    if (state.owner == 0 || idle_here || !arena.pool().alive(state.owner)) return {};
    return fail(ErrorCode::unavailable,
                "object \"{}\" of pool {} is written by {}: it can be destroyed once that process "
                "has ended its transaction and given the object back (penstock_tx_release)",
                object.name, arena.pool().info().spec, arena.pool().describe(state.owner));
  };
  PENSTOCK_TRY(arena.destroy(object, 0, check_no_writer));
  const auto held_in = version ? version->held_in(arena) : std::nullopt;
  return held_in ? destroy_if_there(arena, *held_in) : Result<void>();
}

Result<void> set_lifetime(arena::Arena& arena, const arena::Object& object,
                          arena::Lifetime lifetime) {
  const bool mortal = lifetime == arena::Lifetime::process;
  if (mortal && PENSTOCK_TRY(ObjectVersion::find(arena, object)))
    return fail(ErrorCode::invalid_argument,
                "object \"{}\" of pool {} was changed by transactions, and would end with this "
                "process: leave it of lifetime pool or persistent",
                object.name, arena.pool().info().spec);
  return arena.set_lifetime(object, lifetime);
}

Error not_flushed(const arena::Arena& arena, const arena::Object& object,
                  const ObjectVersion::State& state) {
  const std::string spec = base::shell_quote(arena.pool().info().spec);
  const auto node = arena.pool().members().node_of(state.owner);
  return {ErrorCode::unavailable,
          fmt::format("object \"{}\" of pool {} was being changed by {}, which is dead: it is "
                      "restored when that host has flushed its caches; on it, run: penstock pool "
                      "gc {} --yes (if it never comes back: penstock pool gc {} --host-is-gone {})",
                      object.name, spec, arena.pool().describe(state.owner), spec, spec,
                      node ? std::to_string(*node) : "NAME")};
}

namespace {

/// Removes the log of a dead process that has no transaction under way.
Result<void> give_back(arena::Arena& arena, const Writers& writers, std::uint32_t number,
                       const WriterLine& writer) {
  if (const auto log = arena.open(log_name(writer))) PENSTOCK_TRY(destroy_if_there(arena, *log));
  const auto guard = PENSTOCK_TRY(arena.pool().lock());
  if (writers.read(number).owner == writer.owner) writers.erase(number);
  return {};
}

Result<void> recover_one(arena::Arena& arena, const Writers& writers, std::uint32_t number,
                         const WriterLine& writer, DamagedLogs damaged, Recovered& recovered) {
  Result<bool> undone = false;
  {
    const auto guard = PENSTOCK_TRY(arena.pool().lock());
    undone = roll_back(arena, writer);
  }
  const bool is_damaged = !undone && undone.error().code == ErrorCode::wrong_format;
  if (is_damaged && damaged == DamagedLogs::discard) {
    PENSTOCK_TRY(give_back(arena, writers, number, writer));
    recovered.discarded.push_back(log_name(writer));
    return {};
  }
  if (!undone) return unexpected(undone.error());
  if (!*undone) {
    recovered.waiting.push_back(
        {static_cast<std::uint32_t>(writer.node), arena.pool().describe(writer.owner)});
    return {};
  }
  PENSTOCK_TRY(give_back(arena, writers, number, writer));
  ++recovered.logs;
  return {};
}

Result<Recovered> recover_all(arena::Arena& arena, DamagedLogs damaged) {
  Recovered recovered;
  const auto writers = PENSTOCK_TRY(Writers::find(arena));
  if (!writers || arena.pool().token() == 0) return recovered;
  const std::vector<WriterLine> lines = writers->all();
  std::optional<Error> first;
  for (std::uint32_t number = 0; number < lines.size(); ++number) {
    if (lines[number].owner == 0 || arena.pool().alive(lines[number].owner)) continue;
    const auto ended = recover_one(arena, *writers, number, lines[number], damaged, recovered);
    if (!ended && !first) first = ended.error();  // the others can still be undone
  }
  if (first) return unexpected(*first);
  return recovered;
}

}  // namespace

Result<Recovered> recover(arena::Arena& arena) {
  return recover_all(arena, DamagedLogs::keep);
}

Result<Recovered> collect(arena::Arena& arena, DamagedLogs damaged) {
  auto recovered = recover_all(arena, damaged);
  const std::vector<arena::Object> all = arena.list();
  // A version is made after its object, so an object that is missing from a later list was
  // destroyed.
  std::unordered_set<std::uint64_t> there;
  for (const arena::Object& object : arena.list()) there.insert(object.generation);
  for (const arena::Object& object : all) {
    const auto generation = ObjectVersion::generation_in(object.name);
    const bool is_version = generation && object.bytes == ObjectVersion::object_bytes;
    if (is_version && !there.contains(*generation)) PENSTOCK_TRY(destroy_if_there(arena, object));
  }
  return recovered;
}

}  // namespace penstock::persist

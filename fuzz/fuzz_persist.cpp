// The lines that transactions and checkpoints read (pairs of lines, entries, the table of writers),
// with right checksums or not, read by recovery, readers, undo logs and checkpoints.
#include <cstring>
#include <string>
#include <vector>

#include "fuzz/frozen_arena.hpp"
#include "persist/checkpoint.hpp"
#include "persist/reader.hpp"
#include "persist/recovery.hpp"
#include "persist/undo_log.hpp"

namespace penstock::fuzz {
namespace {

using namespace penstock::persist;

constexpr std::uint64_t object_bytes = 2048;

struct World : FrozenArena {
  explicit World(coherence::Mode mode) : FrozenArena(mode), object(make("object", object_bytes)) {
    need(Checkpoint::create(*arena, "saved", 8192, arena::Lifetime::pool));
    leave_half_done();
    for (const auto& each : arena->list()) {
      if (each.name == "object") continue;
      kept.push_back(each);
    }
    frozen.freeze();
  }

  /// Leaves what a process leaves that ended within a transaction.
  void leave_half_done() {
    auto attached = pool::Pool::attach({.spec = frozen.spec(), .rank = 8});
    need(attached);
    auto its_arena = arena::Arena::open(**attached);
    need(its_arena);
    auto opened = UndoLog::open(**its_arena, UndoLog::min_bytes);
    need(opened);
    // As if killed: never closed nor destroyed, not even at the end of the program.
    static auto* const left = new std::vector<std::pair<arena::Arena*, UndoLog*>>;
    UndoLog& log = **opened;
    need(log.begin());
    const auto found = (*its_arena)->open("object");
    need(found);
    for (const std::uint64_t at : {0, 512, 1024}) need(log.add(*found, at, 256));
    std::memset(found->data, 7, object_bytes);
    left->emplace_back(its_arena->release(), opened->release());
  }

  arena::Object object;
  std::vector<arena::Object> kept;
};

std::uint64_t key(const World& world, const arena::Object& object, Kind kind) {
  return key_of(world.frozen.pool().info().id, object.generation, kind);
}

/// Changes words of a line; computes the right checksum for one of its kinds.
template <class Line>
void forge(std::byte* at, Input& input, std::uint64_t with_key, std::uint64_t bound) {
  Line line;
  std::memcpy(&line, at, sizeof line);
  for (int changes = input.byte() & 3; changes > 0; --changes) {
    const std::uint64_t lie = input.lie(bound);
    std::memcpy(reinterpret_cast<std::byte*>(&line) + 8 * input.below(7), &lie, 8);
  }
  if (input.flag()) line.checksum = checksum_of(line, with_key);
  std::memcpy(at, &line, sizeof line);
}

void forge_entry(const World& world, const arena::Object& log, std::byte* at, Input& input) {
  forge<EntryHeader>(at, input, 0, log.bytes);
  EntryHeader header;
  std::memcpy(&header, at, sizeof header);
  const auto room = static_cast<std::uint64_t>(log.data + log.bytes - at) - sizeof header;
  if (header.bytes > room) return;
  header.checksum = checksum_of(
      header, base::xxh64(at + sizeof header, header.bytes, key(world, log, Kind::entry)));
  std::memcpy(at, &header, sizeof header);
}

void forge_one(World& world, Input& input) {
  const arena::Object& object = world.kept[input.below(world.kept.size())];
  const std::uint64_t lines = object.bytes / 64;
  const std::uint64_t number = input.flag() ? input.below(4) : 64 * input.below(3);
  std::byte* at = object.data + 64 * std::min(number, lines - 1);
  if (object.name == "penstock.writers") {
    const std::uint64_t index = static_cast<std::uint64_t>(at - object.data) / 64;
    return forge<WriterLine>(at, input, key(world, object, Kind::writer) + index, 16);
  }
  if (object.name.starts_with("penstock.version."))
    return forge<PairLine>(at, input, key(world, object, Kind::version), 100);
  if (object.name == "saved")
    return forge<PairLine>(at, input, key(world, object, Kind::checkpoint), 100);
  if (static_cast<std::uint64_t>(at - object.data) >= pair_bytes || input.flag()) {
    const std::uint64_t entry = pair_bytes + (64 + 256) * input.below(3);
    return forge_entry(world, object, object.data + entry, input);
  }
  forge<PairLine>(at, input, key(world, object, Kind::log), 5);
}

template <class T>
void told(const Result<T>& result) {
  if (!result) expect(is_told(result.error()));
}

void use_log(World& world, arena::Arena& arena, Input& input) {
  const auto log = UndoLog::open(arena, UndoLog::min_bytes);
  told(log);
  if (!log) return;
  told((*log)->begin());
  told((*log)->add(world.object, input.lie(object_bytes), input.lie(object_bytes)));
  told((*log)->add(world.object, 64, 64));
  told(input.flag() ? (*log)->commit() : (*log)->abort());
}

void use_checkpoint(arena::Arena& arena, Input& input) {
  auto saved = Checkpoint::open(arena, "saved");
  told(saved);
  if (!saved) return;
  std::byte bytes[100] = {};
  const auto valid = saved->valid();
  told(valid);
  if (valid) told(saved->read(valid->version, bytes, input.lie(saved->bytes()), sizeof bytes));
  told(saved->begin());
  told(saved->write(input.lie(saved->bytes()), bytes, sizeof bytes));
  told(saved->commit(1));
}

void use(World& world, Input& input) {
  arena::Arena& arena = *world.arena;
  switch (input.below(4)) {
    case 0:
      return told(recover(arena));
    case 1: {
      auto reader = Reader::open(arena, world.object);
      std::byte bytes[object_bytes];
      told(reader);
      if (reader) told(reader->read(bytes, input.lie(object_bytes), 64));
      return;
    }
    case 2:
      return use_log(world, arena, input);
    default:
      return use_checkpoint(arena, input);
  }
}

}  // namespace
}  // namespace penstock::fuzz

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace penstock::fuzz;
  Input input(data, size);
  World& world = fresh<World>(choose_mode(input));
  for (auto forgeries = input.below(10); forgeries > 0; --forgeries) forge_one(world, input);
  for (int uses = 0; uses < 6 && !input.empty(); ++uses) use(world, input);
  return 0;
}

// The calls of an arena's users, on a pool whose arena holds arbitrary bytes: open, list, create,
// destroy, figures, and the janitor's work. Lines get right checksums, or not.
#include <cstring>
#include <string>
#include <vector>

#include "arena/formatting.hpp"
#include "arena/name_table.hpp"
#include "arena/space.hpp"
#include "fuzz/frozen_arena.hpp"

namespace penstock::fuzz {
namespace {

using namespace penstock::arena;

constexpr int objects = 8;

std::string name_of(std::uint64_t i) {
  return fmt::format("object-{}", i);
}

struct World : FrozenArena {
  explicit World(coherence::Mode mode)
      : FrozenArena(mode), region(frozen.pool().memory(), frozen.base()) {
    const pool::Info& info = frozen.pool().info();
    for (std::uint64_t i = 0; i < objects; ++i) {
      make(name_of(i), 1000 + 64 * i,
           {.lifetime = i % 2 == 0 ? Lifetime::pool : Lifetime::process});
    }
    leave_some();
    const auto read = read_format(region, {info.id, info.arena_offset, info.arena_bytes});
    need(read);
    formatted = **read;
    const ExtentReader reader(region, formatted.geometry, formatted.key);
    need(reader.for_each([&](const ExtentHeader& e) { extents.push_back(e.offset); }));
    for (const Object& object : arena->list()) slots.push_back(object.slot);
    frozen.freeze();
  }

  /// Leaves objects as a process does that ended before its objects could be freed, for the
  /// janitor.
  void leave_some() {
    auto attached = pool::Pool::attach({.spec = frozen.spec(), .rank = 8, .job = "gone"});
    need(attached);
    pool::Pool& leaver = **attached;
    const auto its_arena = Arena::open(leaver);
    need(its_arena);
    for (std::uint64_t i = objects; i < objects + 2; ++i) {
      const auto object =
          (*its_arena)->create(name_of(i), 1000 + 64 * i, {.lifetime = Lifetime::process});
      need(object);
      (*its_arena)->defer_reclaim(*object);
    }
    gone = leaver.token();
  }

  std::uint64_t gone = 0;
  Region region;
  Formatted formatted;
  std::vector<std::uint64_t> extents;
  std::vector<std::uint32_t> slots;
};

template <class Line>
Line lied(const std::byte* at, Input& input, std::uint64_t bound) {
  Line line;
  std::memcpy(&line, at, sizeof line);
  for (int changes = input.byte() & 3; changes > 0; --changes) {
    const std::uint64_t lie = input.lie(bound);
    std::memcpy(reinterpret_cast<std::byte*>(&line) + 4 * input.below(sizeof line / 4 - 1), &lie,
                input.flag() ? 4 : 8);
  }
  return line;
}

void forge_extent(World& world, Input& input) {
  const std::uint64_t at = world.extents[input.below(world.extents.size())];
  auto extent = lied<ExtentHeader>(world.region.at(at), input, world.frozen.bytes());
  if (input.flag()) extent.owner = input.flag() ? world.gone : world.frozen.pool().token();
  extent.checksum = line_checksum(extent, world.formatted.key);
  std::memcpy(world.region.at(at), &extent, sizeof extent);
}

void forge_slot(World& world, Input& input) {
  const std::uint32_t index = world.slots[input.below(world.slots.size())];
  std::byte* at = world.region.at(world.formatted.geometry.slot_offset(index));
  auto slot = lied<Slot>(at, input, world.frozen.bytes());
  slot.entry.checksum = slot_checksum(slot, index, world.formatted.key);
  std::memcpy(at, &slot, sizeof slot);
}

void forge_moving(World& world, Input& input) {
  std::byte* at = world.region.at(world.formatted.geometry.moving_offset());
  auto moving = lied<Moving>(at, input, world.frozen.bytes());
  moving.checksum = line_checksum(moving, world.formatted.key);
  std::memcpy(at, &moving, sizeof moving);
}

void forge_anything(World& world, Input& input) {
  const std::uint64_t at = world.formatted.geometry.arena_offset + 8 * input.below(1024);
  const std::uint64_t lie = input.lie(world.frozen.bytes());
  std::memcpy(world.region.at(at), &lie, 8);
}

void check(const World& world, const Object& object) {
  expect(world.frozen.pool().at(object.offset, object.bytes) == object.data);
  expect(object.name.size() <= max_name_bytes && !object.name.empty());
}

template <class T>
void told(const Result<T>& result) {
  if (!result) expect(is_told(result.error()));
}

void use(World& world, Arena& arena, Input& input) {
  switch (input.below(6)) {
    case 0:
      for (const Object& object : arena.list()) check(world, object);
      return;
    case 1: {
      const auto object = arena.open(name_of(input.below(objects)));
      told(object);
      if (object) check(world, *object);
      if (object && input.flag()) told(arena.destroy(*object));
      return;
    }
    case 2: {
      const CreateOptions options{.lifetime = input.flag() ? Lifetime::pool : Lifetime::process,
                                  .alignment = 64ull << input.below(16),
                                  .zero = input.flag(),
                                  .open_existing = input.flag()};
      const auto object =
          arena.create(name_of(input.below(2 * objects)), input.lie(64 << 10) % (1 << 17), options);
      told(object);
      if (object) check(world, *object);
      return;
    }
    case 3: {
      const Stats stats = arena.stats();
      expect(stats.bytes_used <= stats.bytes_total);
      return;
    }
    default:
      told(arena.collect(input.flag()));
  }
}

}  // namespace
}  // namespace penstock::fuzz

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace penstock;
  using namespace penstock::fuzz;
  Input input(data, size);
  World& world = fresh<World>(choose_mode(input));
  for (auto forgeries = input.below(12); forgeries > 0; --forgeries) {
    switch (input.below(4)) {
      case 0:
        forge_slot(world, input);
        break;
      case 1:
        forge_moving(world, input);
        break;
      case 2:
        forge_anything(world, input);
        break;
      default:
        forge_extent(world, input);
        break;
    }
  }
  auto arena = arena::Arena::open(world.frozen.pool());
  if (!arena) {
    expect(is_told(arena.error()));
    return 0;
  }
  for (int uses = 0; uses < 12 && !input.empty(); ++uses) use(world, **arena, input);
  return 0;
}

// Names and space without a pool around them: nodes take turns, as under the pool's lock, and die
// in the middle of a line, also of lines that repair what earlier dead processes left.
#include <gtest/gtest.h>

#include <array>
#include <memory>
#include <set>
#include <vector>

#include "arena/formatting.hpp"
#include "arena/name_table.hpp"
#include "arena/space.hpp"
#include "sim/tests/expect_held.hpp"
#include "sim/world/explore.hpp"

namespace penstock::sim {
namespace {

using namespace penstock::arena;

constexpr Placement placement{.pool_id = 7, .arena_offset = 4096, .arena_bytes = 512 << 10};
constexpr std::uint32_t turns = 4;

/// The running process dies in one of the next lines that it publishes, usually with its node.
void die_soon(World& world, std::uint64_t lines, std::uint64_t first = 1) {
  Process& self = world.self();
  self.publishes = 0;
  self.dies_after_publish = first + world.random() % lines;
  self.dies_with_node = world.random() % 4 != 0;
}
void live(World& world) {
  world.self().dies_after_publish = 0;
}

/// Each process begins on the next node when the previous one has ended; the last one never dies.
template <class Turn>
void spawn_turns(World& world, Turn turn, std::uint32_t count = turns,
                 std::uint32_t nodes = turns) {
  for (std::uint32_t i = 0; i < count; ++i) {
    world.spawn(i % nodes, [&world, turn, i] {
      const auto gone = [&world, i] {
        return i == 0 || world.processes()[i - 1]->dead || world.processes()[i - 1]->ended;
      };
      while (!gone()) world.sleep(1'000'000);
      turn(i);
      live(world);
      world.memory().full_fence();  // as the lock does at its release
    });
  }
}

Scenario in_turns(const std::string& name) {
  Scenario scenario;
  scenario.name = name;
  scenario.nodes = turns;
  scenario.faults.tear = 500;
  scenario.faults.deliver = 60;
  return scenario;
}

/// The arena as a process opens it under the lock.
class Opened {
 public:
  explicit Opened(World& world)
      : world_(world),
        region_(world.memory(), world.base()),
        formatted_(read_or_format()),
        names_(region_, formatted_.geometry, formatted_.key),
        flushes_(world.memory(), world.base(), 0, turns),
        space_(begin()) {}

  /// As Arena::create.
  void create(const std::string& name) {
    const auto lookup = names_.find(name);
    if (lookup.found || !lookup.first_free) return;
    SpaceRequest request;
    request.bytes = 100;
    request.alignment = world_.random() % 2 == 0 ? 64 : 512;
    request.slot = *lookup.first_free;
    const auto extent = space_.allocate(request);
    world_.require(extent.has_value(), extent ? "" : extent.error().message);
    SlotEntry entry{};
    entry.offset = extent->offset + line_bytes;
    entry.bytes = request.bytes;
    entry.generation = extent->generation;
    names_.put(*lookup.first_free, name, entry);
  }
  /// As Arena::destroy.
  void destroy(const std::string& name) {
    const auto found = names_.find(name).found;
    if (!found) return;
    names_.remove(found->index);
    const auto extent = space_.peek(found->slot.entry.offset - line_bytes);
    world_.require(extent && extent->generation == found->slot.entry.generation,
                   "a name has lost its space");
    space_.free(*extent);
  }
  /// As Arena::reclaim; then each name must have its space, and each used extent its name.
  void recover() {
    std::vector<ExtentHeader> used;
    const auto walked = space_.for_each([&](const ExtentHeader& extent) {
      if (extent.state == ExtentState::used) used.push_back(extent);
    });
    world_.require(walked.has_value(), walked ? "" : walked.error().message);
    std::set<std::string> reachable, listed;
    for (auto extent = used.rbegin(); extent != used.rend(); ++extent) {
      const auto slot = names_.read(extent->slot);
      if (slot && slot->entry.offset == extent->offset + line_bytes &&
          slot->entry.generation == extent->generation) {
        reachable.emplace(slot->name_view());
      } else {
        space_.free(*extent);
      }
    }
    names_.for_each([&](const TableEntry& entry) { listed.emplace(entry.slot.name_view()); });
    world_.require(listed == reachable, "a name without space");
  }
  void require_one_piece() {
    SpaceRequest all;
    all.bytes = formatted_.geometry.extents_end - formatted_.geometry.extents_start - line_bytes;
    world_.require(space_.allocate(all).has_value(), "the free space is not one piece again");
  }

 private:
  Formatted read_or_format() {
    auto found = read_format(region_, placement);
    world_.require(found.has_value(), found ? "" : found.error().message);
    if (*found) return **found;
    auto made = format(region_, placement);
    world_.require(made.has_value(), made ? "" : made.error().message);
    return *made;
  }
  Space begin() {
    auto begun = Space::begin(region_, formatted_.geometry, formatted_.key, flushes_);
    world_.require(begun.has_value(), begun ? "" : begun.error().message);
    return *begun;
  }

  World& world_;
  Region region_;
  Formatted formatted_;
  NameTable names_;
  pool::FlushTable flushes_;
  Space space_;
};

/// Each process may die in one phase of its turn; what it finds must be whole in any case.
void work(World& world, std::uint32_t turn) {
  constexpr std::uint64_t lines_of_a_phase = 10;
  const auto phase = turn + 1 < turns ? world.random() % 4 : ~0ull;
  if (phase == 0) die_soon(world, lines_of_a_phase);
  Opened opened(world);
  opened.recover();
  live(world);
  if (phase == 1) die_soon(world, lines_of_a_phase);
  opened.create("a");
  if (phase == 2) die_soon(world, lines_of_a_phase);
  opened.create("b");
  if (phase == 3) die_soon(world, lines_of_a_phase);
  opened.destroy("a");
  opened.destroy("b");
  opened.recover();
  if (turn + 1 == turns) opened.require_one_piece();
}

TEST(ArenaDeaths, ARepairerMayDieAsWell) {
  Scenario scenario = in_turns("arena, deaths of those who fix");
  scenario.body = [](World& world) {
    spawn_turns(world, [&world](std::uint32_t turn) { work(world, turn); });
  };
  expect_held("arena", "deaths within a line", explore(scenario, 600));
}

/// Only the line to which a rewrite has come, torn by the dead process and again by the one that
/// repairs it.
TEST(ArenaDeaths, SecondReclaimerRepairsHeaderIfFirstDies) {
  Scenario scenario = in_turns("arena, a header is torn twice");
  scenario.faults.tear = 900;
  scenario.body = [](World& world) {
    spawn_turns(world, [&world](std::uint32_t turn) {
      if (turn == 1 || turn == 2) die_soon(world, turn == 1 ? 8 : 2);
      Opened opened(world);
      opened.recover();
      opened.create("a");
      if (turn != 1) live(world);
      if (turn == 0) return;
      opened.destroy("a");
      opened.recover();
      if (turn + 1 == turns) opened.require_one_piece();
    });
  };
  expect_held("arena", "deaths within a line", explore(scenario, 1200));
}

/// A process that rewrote or repaired a header must keep no dirty line of the journal, which could
/// overwrite a later one: here its own next read of the journal would write it back, after the
/// other node's death.
TEST(ArenaDeaths, OldJournalNeverOverwritesLaterOne) {
  Scenario scenario = in_turns("arena, an old journal");
  scenario.swarm = false;
  scenario.faults.evict = scenario.faults.prefetch = 0;
  scenario.faults.tear = 900;
  scenario.faults.lazy_store_fence = false;  // what is stored after it stays behind the publish
  scenario.body = [](World& world) {
    const auto take_turn = [&world](std::uint32_t turn) {
      const bool dies = turn % 2 == 1;
      Opened opened(world);
      if (turn == 0) {
        opened.create("a");
        opened.create("b");
      } else if (dies) {
        die_soon(world, 3, 3);  // about where the header is published
        opened.destroy("a");
        opened.create("a");
      } else if (turn == 4) {
        opened.recover();
        opened.destroy("a");
        opened.destroy("b");
        opened.require_one_piece();
      }
    };
    spawn_turns(world, take_turn, 5, 2);
  };
  expect_held("arena", "deaths within a line", explore(scenario, 1800));
}

/// An object that was absent after a death stays absent.
TEST(ArenaDeaths, EntryWithoutNameStaysInvalid) {
  Scenario scenario = in_turns("arena, one name put by one after another");
  scenario.body = [](World& world) {
    auto least = std::make_shared<std::uint64_t>(0);
    spawn_turns(world, [&world, least](std::uint32_t turn) {
      const Region region(world.memory(), world.base());
      const auto geometry = Geometry::choose(placement.arena_offset, placement.arena_bytes);
      world.require(geometry.has_value(), "no geometry");
      const NameTable names(region, *geometry, 1);
      const auto lookup = names.find("a");
      const auto& found = lookup.found;
      world.require(!found || found->slot.entry.generation >= *least,
                    "an erased entry became valid again");
      *least = found ? found->slot.entry.generation : turn + 1;
      SlotEntry entry{};
      entry.offset = geometry->extents_start + line_bytes;
      entry.bytes = 64;
      entry.generation = turn + 1;
      if (turn + 1 < turns) die_soon(world, 2);
      names.put(found ? found->index : *lookup.first_free, "a", entry);
    });
  };
  expect_held("arena", "deaths within a line", explore(scenario, 1200));
}

/// An interrupted formatting is not damage: the next process formats again.
TEST(ArenaDeaths, AFormattingCutShortIsDoneAnew) {
  Scenario scenario = in_turns("arena, formatted by one after another");
  scenario.body = [](World& world) {
    spawn_turns(world, [&world](std::uint32_t turn) {
      if (turn + 1 < turns) die_soon(world, 8);
      const Opened arena(world);
    });
  };
  expect_held("arena", "deaths within a line", explore(scenario, 2000));
}

/// Either the header or its copy is damaged later.
TEST(ArenaDeaths, TheHeaderAndItsCopyEachSuffice) {
  Scenario scenario = in_turns("arena, a header is damaged");
  scenario.body = [](World& world) {
    const bool copy = world.random() % 2 == 0;
    spawn_turns(world, [&world, copy](std::uint32_t turn) {
      const Region region(world.memory(), world.base());
      if (turn == 0) {
        const auto made = format(region, placement);
        world.require(made.has_value(), "not formatted");
      } else if (turn == 1) {
        const std::array<std::uint64_t, 8> damage{1, 2, 3};
        region.publish_line(placement.arena_offset + (copy ? line_bytes : 0), damage.data());
      } else {
        const auto found = read_format(region, placement);
        world.require(found && *found, found ? "not formatted" : found.error().message);
      }
    });
  };
  expect_held("arena", "random schedules", explore(scenario, 60));
}

}  // namespace
}  // namespace penstock::sim

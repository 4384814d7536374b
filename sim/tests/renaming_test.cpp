// Renaming on memory without coherence: contenders that meet at doors, old copies of the doors, and
// deaths at any operation.
#include <gtest/gtest.h>

#include <map>
#include <memory>
#include <set>
#include <vector>

#include "sim/tests/expect_held.hpp"
#include "sim/tests/lasting_copies.hpp"
#include "sim/tests/late_stores.hpp"
#include "sim/tests/lock_lines.hpp"
#include "sim/world/explore.hpp"
#include "sync/sync.hpp"

namespace penstock::sim::renaming_test {
namespace {

/// Facts about the doors that the registration lock and the lines of names show.
struct Doors {
  Process* opener = nullptr;
  std::set<std::uint32_t> held;
  std::map<std::uint32_t, std::uint64_t> left;  ///< by door, the id of the last one that left
};

/// As a process does that holds the registration lock.
void open_doors(World& world, const sync::Renaming& renaming, Doors& doors) {
  world.until([&] { return doors.opener == nullptr || doors.opener->dead; });
  doors.opener = &world.self();
  const auto shut_by = renaming.shut_by();
  for (const auto& [door, id] : doors.left) {
    if (shut_by[door] == id) renaming.open(door);
  }
  world.memory().full_fence();
  doors.opener = nullptr;
}

/// Each comes `times` times, and opens the doors of those that have left before. `fetches`: its
/// node loads the words of the doors all the time, as processors do ahead of need.
Scenario renaming_scenario(std::uint32_t contenders, std::uint32_t count, int times,
                           bool fetches = false) {
  Scenario scenario;
  scenario.name = fmt::format("renaming, {} contenders at {} doors", contenders, count);
  scenario.nodes = contenders;
  scenario.device_bytes = 64 << 10;
  scenario.body = [=](World& world) {
    auto doors = std::make_shared<Doors>();
    auto left = std::make_shared<std::uint32_t>(contenders);
    for (std::uint32_t self = 0; self < contenders; ++self) {
      Process& process = world.spawn(self, [&world, count, times, self, doors, left] {
        const sync::Renaming renaming(world.memory(), line(world, 0), count);
        for (int time = 0; time < times; ++time) {
          open_doors(world, renaming, *doors);
          const std::uint64_t id = 77 + 100 * self + static_cast<std::uint64_t>(time);
          const auto door = renaming.claim(id);
          if (!door) continue;  // contenders that met have shut them
          world.require(doors->held.insert(*door).second, "two contenders hold the same number");
          world.memory().full_fence();
          doors->held.erase(*door);
          renaming.leave(*door, id);
          doors->left[*door] = id;
        }
        --*left;
      });
      if (self == 0 && !fetches) world.mark_victim(process);
      if (!fetches) continue;
      world.spawn(self, [&world, count, left] {
        while (*left != 0)
          (void)world.memory().load_word(
              line(world, 0) +
              world.random() % (sync::Renaming::bytes(count) / line_bytes) * line_bytes);
      });
    }
  };
  return scenario;
}

TEST(Renaming, NobodyIsThroughADoorThatIsHeld) {
  expect_held("renaming", "random schedules", explore(renaming_scenario(2, 1, 3), 300));
  expect_held("renaming", "random schedules", explore(renaming_scenario(3, 2, 3), 300));
  expect_held("renaming", "random schedules", explore(renaming_scenario(5, 16, 2), 200));
}

/// Those that leave say so at once, although others may still be on their way through the door.
TEST(Renaming, HoldsWhenStoresArriveLate) {
  for (const std::uint32_t contenders : {2u, 3u}) {
    Scenario scenario = with_late_stores(renaming_scenario(contenders, contenders - 1, 6));
    expect_held("renaming", "late stores", explore(scenario, 200));
    scenario.faults.hold_unordered = false;
    expect_held("renaming", "late stores", explore(scenario, 200));
  }
}

/// One that met the holder may have shut the door after it.
TEST(Renaming, DoorOpensAfterItsHolderLeaves) {
  Scenario scenario;
  scenario.name = "renaming, two meet";
  scenario.nodes = 2;
  scenario.device_bytes = 64 << 10;
  scenario.body = [](World& world) {
    auto returned = std::make_shared<int>(0);
    for (std::uint32_t self = 0; self < 2; ++self)
      world.spawn(self, [&world, self, returned] {
        const sync::Renaming renaming(world.memory(), line(world, 0), 1);
        const std::uint64_t id = 77 + self;
        const auto door = renaming.claim(id);
        world.memory().full_fence();
        ++*returned;
        world.until([&] { return *returned == 2; });
        if (!door) return;
        renaming.leave(*door, id);
        world.require(renaming.shut_by()[*door] == id, "it has left a door that nobody opens");
      });
  };
  expect_held("renaming", "random schedules", explore(scenario, 200));
}

TEST(Renaming, HoldsWhileNodesFetchDoors) {
  for (const std::uint32_t contenders : {2u, 3u}) {
    const Scenario scenario = renaming_scenario(contenders, contenders - 1, 6, true);
    expect_held("renaming", "random schedules", explore(scenario, 200));
    expect_held("renaming", "random schedules", explore(with_lasting_copies(scenario), 200));
  }
}

/// A node has held copies of all doors since before any contender came.
TEST(Renaming, OldCopiesOfTheDoorsDoNoHarm) {
  constexpr std::uint32_t count = 2;
  Scenario scenario;
  scenario.name = "renaming, old copies";
  scenario.device_bytes = 64 << 10;
  scenario = with_lasting_copies(scenario);
  scenario.body = [](World& world) {
    auto names = std::make_shared<std::vector<std::uint32_t>>();
    auto copied = std::make_shared<bool>(false);
    for (std::uint32_t node = 0; node < 2; ++node) {
      world.spawn(node, [&world, names, copied, node] {
        if (node == 0) {
          for (std::uint64_t at = 0; at < sync::Renaming::bytes(count); at += line_bytes) {
            (void)world.memory().load_word(world.base() + at);
          }
          *copied = true;
        }
        world.until([&] { return *copied && names->size() == 1 - node; });
        const auto name = sync::Renaming(world.memory(), line(world, 0), count).claim(77 + node);
        world.require(name.has_value(), name ? "" : name.error().message);
        names->push_back(*name);
        world.require(names->size() == 1 || names->front() != *name,
                      "two contenders have the same number");
      });
    }
  };
  expect_held("renaming", "random schedules", explore(scenario, 3));
}

TEST(Renaming, HoldsInEverySmallScheduleAndWithDeaths) {
  expect_held("renaming", "bounded schedules", exhaust(renaming_scenario(2, 1, 2), 2, 20'000));
  expect_held("renaming", "crash points", crash_everywhere(renaming_scenario(4, 16, 2), 100));
}

}  // namespace
}  // namespace penstock::sim::renaming_test

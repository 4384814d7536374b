// The tuning table in a pool without coherence: replaced while others read it, in space that is
// soon reused, by writers that die anywhere. A reader finds a whole table or none.
#include <gtest/gtest.h>

#include <memory>

#include "coll/tuning_store.hpp"
#include "sim/tests/expect_held.hpp"
#include "sim/tests/lasting_copies.hpp"
#include "sim/tests/small_pool.hpp"

namespace penstock::sim::tuning_test {
namespace {

using coll::Tuning;

/// The tables differ in every line and in length.
Tuning table_of(std::uint64_t number) {
  Tuning tuning;
  tuning.origin = fmt::format("table {}", number);
  tuning.entries.resize(2 + number % 5);
  for (auto& entry : tuning.entries) entry.min_bytes = number;
  return tuning;
}

/// The number of the pool's table; 0: there is none.
std::uint64_t number_found(World& world, const SpaceUser& user) {
  const auto found = coll::load_tuning(*user.arena);
  world.require(found.has_value(), found ? "" : found.error().message);
  if (!*found) return 0;
  const std::uint64_t number = (*found)->entries[0].min_bytes;
  world.require(**found == table_of(number), "a table of two");
  return number;
}

void store(World& world, const SpaceUser& user, std::uint64_t number) {
  const auto stored = coll::store_tuning(*user.arena, table_of(number));
  world.require(stored.has_value(), stored ? "" : stored.error().message);
}

/// Known to all by other means than the pool.
struct Known {
  std::uint64_t stored = 0;  ///< the last table that is certainly there
  std::uint64_t begun = 0;   ///< the last one that may be there
  std::uint32_t writers = 0;
  bool over = false;
};

void read_until_over(World& world, const SmallPool& pool, Known& known) {
  SpaceUser user(world, pool);
  while (!known.over) {
    const std::uint64_t least = known.stored;
    const bool was_quiet = known.begun == known.stored;
    const std::uint64_t number = number_found(world, user);
    const bool is_quiet = known.begun == least && was_quiet;
    world.require(number <= known.begun, "the table was not yet stored");
    world.require(number >= least || number == 0, "an older table replaced a newer one");
    world.require(!is_quiet || number == least, "a stored table is missing");
    world.yield();
  }
}

TEST(Tuning, IsReplacedWhileOthersRead) {
  SmallPool pool;
  Scenario scenario = pool.scenario("a tuning table is replaced", nodes);
  scenario.max_steps = 6'000'000;
  scenario.body = [&pool](World& world) {
    auto known = std::make_shared<Known>();
    world.spawn(0, [&world, &pool, known] {
      SpaceUser user(world, pool);
      for (std::uint64_t number = 1; number <= 6; ++number) {
        known->begun = number;
        store(world, user, number);
        known->stored = number;
        // The space of the last table goes to another owner.
        const auto other = user.create("other", 300);
        if (other) user.publish(*other);
        world.sleep(1'000'000);
        if (other) user.send_on_and_destroy(*other);
      }
      known->over = true;
    });
    for (std::uint32_t node = 1; node < nodes; ++node)
      world.spawn(node, [&world, &pool, known] { read_until_over(world, pool, *known); });
  };
  expect_held("tuning", "random schedules", explore(scenario, 60));
  expect_held("tuning", "random schedules", explore(with_lasting_copies(scenario), 40));
}

/// Takes all remaining space.
void fill(SpaceUser& user) {
  for (std::uint64_t bytes = 16 << 10; bytes >= 64; bytes /= 2)
    for (int i = 0; user.create(fmt::format("filler {}.{}", bytes, i), bytes); ++i) {
    }
}

/// Each table lies where the last one lay, and the readers' node holds copies of that one.
TEST(Tuning, ANewProcessFindsTheNewTable) {
  SmallPool pool;
  Scenario scenario = with_lasting_copies(pool.scenario("tuning tables in one place", nodes));
  scenario.max_steps = 6'000'000;
  scenario.body = [&pool](World& world) {
    world.spawn(0, [&world, &pool] {
      SpaceUser user(world, pool);
      for (std::uint64_t number = 5; number <= 25; number += 5) {  // all of the same length
        store(world, user, number);
        if (number == 5) fill(user);
        auto done = std::make_shared<bool>(false);
        world.spawn(1, [&world, &pool, done, number] {
          const SpaceUser reader(world, pool);
          world.require(number_found(world, reader) == number,
                        "the reader did not find the new table");
          *done = true;
        });
        wait_until(world, "the reader", [&] { return *done; });
      }
    });
  };
  expect_held("tuning", "random schedules", explore(scenario, 10));
}

/// One of them comes last.
TEST(Tuning, OfTwoWritersOneComesLast) {
  SmallPool pool;
  Scenario scenario = pool.scenario("two store a tuning table", nodes);
  scenario.max_steps = 6'000'000;
  scenario.body = [&pool](World& world) {
    auto known = std::make_shared<Known>();
    for (std::uint32_t node = 0; node < 2; ++node) {
      world.spawn(node, [&world, &pool, known, node] {
        SpaceUser user(world, pool);
        for (std::uint64_t turn = 0; turn < 3; ++turn) store(world, user, 1 + turn * 2 + node);
        ++known->writers;
        wait_until(world, "the other writer", [&] { return known->writers == 2; });
        const std::uint64_t number = number_found(world, user);
        world.require(number == 5 || number == 6, "neither of the last tables is there");
      });
    }
  };
  expect_held("tuning", "random schedules", explore(scenario, 60));
}

TEST(Tuning, DyingWriterLeavesWholeTableOrNone) {
  SmallPool pool;
  Scenario scenario = case_of(pool, "a tuner dies");
  scenario.body = [&pool](World& world) {
    auto phase = std::make_shared<int>(0);
    Process& victim = world.spawn(0, [&world, &pool, phase] {
      SpaceUser user(world, pool, "tuner");
      store(world, user, 1);
      *phase = 1;
      store(world, user, 2);
      *phase = 2;
    });
    world.mark_victim(victim);
    world.spawn(1, [&world, &pool, phase, &victim] {
      SpaceUser user(world, pool);
      wait_until(world, "the tuner", [&] { return gone(victim); });
      const std::uint64_t number = number_found(world, user);
      world.require(number <= 2, "a table that was never stored is there");
      world.require(*phase < 2 || number == 2, "a stored table is missing");
      store(world, user, 3);
      world.require(number_found(world, user) == 3, "the reader did not find the new table");
    });
  };
  expect_held("tuning", "crash points", crash_everywhere(scenario, 120));
}

}  // namespace
}  // namespace penstock::sim::tuning_test

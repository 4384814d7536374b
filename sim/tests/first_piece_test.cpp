// First pieces of endpoints' memory, which one process of a node makes for all: none gets
// another's, none is lost, and a process that needs none leaves none.
#include <gtest/gtest.h>

#include "pool/members.hpp"
#include "sim/tests/endpoint_tables.hpp"
#include "sim/tests/expect_held.hpp"
#include "sim/tests/lasting_copies.hpp"
#include "sim/tests/late_stores.hpp"
#include "sim/tests/stops.hpp"
#include "transport/tx_memory.hpp"

namespace penstock::sim {
namespace {

constexpr std::uint32_t on_first_node = 3, on_second_node = 2;
constexpr std::uint64_t block_bytes = 8 << 10;
constexpr const char* prefix = "penstock.tx.";

/// An endpoint, as far as its memory is concerned.
struct Owner : TableUser {
  Owner(World& in, const SimulatedPool& pool) : TableUser(in, pool, "pieces") {}

  void open() {
    address = claim();
    memory = std::make_unique<transport::TxMemory>(*arena, table, address);
  }
  void close() {
    table.release(address);
    memory.reset();
  }
  std::byte* block() {
    const auto at = memory->allocate(block_bytes, "a test");
    world.require(at.has_value(), at ? "" : at.error().message);
    return *at;
  }
  std::vector<std::uint64_t> stamp() const {
    return std::vector<std::uint64_t>(block_bytes / 8, attached->token());
  }
  void publish(std::byte* at) {
    attached->memory().publish_bulk(at, stamp().data(), block_bytes);
    attached->memory().full_fence();
  }
  void require_own(const std::byte* at) {
    std::vector<std::uint64_t> words(block_bytes / 8);
    attached->memory().observe_bulk(words.data(), at, block_bytes);
    world.require(words == stamp(), fmt::format("{:#x} stands in another's block", words[0]));
  }

  transport::Address address;
  std::unique_ptr<transport::TxMemory> memory;
};

/// Describes the objects left of endpoints' memory, and extents without a name.
std::string left_in(arena::Arena& arena) {
  const auto objects = arena.list();
  for (const auto& object : objects)
    if (object.name.starts_with(prefix)) return object.name + " is left";
  const std::uint64_t extents = arena.stats().objects;
  return extents == objects.size()
             ? ""
             : fmt::format("{} extents, {} of them with a name", extents, objects.size());
}

/// Twice: opens, takes two blocks, or closes without, and checks that their contents stay.
void live(World& world, const SimulatedPool& pool) {
  Owner owner(world, pool);
  for (int round = 0; round < 2; ++round) {
    owner.open();
    const bool takes = world.random() % 4 != 0;
    std::vector<std::byte*> blocks;
    if (world.random() % 2 == 0) world.sleep(world.random() % 300'000);
    for (int i = 0; takes && i < 2; ++i) {
      blocks.push_back(owner.block());
      owner.publish(blocks.back());
    }
    world.sleep(world.random() % 500'000);
    for (std::byte* const at : blocks) owner.require_own(at);
    for (std::byte* const at : blocks) owner.memory->give_back(at, block_bytes, true);
    owner.close();
  }
}

Scenario lives(const SimulatedPool& pool, bool one_dies) {
  Scenario scenario = pool.scenario("first pieces", 2);
  scenario.max_steps = 20'000'000;
  scenario.body = [&pool, one_dies](World& world) {
    for (std::uint32_t i = 0; i < on_first_node + on_second_node; ++i) {
      Process& process =
          world.spawn(i < on_first_node ? 0 : 1, [&world, &pool] { live(world, pool); });
      if (i != 0 || !one_dies) continue;
      process.may_exit = true;
      world.mark_victim(process);
    }
  };
  scenario.after = [&pool, one_dies](World& world) {
    const auto attached = pool.attach(world, {.job = "later"});
    const auto arena = SimulatedPool::open_arena(world, *attached);
    if (one_dies) {
      wait_until(world, "the dead to be found", [&] {
        (void)arena->collect();
        return attached->members().processes().size() == 1 || left_in(*arena).empty();
      });
    }
    const std::string left = left_in(*arena);
    world.require(left.empty(), left);
  };
  return scenario;
}

TEST(FirstPieces, NobodyGetsAnothersAndNoneIsLeft) {
  const auto pool = pool_with_a_table();
  const Scenario scenario = lives(*pool, false);
  expect_held("endpoints", "random schedules", explore(scenario, 60));
  expect_held("endpoints", "random schedules", explore(with_lasting_copies(scenario), 20));
  expect_held("endpoints", "late stores", explore(with_late_stores(scenario), 20));
}

TEST(FirstPieces, WhoDiesLosesNone) {
  const auto pool = pool_with_a_table();
  expect_held("endpoints", "crash points", crash_everywhere(lives(*pool, true), 120));
  expect_held("endpoints", "crash points", explore(dying_in_a_line(lives(*pool, true), 120), 60));
}

/// Also with the lock, and declared dead by processes of the other node.
TEST(FirstPieces, DeclaredDeadProcessChangesNothing) {
  const auto pool = pool_with_a_table();
  Scenario scenario = one_is_given_up(
      lives(*pool, true), [&pool](World& world) { world.sleep(2 * pool->lease_ns(world)); });
  scenario.max_steps = 40'000'000;
  expect_held("endpoints", "random schedules", explore(scenario, 60));
}

/// It closes while another makes its piece, or while that one is stopped as it does: one of the two
/// finds what the other has published.
Scenario closes_meanwhile(const SimulatedPool& pool) {
  Scenario scenario = pool.scenario("first pieces, one closes meanwhile", 1);
  scenario.max_steps = 2'000'000;
  scenario.body = [&pool](World& world) {
    const bool is_stopped = world.random() % 2 == 0;
    auto opened = std::make_shared<std::uint32_t>(0);
    auto made = std::make_shared<bool>(false);
    const auto meet = [&world, opened] {
      ++*opened;
      world.until([&] { return *opened == 2; });
    };
    world.spawn(0, [&world, &pool, meet, is_stopped, made] {
      Owner owner(world, pool);
      owner.open();
      meet();
      const auto rest = [&world](std::uint64_t most) {
        for (std::uint64_t i = world.random() % most; i != 0; --i) world.yield();
      };
      Process& other = *world.processes()[1];
      if (is_stopped)
        world.until([&] { return other.stopped || *made; });
      else
        rest(250);
      owner.close();
      go_on(other);
      rest(500);  // its publishes may take as long to arrive
    });
    world.spawn(0, [&world, &pool, meet, is_stopped, made] {
      Owner maker(world, pool);
      maker.open();
      meet();
      constexpr std::uint64_t operations = 200;  // of block(), and more
      if (is_stopped) stop_within(world, operations);
      std::byte* const at = maker.block();
      never_stop(world.self());
      *made = true;
      maker.memory->give_back(at, block_bytes, true);
      maker.close();
    });
  };
  scenario.after = [&pool](World& world) {
    const auto attached = pool.attach(world, {.job = "later"});
    const std::string left = left_in(*SimulatedPool::open_arena(world, *attached));
    world.require(left.empty(), left);
  };
  return scenario;
}

TEST(FirstPieces, WhoClosesMeanwhileLeavesNone) {
  const auto pool = pool_with_a_table();
  const Scenario scenario = closes_meanwhile(*pool);
  expect_held("endpoints", "random schedules", explore(scenario, 300));
  expect_held("endpoints", "late stores", explore(with_late_stores(scenario), 300));
}

/// One of them takes the pool's lock, and the others do not, although another holds it by then.
TEST(FirstPieces, OneTurnOfTheLockServesANode) {
  const auto pool = pool_with_a_table();
  Scenario scenario = pool->scenario("first pieces, under the lock", 2);
  scenario.swarm = false;
  scenario.max_steps = 20'000'000;
  scenario.body = [&](World& world) {
    struct Stage {
      std::uint32_t opened = 0, served = 0;
      bool locked = false;
    };
    auto stage = std::make_shared<Stage>();
    for (std::uint32_t i = 0; i < on_first_node; ++i) {
      world.spawn(0, [&, stage, i] {
        Owner owner(world, *pool);
        owner.open();
        ++stage->opened;
        wait_until(world, "all", [&] { return stage->opened == on_first_node; });
        if (i != 0) wait_until(world, "the lock to be taken", [&] { return stage->locked; });
        std::byte* const at = owner.block();
        ++stage->served;
        wait_until(world, "all blocks", [&] { return stage->served == on_first_node; });
        owner.memory->give_back(at, block_bytes, true);
        owner.close();
      });
    }
    world.spawn(1, [&, stage] {
      const auto attached = pool->attach(world, {.job = "another"});
      wait_until(world, "the first", [&] { return stage->served == 1; });
      const auto guard = attached->lock();
      world.require(guard.has_value(), "the lock");
      stage->locked = true;
      wait_until(world, "the others", [&] { return stage->served == on_first_node; });
    });
  };
  expect_held("endpoints", "counted", explore(scenario, 5));
}

/// One of each of 16 nodes sends, 30 never do: these leave most of a small pool untouched.
TEST(FirstPieces, IdleOnesDoNotFillAPool) {
  constexpr std::uint32_t nodes = 16, a_node = 31;
  SimulatedPool pool(
      {.bytes = 20 << 20, .max_processes = nodes * a_node, .max_nodes = nodes, .lease_ms = 10'000});
  make_table(pool);
  Scenario scenario = pool.scenario("first pieces, of idle ones", nodes);
  scenario.swarm = false;
  scenario.max_steps = 2'000'000'000;
  scenario.body = [&](World& world) {
    struct Stage {
      std::uint32_t opened = 0, turn = 0;
    };
    auto stage = std::make_shared<Stage>();
    for (std::uint32_t node = 0; node < nodes; ++node)
      world.spawn(node, [&, stage, node] {
        std::vector<std::unique_ptr<Owner>> all;
        for (std::uint32_t i = 0; i < a_node; ++i) {
          all.push_back(std::make_unique<Owner>(world, pool));
          all.back()->open();
        }
        ++stage->opened;
        wait_until(world, "all", [&] { return stage->opened == nodes; });
        wait_until(world, "its turn", [&] { return stage->turn == node; });
        std::byte* const at = all.front()->block();
        const auto stats = all.front()->arena->stats();
        world.require(stats.bytes_largest_free > stats.bytes_total / 3 * 2,
                      fmt::format("{} of {} B are used", stats.bytes_used, stats.bytes_total));
        ++stage->turn;
        wait_until(world, "the others", [&] { return stage->turn == nodes; });
        all.front()->memory->give_back(at, block_bytes, true);
        for (auto& each : all) each->close();
      });
  };
  expect_held("endpoints", "counted", explore(scenario, 1));
}

/// One piece fits into a pool of holes, two do not: no process walks all of it for others.
TEST(FirstPieces, AFragmentedPoolIsNotWalkedForOthers) {
  constexpr std::uint64_t max_lines = 400;  // one alone reads 89
  SimulatedPool pool({.max_processes = 16});
  make_table(pool);
  pool.once([&](World& world) {
    const auto attached = pool.attach(world);
    const auto arena = SimulatedPool::open_arena(world, *attached);
    std::vector<arena::Object> all;
    for (int i = 0;; ++i) {
      const auto made = arena->create(fmt::format("f{}", i), 19 << 10, {.zero = false});
      if (!made) break;
      all.push_back(*made);
    }
    for (std::size_t i = 0; i + 3 < all.size(); ++i)
      if (i % 4 != 3) (void)arena->destroy(all[i]);
  });
  Scenario scenario = pool.scenario("first pieces, of a fragmented pool", 1);
  scenario.swarm = false;
  scenario.max_steps = 200'000'000;
  scenario.body = [&](World& world) {
    world.spawn(0, [&] {
      std::vector<std::unique_ptr<Owner>> all;
      for (int i = 0; i < 9; ++i) all.push_back(std::make_unique<Owner>(world, pool));
      for (const auto& each : all) each->open();
      for (const auto& each : all) {
        const std::uint64_t before = each->attached->memory().device_reads();
        each->memory->give_back(each->block(), block_bytes, true);
        const std::uint64_t lines = each->attached->memory().device_reads() - before;
        world.require(lines < max_lines, fmt::format("{} lines", lines));
      }
      for (const auto& each : all) each->close();
    });
  };
  expect_held("endpoints", "counted", explore(scenario, 1));
}

/// A process that has sent nothing, and for which another has made a piece: the piece goes with its
/// process.
TEST(FirstPieces, ClosingDoesNotWaitLongForTheLock) {
  const auto pool = pool_with_a_table();
  Scenario scenario = pool->scenario("first pieces, closing", 2);
  scenario.swarm = false;
  scenario.max_steps = 20'000'000;
  scenario.body = [&](World& world) {
    auto stage = std::make_shared<int>(0);
    world.spawn(0, [&, stage] {
      Owner idle(world, *pool), sender(world, *pool);
      idle.open();
      sender.open();
      std::byte* const at = sender.block();
      *stage = 1;
      wait_until(world, "the lock", [&] { return *stage == 2; });
      const std::uint64_t since_ns = world.now_ns();
      idle.close();
      const std::uint64_t took_ns = world.now_ns() - since_ns;
      world.require(took_ns < 3 * transport::briefly_ns, fmt::format("{} ns", took_ns));
      sender.memory->give_back(at, block_bytes, true);
      sender.close();
    });
    world.spawn(1, [&, stage] {
      const auto attached = pool->attach(world, {.job = "another"});
      wait_until(world, "them", [&] { return *stage == 1; });
      const auto guard = attached->lock();
      *stage = 2;
      world.sleep(300'000'000);
    });
  };
  scenario.after = [&pool](World& world) {
    const auto attached = pool->attach(world, {.job = "later"});
    const std::string left = left_in(*SimulatedPool::open_arena(world, *attached));
    world.require(left.empty(), left);
  };
  expect_held("endpoints", "counted", explore(scenario, 3));
}

}  // namespace
}  // namespace penstock::sim

// Blocks of slots, the next fresh one, homes and the reclaim mark: one process's writes are
// found by the next, although its node holds old copies; and a block is only taken from a node
// while none of its processes attaches.
#include <gtest/gtest.h>

#include <functional>
#include <memory>

#include "device/superblock.hpp"
#include "pool/attaching.hpp"
#include "pool/slot_blocks.hpp"
#include "sim/tests/expect_held.hpp"
#include "sim/tests/lasting_copies.hpp"
#include "sim/tests/late_stores.hpp"
#include "sim/tests/simulated_pool.hpp"

namespace penstock::sim::slot_blocks_test {
namespace {

using pool::SlotBlocks;

constexpr std::uint32_t three = 3;  ///< nodes

device::Superblock superblock_of(const SimulatedPool& pool) {
  return *pool::check_superblocks(*device::open_parts(pool.path(), device::Access::read),
                                  pool.path());
}

SlotBlocks blocks_of(World& world, const device::Superblock& superblock) {
  return {world.memory(),
          world.base(),
          superblock,
          pool::ProcessTable(world.memory(), world.base(), superblock),
          {}};
}

/// Processes of three nodes take `turns` turns at the blocks, each with the pool's lock.
Scenario blocks_in_turn(const SimulatedPool& pool, const std::string& name, std::uint32_t turns,
                        std::function<void(World&, const SlotBlocks&, std::uint32_t turn)> take) {
  Scenario scenario = pool.scenario("pool, " + name, three);
  scenario.body = [&pool, turns, take = std::move(take)](World& world) {
    auto now = std::make_shared<std::uint32_t>(0);
    for (std::uint32_t node = 0; node < three; ++node)
      world.spawn(node, [&world, &pool, now, node, turns, take] {
        const SlotBlocks blocks = blocks_of(world, superblock_of(pool));
        for (std::uint32_t mine = node; mine < turns; mine += three) {
          world.until([&] { return *now == mine; });
          take(world, blocks, mine);
          world.memory().full_fence();  // as the lock's release
          ++*now;
        }
      });
  };
  return scenario;
}

void expect_held_in_turn(const SimulatedPool& pool, const std::string& name, std::uint32_t turns,
                         std::function<void(World&, const SlotBlocks&, std::uint32_t)> take) {
  const Scenario scenario = blocks_in_turn(pool, name, turns, std::move(take));
  expect_held("pool", "random schedules", explore(scenario, 10));
  expect_held("pool", "random schedules", explore(with_lasting_copies(scenario), 5));
}

/// Every other one is taken by a process that dies before it has recorded that.
void take_a_block(World& world, const SlotBlocks& blocks, std::uint32_t turn) {
  if (turn % 2 == 1) {
    auto dies = blocks.look(turn);
    blocks.give(dies, turn % three, 0);
  } else {
    const auto& core = *world.running().core;
    const std::uint64_t before = core.device_reads();
    const auto taken = blocks.take_fresh(turn % three);
    const std::uint64_t read = core.device_reads() - before;
    world.require(taken && taken->number == turn, "the fresh block is not the expected one");
    // where the next one is, the block that the dead process has taken, and the fresh one twice
    world.require(read <= 4 + blocks.slots_a_block(), "it reads all blocks");
  }
  for (std::uint32_t number = 0; number < blocks.blocks(); ++number) {
    const auto block = blocks.look(number);
    world.require(number > turn ? block.fresh() : block.of(number % three),
                  "a block belongs to another node");
  }
}

TEST(SlotBlocks, EachIsTakenOnce) {
  const SimulatedPool pool({.max_processes = 24, .max_nodes = 8});  // a slot to a block
  expect_held_in_turn(pool, "fresh blocks in turn", 24, take_a_block);
}

TEST(SlotBlocks, SearchContinuesWhereLastEnded) {
  const SimulatedPool pool({.max_processes = 24});
  expect_held_in_turn(pool, "searches in turn", 24,
                      [](World& world, const SlotBlocks& blocks, std::uint32_t turn) {
                        world.require(blocks.turn() == turn % blocks.blocks(), "it begins anew");
                        blocks.set_turn(turn + 1);
                      });
}

/// A node's number passes from host to host.
TEST(SlotBlocks, HomeBelongsToNodeNumber) {
  const SimulatedPool pool;
  expect_held_in_turn(pool, "homes in turn", 12,
                      [](World& world, const SlotBlocks& blocks, std::uint32_t turn) {
                        pool::HomeLine home = blocks.home(1);
                        world.require(home.entered == turn, "another home");
                        ++home.entered;
                        blocks.publish_home(1, home);
                      });
}

TEST(SlotBlocks, SeesReclaimMarkUntilCleared) {
  const SimulatedPool pool;
  expect_held_in_turn(pool, "reclaims in turn", 24,
                      [](World& world, const SlotBlocks& blocks, std::uint32_t turn) {
                        const bool marked = turn / three % 2 == 0;
                        if (turn % three != 0)
                          return world.require(blocks.reclaim_marked() == marked,
                                               marked ? "nobody buries" : "somebody buries");
                        if (marked) return blocks.mark_reclaim(turn + 1);
                        blocks.unmark_reclaim();
                      });
}

/// The table is read up to the first blocks that are fresh.
TEST(ProcessTable, FindsSlotsOfBlocksThatWereFresh) {
  const SimulatedPool pool({.max_processes = 192, .max_nodes = three});
  constexpr std::uint32_t blocks_there = 6;
  expect_held_in_turn(
      pool, "slots in turn", blocks_there,
      [&pool](World& world, const SlotBlocks& blocks, std::uint32_t turn) {
        const pool::ProcessTable table(world.memory(), world.base(), superblock_of(pool));
        world.require(table.used().size() == turn, "a slot that was taken before is not found");
        world.require(blocks.take_fresh(turn % three).has_value(), "no fresh block");
        table.publish_state(turn * blocks.slots_a_block(), {.generation = 1});
        world.require(table.used().size() == turn + 1, "its own slot is not found");
      });
}

TEST(AttachingTable, ShowsNamesAsLastPublished) {
  const SimulatedPool pool({.max_nodes = 4});
  expect_held_in_turn(
      pool, "names in turn", 24, [&pool](World& world, const SlotBlocks&, std::uint32_t turn) {
        const pool::AttachingTable table(world.memory(), world.base(), superblock_of(pool));
        constexpr std::uint32_t names = 4;
        const auto shown = table.read_names();
        world.require(shown.size() >= names, "there are fewer names");
        for (std::uint32_t name = 0; name < names; ++name) {
          const std::uint32_t visits = (turn + names - 1 - name) / names;  // so far
          world.require(shown[name].has_value() == (visits != 0) &&
                            (visits == 0 || shown[name]->beat == visits),
                        fmt::format("name {} is shown as it was earlier", name));
        }
        table.publish(table.line_of_name(turn % names),
                      {.generation = turn + 1, .beat = turn / names + 1});
      });
}

// ---- attaching without the lock, and with it ----------------------------------------------------

struct Parts {
  World& world;
  SlotBlocks blocks;
  pool::AttachingTable attaching;

  Parts(World& the_world, const device::Superblock& superblock)
      : world(the_world),
        blocks(blocks_of(the_world, superblock)),
        attaching(the_world.memory(), the_world.base(), superblock) {}
};

/// True: no trace of the other is visible.
using Look = std::function<bool(const Parts&, std::uint32_t round)>;

/// Of two processes, one on node 0 that attaches without the lock and one on node 1 that holds it,
/// one finds the other.
void expect_one_to_find_the_other(const std::string& name, Look apart, Look locked) {
  constexpr std::uint32_t rounds = 20;
  struct Both {
    std::uint32_t ready = 0, alone = 0, done = 0;
  };
  const SimulatedPool pool({.max_processes = 24});
  Scenario scenario = pool.scenario("pool, " + name, 2);
  scenario.body = [&pool, apart, locked](World& world) {
    auto both = std::make_shared<Both>();
    for (const std::uint32_t node : {0u, 1u})
      world.spawn(node, [&world, &pool, both, node, look = node == 0 ? apart : locked] {
        const Parts parts(world, superblock_of(pool));
        for (std::uint32_t round = 0; round < rounds; ++round) {
          if (node == 0) {
            parts.attaching.publish(0, {});
            auto block = parts.blocks.look(round);
            parts.blocks.give(block, 0, 0);
          } else {
            parts.blocks.unmark_reclaim();
          }
          world.memory().full_fence();
          ++both->ready;
          world.until([&] { return both->ready == 2 * round + 2; });
          for (std::uint64_t late = world.random() % 6; late != 0; --late) world.yield();
          if (look(parts, round)) ++both->alone;
          world.memory().full_fence();
          ++both->done;
          world.until([&] { return both->done == 2 * round + 2; });
          world.require(both->alone < 2, "neither process finds the other");
          both->alone = 0;
        }
      });
  };
  expect_held("pool", "random schedules", explore(scenario, 10));
  expect_held("pool", "late stores", explore(with_late_stores(scenario), 100));
}

void show_apart(const Parts& parts) {
  parts.attaching.publish_before_loads(0, {.generation = 1, .beat = 1, .unlocked = 1});
}

TEST(SlotBlocks, BlockTakerFindsSlotTaker) {
  expect_one_to_find_the_other(
      "a block and a slot",
      [](const Parts& parts, std::uint32_t round) {
        show_apart(parts);
        return parts.blocks.look(round).of(0);
      },
      [](const Parts& parts, std::uint32_t round) {
        pool::BlockView block{.number = round, .line = {.taken = 1, .owner = 1}};
        parts.blocks.give(block, 1, 1);
        const auto visit = parts.attaching.look(0);
        return visit.whole && visit.line.unlocked == 0;
      });
}

TEST(SlotBlocks, WhoBuriesFindsWhoAttachesApart) {
  expect_one_to_find_the_other(
      "a reclaim and a slot",
      [](const Parts& parts, std::uint32_t) {
        show_apart(parts);
        return !parts.blocks.reclaim_marked();
      },
      [](const Parts& parts, std::uint32_t round) {
        parts.blocks.mark_reclaim(round + 1);
        return parts.attaching.nodes_attaching_unlocked().empty();
      });
}

}  // namespace
}  // namespace penstock::sim::slot_blocks_test

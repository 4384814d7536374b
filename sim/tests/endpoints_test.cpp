// Slots of endpoints and tiles of their mailboxes on memory without coherence: the cost of taking
// one does not depend on how many others there are; deaths lose nothing and give nothing to two.
#include <gtest/gtest.h>

#include <bit>
#include <map>

#include "base/checked.hpp"
#include "device/superblock.hpp"
#include "pool/attaching.hpp"
#include "pool/lease.hpp"
#include "pool/members.hpp"
#include "pool/verdicts.hpp"
#include "sim/tests/endpoint_tables.hpp"
#include "sim/tests/late_stores.hpp"
#include "sim/tests/ranks.hpp"
#include "transport/mailbox.hpp"
#include "transport/test_tiles.hpp"

namespace penstock::sim {
namespace {

using transport::EndpointLine;
using transport::EndpointTable;

// ---- the cost of an endpoint --------------------------------------------------------------------

/// Gives endpoints of a living process to all other slots.
void fill(World& world, const pool::Pool& pool, const EndpointTable& table, std::uint32_t besides) {
  for (std::uint32_t slot = 0; slot < table.count(); ++slot) {
    if (slot == besides || slot == table.count() - 1) continue;
    EndpointLine line{};
    line.generation = 1;
    line.token = pool.token();
    line.state = EndpointLine::pack(1, transport::EndpointState::open);
    line.checksum = transport::checksum_of(line, table.key(), slot);
    pool.memory().publish_line(table.line_of(slot), &line);
  }
  world.memory().full_fence();
}

class Silent final : public transport::EndpointCallbacks {
 public:
  ReceiveBuffer on_message(const transport::Message&) override { return {}; }
  void on_sent(SendOp*) override {}
  void on_send_failed(SendOp*, const Error&) override {}
  void on_peer_dead(Peer, const std::string&) override {}
};

/// The cost of making an endpoint.
struct Cost {
  std::uint64_t lines = 0, operations = 0;
};

Cost make_one(World& world, arena::Arena& arena) {
  Silent silent;
  const auto& memory = arena.pool().memory();
  const std::uint64_t lines = memory.device_reads(), operations = world.self().operations;
  const auto made = transport::Endpoint::open(arena, silent, {.job = "sim"});
  world.require(made.has_value(), made ? "" : made.error().message);
  return {memory.device_reads() - lines, world.self().operations - operations};
}

/// The last of n endpoints is made while another process holds the pool's lock: the first endpoint
/// in its slot, and the next one there. The lines that it reads: the name of the table in ten
/// levels, the table's head, the endpoint's own line, its box, and 195 of the table of processes,
/// in batches, for other mappings of the pool in this process: processes of two nodes have been
/// attached, and a batch is a block of 64 slots with its line, for each node and for the first
/// fresh block.
Scenario last_of_many(const SimulatedPool& pool, std::uint32_t processes) {
  constexpr std::uint64_t max_lines = 240, max_operations = 400;
  Scenario scenario = pool.scenario("endpoints, the last of many", 2);
  scenario.swarm = false;
  scenario.max_steps = 100'000'000;
  scenario.body = [&pool, processes](World& world) {
    struct Stage {
      std::uint32_t slot = 0;
      int phase = 0;
    };
    auto stage = std::make_shared<Stage>();
    world.spawn(0, [&world, &pool, stage] {
      const auto attached = pool.attach(world, {.job = "others"});
      const auto arena = SimulatedPool::open_arena(world, *attached);
      world.until([&] { return stage->phase == 1; });
      fill(world, *attached, table_of(world, *arena), stage->slot);
      const auto held = attached->lock();
      world.require(held.has_value(), "the lock");
      stage->phase = 2;
      wait_until(world, "the endpoints", [&] { return stage->phase == 3; });
    });
    world.spawn(1, [&world, &pool, stage, processes] {
      const auto attached = pool.attach(world, {.job = "sim"});
      const auto arena = SimulatedPool::open_arena(world, *attached);
      stage->slot = attached->slot();
      stage->phase = 1;
      world.until([&] { return stage->phase == 2; });
      for (int i = 0; i < 2; ++i) {
        const Cost cost = make_one(world, *arena);
        const std::string text =
            fmt::format("an endpoint of {}: {} lines read, {} operations, none under the lock",
                        processes, cost.lines, cost.operations);
        fmt::print("{}\n", text);
        std::fflush(stdout);
        world.require(cost.lines <= max_lines && cost.operations <= max_operations, text);
      }
      stage->phase = 3;
    });
  };
  return scenario;
}

class Endpoints : public testing::TestWithParam<std::uint32_t> {};

TEST_P(Endpoints, LastEndpointCostsSameAsFirst) {
  const std::uint32_t processes = GetParam();
  const transport::TableLayout layout(transport::endpoints_of_pool(processes));
  const std::uint64_t needed = 2 * (layout.bytes() + (std::uint64_t{processes} << 12));
  const auto pool =
      pool_with_endpoints({.bytes = device::min_pool_bytes + base::align_up(needed, 2u << 20),
                           .max_processes = processes,
                           .lease_ms = 100'000});
  expect_held("endpoints", "counted", explore(last_of_many(*pool, processes), 1));
}
INSTANTIATE_TEST_SUITE_P(Sizes, Endpoints, testing::Values(8u, 128u, 1024u));
INSTANTIATE_TEST_SUITE_P(Long, Endpoints, testing::Values(8192u));

// ---- tiles -------------------------------------------------------------------------------------

constexpr std::uint64_t first_word_accesses = 10;
constexpr std::uint32_t owners = 74;  ///< more than the tiles of a group's first piece

/// Makes the words of all pairs of `owners` with some senders, in an order of its own, and checks
/// that they stay where they are.
void make_words(World& world, EndpointTable& table, std::uint32_t number) {
  std::map<std::pair<std::uint32_t, std::uint32_t>, const void*> made;
  for (std::uint32_t i = 0; i < owners; ++i) {
    const std::uint32_t owner = number % 2 == 0 ? i : owners - 1 - i;
    for (const std::uint32_t sender : {number, 64 + number}) {
      const auto words = table.words(owner, sender);
      world.require(words.has_value(), words ? "" : words.error().message);
      made[{owner, sender}] = words->announcement;
    }
  }
  for (const auto& [pair, word] : made)
    world.require(table.find_word(pair.first, pair.second) == word, "a tile was replaced");
}

Scenario tiles_by_three(const SimulatedPool& pool) {
  Scenario scenario = pool.scenario("tiles, made by three", 3);
  scenario.max_steps = 6'000'000;
  scenario.body = [&pool](World& world) {
    for (std::uint32_t i = 0; i < 3; ++i) {
      Process& process = world.spawn(i, [&world, &pool, i] {
        const auto attached = pool.attach(world, {.job = "tiles"});
        const auto arena = SimulatedPool::open_arena(world, *attached);
        EndpointTable table = table_of(world, *arena);
        make_words(world, table, i);
      });
      if (i == 0) {
        process.may_exit = true;
        world.mark_victim(process);
      }
    }
  };
  scenario.after = [&pool](World& world) {
    const auto attached = pool.attach(world, {.job = "later"});
    const auto arena = SimulatedPool::open_arena(world, *attached);
    const std::string fault = transport::fault_of_tiles(*arena);
    world.require(fault.empty(), fault);
  };
  return scenario;
}

TEST(Tiles, ThoseWhoMakeThemAtOnceAgree) {
  const auto pool = pool_with_endpoints({.max_processes = 16});
  const Scenario scenario = tiles_by_three(*pool);
  expect_held("endpoints", "random schedules", explore(scenario, 20));
  expect_held("endpoints", "random schedules", explore(with_lasting_copies(scenario), 10));
}

TEST(Tiles, DeathNeitherLosesNorDuplicatesTiles) {
  const auto pool = pool_with_endpoints({.max_processes = 16});
  expect_held("endpoints", "crash points", crash_everywhere(tiles_by_three(*pool), 80));
  expect_held("endpoints", "crash points",
              explore(dying_in_a_line(tiles_by_three(*pool), 150), 60));
}

TEST(Tiles, DeclaredDeadProcessChangesNothing) {
  const auto pool = pool_with_endpoints({.max_processes = 16});
  Scenario scenario = one_is_given_up(tiles_by_three(*pool), [&pool](World& world) {
    wait_until(world, "the others",
               [&] { return gone(*world.processes()[1]) && gone(*world.processes()[2]); });
    world.sleep(pool->lease_ns(world));
  });
  scenario.max_steps = 20'000'000;
  expect_held("endpoints", "random schedules", explore(scenario, 60));
}

/// The word of the latest entry tells a receiver of it once: by then the directory holds what the
/// word announces, or the receiver misses it until it next looks there anyway.
TEST(Tiles, ReceiverFindsEveryAnnouncedLine) {
  constexpr std::uint32_t boxes = 12, lines_to_ask_for = 3;
  const auto pool = pool_with_endpoints();
  Scenario scenario = pool->scenario("tiles, told of", 2);
  scenario.max_steps = 6'000'000;
  scenario.body = [&pool](World& world) {
    auto made = std::make_shared<bool>(false);
    auto looks = std::make_shared<bool>(false);
    world.spawn(0, [&world, &pool, made, looks] {
      const auto attached = pool->attach(world, {.job = "tiles"});
      const auto arena = SimulatedPool::open_arena(world, *attached);
      const EndpointTable table = table_of(world, *arena);
      const coherence::Memory& memory = attached->memory();
      std::vector<std::unique_ptr<transport::Mailbox>> mine;
      for (std::uint32_t owner = 0; owner < boxes; ++owner)
        mine.push_back(std::make_unique<transport::Mailbox>(table, memory, owner));
      *looks = true;
      for (bool last = false; !last;) {
        last = *made;
        for (std::uint32_t owner = 0; owner < boxes; ++owner) {
          const transport::Mailbox::Part box{.first = 0, .lines = 0, .box = true};
          mine[owner]->drop_copies(box);
          memory.load_fence();
          // before the sweep, which may find a later one: the copy may be dropped at any time
          const std::uint64_t latest =
              memory.load_word(table.tiles().box(owner) + transport::TableLayout::latest);
          mine[owner]->sweep(box, [](transport::Peer, std::uint64_t) { return true; });
          const int announced = std::popcount(transport::TileEntry::lines(latest));
          world.require(mine[owner]->lines() >= static_cast<std::uint32_t>(announced),
                        "a line was announced that is not there yet");
        }
        world.yield();
      }
      for (const auto& each : mine)
        world.require(each->lines() == transport::tile_lines, "some lines were not found");
    });
    world.spawn(1, [&world, &pool, made, looks] {
      const auto attached = pool->attach(world, {.job = "tiles"});
      const auto arena = SimulatedPool::open_arena(world, *attached);
      EndpointTable table = table_of(world, *arena);
      world.until([&] { return *looks; });
      for (std::uint32_t line = 0; line < lines_to_ask_for; ++line)
        for (std::uint32_t owner = 0; owner < boxes; ++owner)
          world.require(table.words(owner, transport::words_a_line * line).has_value(), "no word");
      world.memory().full_fence();
      *made = true;
    });
  };
  expect_held("endpoints", "random schedules", explore(scenario, 20));
  expect_held("endpoints", "late stores", explore(with_late_stores(scenario), 20));
}

/// Serialized accesses of a process that asks for a word while no other process does.
TEST(Tiles, FindingWordCostsDocumentedAccesses) {
  const auto pool = pool_with_endpoints();
  Scenario scenario = pool->scenario("tiles, counted", 1);
  scenario.swarm = false;
  scenario.faults.lazy_store_fence = false;
  scenario.body = [&pool](World& world) {
    world.spawn(0, [&world, &pool] {
      const auto attached = pool->attach(world, {.job = "tiles"});
      const auto arena = SimulatedPool::open_arena(world, *attached);
      EndpointTable table = table_of(world, *arena);
      const auto costs = [&](std::uint32_t owner, std::uint32_t sender, std::uint64_t accesses) {
        const sim::Core& core = *world.running().core;
        const std::uint64_t before = core.device_waits();
        world.require(table.words(owner, sender).has_value(), "no word");
        const std::uint64_t waits = core.device_waits() - before;
        world.require(waits <= accesses,
                      fmt::format("{} accesses in place of {}", waits, accesses));
      };
      (void)table.words(0, 0);  // the group's first piece
      costs(1, 0, first_word_accesses);
      costs(1, transport::words_a_line, first_word_accesses);
      costs(1, 1, 1);
    });
  };
  expect_held("endpoints", "counted", explore(scenario, 1));
}

// ---- slots -------------------------------------------------------------------------------------

/// The next process after one that died while it took a slot takes that slot, and can be reached
/// there: one process stays and talks with all of them, one after the other.
TEST(Slots, WhoeverComesAfterTheDeadIsReached) {
  constexpr std::uint32_t later = 4;
  const auto pool = pool_with_endpoints({.max_processes = 4});
  Scenario scenario = pool->scenario("endpoints, claimed anew", 3);
  scenario.max_steps = 20'000'000;
  scenario.body = [&](World& world) {
    Process& victim = world.mark_victim(world.spawn(0, [&] {
      Rank rank(world, *pool, {7, {}, {}, 0});
      for (int round = 0; round < 3; ++round) {
        rank.set_user_word(1);
        rank.close();
        rank.open();
      }
      rank.leave();
    }));
    auto rolls = std::make_shared<std::vector<JobState>>(later, JobState(2));
    world.spawn(1, [&, rolls] {
      world.until([&] { return gone(victim); });
      Rank rank(world, *pool, {1, {0}, {0}, 1});
      for (JobState& roll : *rolls) {
        roll.enter(rank, 1);
        rank.look_until([&] { return static_cast<bool>(roll.opened[0]); });
        rank.converse(roll.addresses);
        world.require(!rank.peer_died(), "taken for dead: " + rank.death());
        roll.changed_hands = true;
      }
      rank.leave();
    });
    world.spawn(2, [&, rolls] {
      for (JobState& roll : *rolls) {
        world.until([&] { return static_cast<bool>(roll.opened[1]); });
        Rank rank(world, *pool, {0, {1}, {1}, 1});
        roll.enter(rank, 0);
        rank.converse(roll.addresses);
        world.require(!rank.peer_died(), "taken for dead: " + rank.death());
        rank.look_until([&] { return roll.changed_hands; });
        rank.leave();
      }
    });
  };
  expect_held("endpoints", "crash points", crash_everywhere(scenario, 60));
  Scenario torn = dying_in_a_line(scenario, 20);
  expect_held("endpoints", "crash points", explore(torn, 40));
}

/// It is stopped after a load, for several leases, and declared dead; the next process in its slot
/// has made an endpoint there. It ends, and stores nothing to that endpoint's line.
Scenario given_up_with_an_endpoint(const SimulatedPool& pool) {
  Scenario scenario = pool.scenario("endpoints, one is given up", 2);
  scenario.faults.same_speed = true;
  scenario.faults.max_delay = 10;
  scenario.max_steps = 20'000'000;
  scenario.body = [&pool](World& world) {
    Process& late = world.spawn(0, [&world, &pool] {
      const auto attached = pool.attach(world, {.job = "sim"});
      const auto arena = SimulatedPool::open_arena(world, *attached);
      EndpointTable table = table_of(world, *arena);
      world.self().stops_after_load = world.self().loads + 1 + world.random() % 16;
      for (int round = 0; round < 2; ++round) {
        const auto address = table.claim(1);
        world.require(address.has_value(), address ? "" : address.error().message);
        table.set_user_word(*address, 7);
        table.release(*address);
      }
    });
    late.may_exit = true;
    world.spawn(1, [&world, &pool, &late] {
      const auto attached = pool.attach(world, {.job = "others"});
      const auto arena = SimulatedPool::open_arena(world, *attached);
      const EndpointTable table = table_of(world, *arena);
      wait_until(world, "it to be stopped", [&] { return late.stopped || gone(late); });
      if (gone(late)) return;
      // its stores arrive while it is stopped
      for (const auto& thread : late.threads) thread->core->drain();
      world.sleep(2 * pool.lease_ns(world));
      const auto found = attached->members().processes();
      const auto its = std::find_if(found.begin(), found.end(), [&](const auto& each) {
        return each.attached && each.pid == static_cast<std::int64_t>(late.pid);
      });
      if (its == found.end()) return world.kill(late);
      const device::Superblock superblock = *pool::check_superblocks(
          *device::open_parts(pool.path(), device::Access::read), pool.path());
      pool::VerdictTable(world.memory(), world.base(), superblock)
          .publish(pool::make_token(its->generation, its->slot), attached->slot());
      EndpointLine next{};
      if (const auto line = table.read(its->slot)) next = *line;
      ++next.generation;
      next.token += 1 << 16;
      next.state = EndpointLine::pack(next.generation, transport::EndpointState::open);
      next.user_word = 0;
      next.checksum = transport::checksum_of(next, table.key(), its->slot);
      world.memory().publish_line(table.line_of(its->slot), &next);
      world.memory().full_fence();
      late.stopped = false;
      wait_until(world, "it to end", [&] { return gone(late); });
      world.require(late.exit_status == pool::declared_dead_status, "it goes on");
      const auto now = table.read(its->slot);
      world.require(now && std::memcmp(&*now, &next, sizeof next) == 0,
                    "it stored to the line of the next endpoint in its slot");
    });
  };
  return scenario;
}

TEST(Slots, DeclaredDeadOwnerStoresNothingToSuccessor) {
  const auto pool = pool_with_endpoints({.max_processes = 4});
  expect_held("endpoints", "random schedules", explore(given_up_with_an_endpoint(*pool), 60));
}

/// Its node holds a copy of the line from before the other took the slot.
TEST(Slots, WhoSearchesFindsWhatAnotherHasTaken) {
  const auto pool = pool_with_endpoints({.max_processes = 4});
  Scenario scenario = pool->scenario("endpoints, a slot taken by another", 2);
  scenario.max_steps = 20'000'000;
  scenario.body = [&](World& world) {
    struct Turns {
      int turn = 0;
      std::uint32_t first = 0, taken = 0;  ///< slots
    };
    auto all = std::make_shared<Turns>();
    const auto take_turn = [&world](Turns& turns, int turn, const std::function<void()>& act) {
      world.until([&] { return turns.turn == turn; });
      act();
      world.memory().full_fence();  // the turn does not pass through the pool
      ++turns.turn;
    };
    world.spawn(0, [&, all, take_turn] {
      const auto attached = pool->attach(world, {.job = "sim"});
      const auto arena = SimulatedPool::open_arena(world, *attached);
      const EndpointTable table = table_of(world, *arena);
      Rank rank(world, *pool, {0, {}, {}, 0});
      take_turn(*all, 1, [&] {
        rank.open_another();
        all->taken = rank.address().slot;
        rank.close();
        world.memory().full_fence();
        const auto line = table.read(all->taken);
        world.require(line && !line->open(), "the endpoint is not closed");
      });
      take_turn(*all, 4, [&] {
        rank.open();
        world.require(rank.address().slot != all->taken, "two endpoints have taken the same slot");
      });
      rank.leave();
    });
    world.spawn(1, [&, all, take_turn] {
      Rank rank(world, *pool, {1, {}, {}, 0});
      take_turn(*all, 2, [&] {
        rank.open_another();
        world.require(rank.address().slot == all->taken, "another slot");
      });
      world.until([&] { return all->turn == 5; });
      rank.leave();
    });
    world.spawn(1, [&, all, take_turn] {
      Rank rank(world, *pool, {2, {}, {}, 0});
      take_turn(*all, 0, [&] {
        rank.open_another();
        all->first = rank.address().slot;
      });
      take_turn(*all, 3, [&] {  // the next search begins behind this slot, at the one taken
        rank.close();
        rank.open();
        world.require(rank.address().slot == all->first, "another slot");
      });
      world.until([&] { return all->turn == 5; });
      rank.leave();
    });
  };
  expect_held("endpoints", "random schedules", explore(scenario, 20));
  expect_held("endpoints", "random schedules", explore(with_lasting_copies(scenario), 10));
}

}  // namespace
}  // namespace penstock::sim

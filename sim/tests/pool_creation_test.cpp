// Creation of pools, restarts of nodes, and the state of the pool after a process has left.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <map>
#include <set>

#include "device/superblock.hpp"
#include "pool/attaching.hpp"
#include "pool/members.hpp"
#include "pool/reclaim.hpp"
#include "sim/tests/expect_held.hpp"
#include "sim/tests/simulated_pool.hpp"

namespace penstock::sim {
namespace {

/// The scenario's file, under another name for each run.
class NoPoolYet : public SimulatedPool {
 public:
  NoPoolYet() {
    once([this](World& world) {
      constexpr int attachments = 20;  // each slot is used a second time, and finally by none
      for (int i = 0; i < attachments; ++i) attach(world);
      [[maybe_unused]] auto* never_detached = attach(world).release();
    });
  }
  /// A new file may get memory with arbitrary contents: here that of an older pool.
  Scenario scenario(std::string name, std::uint32_t nodes) const {
    Scenario scenario = SimulatedPool::scenario(std::move(name), nodes);
    scenario.prepare = [whole = scenario.prepare](std::byte* device) {
      whole(device);
      std::memset(device, 0, device::page_bytes);
    };
    return scenario;
  }
};

/// Attaches as soon as there is a pool. Returns null if there is none long after the creator has
/// died.
std::unique_ptr<pool::Pool> attach_when_there(World& world, const SimulatedPool& pool,
                                              const Process& creator) {
  constexpr int max_looks = 100;
  for (int looks_after = 0; looks_after < max_looks; looks_after += gone(creator)) {
    auto attached = pool::attach_as({.spec = pool.path()},
                                    {world.host(world.self().node), world.identity(world.self())});
    if (attached) return std::move(*attached);
    const Error& error = attached.error();
    const bool none = error.code == ErrorCode::not_found ||
                      error.message.find("is not a Penstock pool") != std::string::npos;
    world.require(none, error.message);
    world.sleep(1'000'000);
  }
  world.require(creator.dead, "a pool was made but is missing");
  return nullptr;
}

void expect_fresh(World& world, const pool::Pool& pool) {
  world.require(pool.generation() == 1, "another process had the slot before");
  for (const pool::ProcessRecord& record : pool.members().processes()) {
    world.require(record.generation == 1 && record.program.starts_with("process") && record.alive,
                  "the table shows a process of the older pool");
  }
}

TEST(PoolCreation, WhoFindsAPoolFindsAWholeOne) {
  const NoPoolYet pool;
  Scenario scenario = pool.scenario("pool, creation", 3);
  scenario.faults.max_delay = 40;  // a reader must not look for ever at a half-written line
  scenario.body = [&pool](World& world) {
    ::unlink(pool.path().c_str());
    auto here = std::make_shared<std::uint32_t>(0);
    const auto stay = [&world, here] {
      ++*here;
      wait_until(world, "the others", [&] {
        std::uint32_t dead = 0;
        for (const auto& process : world.processes()) dead += process->dead;
        return *here + dead >= 3;
      });
    };
    Process& creator = world.spawn(0, [&world, &pool, stay] {
      const auto created = pool::create({.spec = pool.path(),
                                         .bytes = device::min_pool_bytes,
                                         .mode = coherence::Mode::simulated,
                                         .max_processes = 8,
                                         .max_nodes = 4});
      world.require(created.has_value(), created ? "" : created.error().message);
      const auto attached = pool.attach(world);
      expect_fresh(world, *attached);
      stay();
    });
    world.mark_victim(creator);
    for (std::uint32_t node = 1; node <= 2; ++node) {
      world.spawn(node, [&world, &pool, &creator, stay] {
        const auto attached = attach_when_there(world, pool, creator);
        if (attached && !creator.dead) expect_fresh(world, *attached);
        stay();
      });
    }
  };
  expect_held("pool", "random schedules", explore(scenario, 40));
  expect_held("pool", "crash points", crash_everywhere(scenario, 60));
}

/// A process that dies while it writes or wipes a superblock leaves a pool or none, but no damaged
/// one.
TEST(PoolCreation, ADeathWithinTheSuperblockLeavesNoPool) {
  const SimulatedPool pool;
  Scenario scenario = pool.scenario("pool, superblock wiped and written", 2);
  // The stores of the dead process arrive late and in any order, while a reader reads again and
  // again.
  scenario.swarm = false;
  scenario.faults.deliver = 5;
  scenario.faults.max_delay = 5000;
  scenario.body = [&pool](World& world) {
    Process& writer = world.spawn(0, [&world, &pool] {
      world.self().publishes = 1ull << 40;  // only the first line and the magic count
      auto parts = device::open_parts(pool.path(), device::Access::write);
      world.require(parts.has_value(), "the file is missing");
      const auto superblock = pool::check_superblocks(*parts, pool.path());
      world.require(superblock.has_value(), "there is no pool at the beginning");
      world.require(device::wipe_superblock((*parts)[0]).has_value(), "not wiped");
      // Otherwise the same would be written again: a store that does not arrive must make a
      // difference.
      const std::array<std::byte, sizeof(device::Superblock)> nothing{};
      world.memory().publish_bulk(world.base(), nothing.data(), nothing.size());
      world.memory().full_fence();
      world.self().publishes = 1 - sizeof(device::Superblock) / coherence::line_bytes;
      world.require(device::write_superblock((*parts)[0], *superblock).has_value(), "not written");
    });
    world.mark_victim(writer);
    world.spawn(1, [&world, &pool, &writer] {
      const auto parts = device::open_parts(pool.path(), device::Access::read);
      for (int looks_after = 0; looks_after < 100; looks_after += gone(writer)) {
        const auto found = pool::check_superblocks(*parts, pool.path());
        const bool none =
            !found && found.error().message.find("is not a Penstock pool") != std::string::npos;
        world.require(found || none, found ? "" : found.error().message);
        world.yield();
      }
    });
  };
  expect_held("pool", "deaths within a line", explore(dying_in_a_line(scenario, 2), 1000));
}

/// A device becomes a pool again: first it is none, then its tables are cleared, then it is one.
TEST(PoolCreation, DeviceIsNoPoolWhileTablesAreCleared) {
  const SimulatedPool pool;
  Scenario scenario = pool.scenario("pool, superblock wiped and written", 2);
  scenario.faults.max_delay = 40;  // a reader must not look for ever at a half-written line
  scenario.body = [&pool](World& world) {
    auto done = std::make_shared<bool>(false);
    const auto parts_of = [&world, &pool](device::Access access) {
      auto parts = device::open_parts(pool.path(), access);
      world.require(parts.has_value(), "the file is missing");
      return std::move(*parts);
    };
    constexpr std::uint64_t table = 1 << 20;
    world.spawn(0, [&world, &pool, parts_of, done] {
      const auto parts = parts_of(device::Access::write);
      const auto superblock = pool::check_superblocks(parts, pool.path());
      world.require(superblock.has_value(), "there is no pool at the beginning");
      const auto wiped = device::wipe_superblock(parts[0]);
      world.require(wiped.has_value(), "not wiped");
      world.memory().publish_word(world.base() + table, 1);
      for (int i = 0; i < 100; ++i)
        world.yield();  // it could leave before the wipe, if it were
                        // allowed to
      world.memory().full_fence();
      world.sleep(10'000'000);
      world.memory().publish_word(world.base() + table, 2);
      const auto written = device::write_superblock(parts[0], *superblock);
      world.require(written.has_value(), "not written");
      wait_until(world, "the reader", [&] { return *done; });
    });
    world.spawn(1, [&world, &pool, parts_of, done] {
      const auto parts = parts_of(device::Access::read);
      for (int looks = 0;; ++looks) {
        world.require(looks < 3000, "the superblock never appears");
        const std::uint64_t before = world.memory().observe_word(world.base() + table);
        const auto found = pool::check_superblocks(parts, pool.path());
        const std::uint64_t after = world.memory().observe_word(world.base() + table);
        if (found) {
          world.require(before == 0 || after == 2, "the pool's tables are not cleared");
          if (after == 2) break;
        } else {
          const bool being_wiped = before == 0;
          world.require(being_wiped || found.error().message.find("is not a Penstock pool") !=
                                           std::string::npos,
                        found.error().message);
        }
        world.yield();
      }
      *done = true;
    });
  };
  expect_held("pool", "random schedules", explore(scenario, 150));
  // Slowly: a store that must not overtake the wipe has time to do so.
  scenario.swarm = false;
  scenario.faults.whole_lines = true;
  scenario.faults.deliver = 5;
  scenario.faults.max_delay = 4000;
  expect_held("pool", "random schedules", explore(scenario, 150));
}

/// A stale copy of an older superblock in this node's cache is not used.
TEST(PoolCreation, ASuperblockIsReadAnewEachTime) {
  const SimulatedPool pool;
  Scenario scenario = pool.scenario("pool, superblock read again", 2);
  scenario.body = [&pool](World& world) {
    auto step = std::make_shared<int>(0);
    const auto read = [&pool] {
      const auto parts = device::open_parts(pool.path(), device::Access::read);
      return pool::check_superblocks(*parts, pool.path());
    };
    const auto reach = [&world, step](int wanted) {
      wait_until(world, "the other", [&] { return *step == wanted; });
    };
    world.spawn(0, [&world, &pool, step, read, reach] {
      const auto parts = device::open_parts(pool.path(), device::Access::write);
      auto superblock = read();
      world.require(superblock.has_value(), "there is no pool at the beginning");
      reach(1);
      world.require(device::wipe_superblock((*parts)[0]).has_value(), "not wiped");
      world.memory().full_fence();
      *step = 2;
      reach(3);
      superblock->created_wall_ns = 77;
      world.require(device::write_superblock((*parts)[0], *superblock).has_value(), "not written");
      world.memory().full_fence();
      *step = 4;
    });
    world.spawn(1, [&world, step, read, reach] {
      world.require(read().has_value(), "there is no pool at the beginning");
      *step = 1;
      reach(2);
      world.require(!read(), "a wiped pool is still seen");
      *step = 3;
      reach(4);
      const auto written = read();
      world.require(written && written->created_wall_ns == 77, "an older superblock is seen");
    });
  };
  expect_held("pool", "random schedules", explore(scenario, 60));
}

// ---- nodes that restart -------------------------------------------------------------------------

/// One machine, which restarts as often as there are nodes in the simulation.
pool::Caller of_one_machine(World& world) {
  pool::Caller caller{world.host(world.self().node), world.identity(world.self())};
  caller.host.machine_id = world.host(0).machine_id;
  return caller;
}

struct Seat {
  std::uint32_t node = ~0u;
  std::uint64_t token = 0;
};

/// Boots 0, 1 and 2 of one machine one after another; an onlooker on another machine locks and
/// looks.
Scenario restarts(const SimulatedPool& pool, std::uint32_t mortal) {
  Scenario scenario =
      pool.scenario(fmt::format("pool, a machine starts again, boot {} dies anywhere", mortal), 4);
  scenario.faults.same_speed = true;
  scenario.body = [&pool, mortal](World& world) {
    auto seats = std::make_shared<std::map<std::uint32_t, Seat>>();
    for (std::uint32_t boot = 0; boot < 3; ++boot) {
      Process& process = world.spawn(boot, [&world, &pool, seats, boot] {
        wait_until(world, "the boot before",
                   [&] { return boot == 0 || gone(*world.processes()[boot - 1]); });
        const auto attached = pool.attach(world, of_one_machine(world), {.emulated_node = 5});
        const auto before = seats->find(boot - 1);
        // A death in the middle of a node's line costs the machine its number.
        world.require(before == seats->end() || world.victim()->dead ||
                          before->second.node == attached->node(),
                      "the machine has another number than before");
        for (const auto& [other, seat] : *seats) {
          world.require(seat.token != attached->token(), "a token is used twice");
        }
        (*seats)[boot] = {attached->node(), attached->token()};
        const auto guard = attached->lock();
        world.require(guard.has_value(), guard ? "" : guard.error().message);
      });
      if (boot == mortal) world.mark_victim(process);
    }
    world.spawn(3, [&world, &pool, seats] {
      const auto attached = pool.attach(world);
      bool all = false;
      for (int looks = 0; !all; ++looks) {
        world.require(looks < 20'000, "the dead never leave the table");
        all = gone(*world.processes()[2]);
        const auto reaped = attached->reclaim().reap([](const auto&) {});
        world.require(reaped.has_value(), reaped ? "" : reaped.error().message);
        for (const pool::ProcessRecord& record : attached->members().processes()) {
          const auto number = static_cast<std::uint32_t>(record.pid) - 1'000'000'000;
          if (number == 3) continue;
          all = all && !record.attached;
          world.require(record.emulated_node == std::optional<std::uint32_t>(5) ||
                            (!record.emulated_node && world.victim()->dead),
                        "the node's line is not the earlier one");
          world.require(record.node != attached->node(), "two machines have the same number");
        }
        world.sleep(4'000'000);
      }
    });
  };
  return scenario;
}

TEST(Pool, AMachineThatStartsAgainKeepsItsNumber) {
  const SimulatedPool pool;
  expect_held("pool", "random schedules", explore(restarts(pool, 0), 30));
  expect_held("pool", "crash points", crash_everywhere(restarts(pool, 0), 60));
  expect_held("pool", "crash points", crash_everywhere(restarts(pool, 1), 60));
}

using NumbersHeld = std::map<std::uint32_t, std::uint32_t>;  ///< process -> its node's number

/// Stays attached for `ns` as a clone of the machine, with a number that no other node holds.
void stay(World& world, const SimulatedPool& pool, NumbersHeld& held, std::uint64_t ns) {
  const auto attached = pool.attach(world, of_one_machine(world));
  for (const auto& [other, number] : held) {
    world.require(number != attached->node(), "two living nodes have the same number");
  }
  held[world.self().number] = attached->node();
  world.sleep(ns);
  held.erase(world.self().number);
}

/// Copies of one machine, all alive: each has a number while it is attached.
TEST(Pool, ClonesOfAMachineNeverShareANumber) {
  const SimulatedPool pool;
  Scenario scenario = pool.scenario("pool, clones", 2);
  scenario.faults.same_speed = true;
  scenario.body = [&pool](World& world) {
    auto attached_as = std::make_shared<NumbersHeld>();
    for (std::uint32_t node = 0; node < 2; ++node) {
      world.spawn(node, [&world, &pool, attached_as] {
        for (int round = 0; round < 3; ++round) {
          stay(world, pool, *attached_as, world.random() % 1'000'000);
        }
      });
    }
  };
  expect_held("pool", "random schedules", explore(scenario, 100));
}

/// A machine leaves and comes back, just while a clone that takes its number over hesitates.
TEST(Pool, ReturningMachineNeverSharesNumber) {
  const SimulatedPool pool;
  Scenario scenario = pool.scenario("pool, a machine comes back to its clone", 3);
  scenario.faults.max_delay = 10;  // counted in operations, which are few when all sleep
  scenario.faults.same_speed = true;
  scenario.body = [&pool](World& world) {
    auto attached_as = std::make_shared<NumbersHeld>();
    auto again_ns = std::make_shared<std::uint64_t>(0);  // the time at which all begin, roughly
    const auto begin = [&world, again_ns](std::uint64_t later_ns) {
      wait_until(world, "the machine to leave", [&] { return *again_ns != 0; });
      world.sleep(*again_ns - world.now_ns() + later_ns + world.random() % 20'000);
    };
    constexpr std::uint64_t look_ns = 2'000'000;  // of the clone, for signs of life
    const auto stay_long = [&world, &pool, attached_as] {
      constexpr std::uint64_t longer_than_a_take_over_ns = 200'000'000;
      stay(world, pool, *attached_as, longer_than_a_take_over_ns);
    };
    world.spawn(0, [&world, &pool, stay_long, begin, again_ns] {
      { const auto attached = pool.attach(world, of_one_machine(world)); }
      *again_ns = world.now_ns() + 10'000'000;
      begin(look_ns);
      stay_long();
    });
    Process& clone = world.spawn(1, [stay_long, begin] {
      begin(0);
      stay_long();
    });
    world.spawn(2, [&world, &clone, begin] {
      begin(look_ns);
      clone.stopped = true;
      world.sleep(1'000'000);
      clone.stopped = false;
    });
  };
  expect_held("pool", "random schedules", explore(scenario, 400));
}

/// No process lives on the machine, and two clones of it want its number.
TEST(Pool, OneOfTwoClonesTakesANumberOver) {
  const SimulatedPool pool;
  Scenario scenario = pool.scenario("pool, two clones take over", 3);
  scenario.faults.max_delay = 10;  // counted in operations, which are few when all sleep
  scenario.faults.same_speed = true;
  scenario.body = [&pool](World& world) {
    auto numbers = std::make_shared<std::set<std::uint32_t>>();
    const auto left = [&world] { return world.processes()[0]->ended; };
    world.spawn(0, [&world, &pool] { pool.attach(world, of_one_machine(world)); });
    for (std::uint32_t node = 1; node <= 2; ++node) {
      world.spawn(node, [&world, &pool, numbers, left] {
        wait_until(world, "the machine to leave", left);
        const auto attached = pool.attach(world, of_one_machine(world));
        world.require(numbers->insert(attached->node()).second, "two nodes have the same number");
        wait_until(world, "the other clone", [&] { return numbers->size() == 2; });
      });
    }
  };
  expect_held("pool", "random schedules", explore(scenario, 400));
  scenario.swarm = false;
  scenario.faults.hold_unordered = true;
  expect_held("pool", "random schedules", explore(scenario, 400));
}

// ---- leaving -----------------------------------------------------------------------------------

/// A process that reads another's state as detached or reaped also reads its earlier stores.
TEST(Pool, FreeSlotShowsEarlierStores) {
  const SimulatedPool pool;
  Scenario scenario = pool.scenario("pool, leaving is told last", 3);
  scenario.body = [&pool](World& world) {
    auto token = std::make_shared<std::uint64_t>(0);
    auto watching = std::make_shared<bool>(false);
    const auto mark = [](const pool::Pool& attached) {
      return attached.base() + attached.info().arena_offset;
    };
    world.spawn(0, [&world, &pool, token, watching, mark] {
      {
        const auto attached = pool.attach(world);
        *token = attached->token();
        wait_until(world, "the onlooker", [&] { return *watching; });
        attached->memory().publish_word(mark(*attached), 1);
      }
      wait_until(world, "the onlooker", [&] { return world.processes()[1]->ended; });
    });
    world.spawn(1, [&world, &pool, token, watching, mark] {
      const auto attached = pool.attach(world);
      world.require(attached->memory().observe_word(mark(*attached)) == 0, "marked too early");
      wait_until(world, "the other", [&] { return *token != 0; });
      world.require(attached->alive(*token), "taken for dead");
      *watching = true;
      const auto listed = [&] {
        const auto records = attached->members().processes();
        return std::any_of(records.begin(), records.end(), [&](const auto& record) {
          return record.attached && record.pid == 1'000'000'000;
        });
      };
      wait_until(world, "it to leave", [&] { return !attached->alive(*token); });
      world.require(attached->memory().observe_word(mark(*attached)) == 1,
                    "a store of a departed process is still on its way");
      for (int looks = 0; listed(); ++looks) {
        world.require(looks < 100, "the table never says that it has left");
        world.sleep(2'000'000);
      }
    });
  };
  expect_held("pool", "random schedules", explore(scenario, 150));
}

/// The progress that an attaching process has published, and whether the onlooker has read it.
struct Shown {
  std::uint64_t token = 0, beat = 0;
  bool seen = true, over = false;
};

void look_on(World& world, const pool::AttachingTable& attaching, Shown& shown) {
  while (!shown.over) {
    wait_until(world, "a visit", [&] { return !shown.seen || shown.over; });
    for (int looks = 0; !shown.seen; ++looks) {
      world.require(looks < 100, "an attaching process is not seen");
      const auto line = attaching.read(2);
      shown.seen = line && line->generation == shown.token >> 16 && line->beat == shown.beat;
      world.sleep(1'000'000);
    }
  }
}

/// Two nodes use one line in turn, as after a machine was declared dead: no token occurs twice. The
/// line of an attaching process is on its way when its publish returns.
TEST(Pool, EachVisitHasATokenOfItsOwn) {
  const SimulatedPool pool;
  Scenario scenario = pool.scenario("pool, attaching processes", 3);
  scenario.faults.max_delay = 10;  // counted in operations, which are few when all sleep
  scenario.body = [&pool](World& world) {
    auto turn = std::make_shared<std::uint32_t>(0);
    auto shown = std::make_shared<Shown>();
    auto tokens = std::make_shared<std::set<std::uint64_t>>();
    const auto table = [&world, &pool] {
      const auto parts = device::open_parts(pool.path(), device::Access::read);
      const auto superblock = pool::check_superblocks(*parts, pool.path());
      return pool::AttachingTable(world.memory(), world.base(), *superblock);
    };
    const auto show = [&world, shown](std::uint64_t token, std::uint64_t beat) {
      *shown = {token, beat, false, false};
      wait_until(world, "the onlooker", [&] { return shown->seen; });
    };
    for (std::uint32_t node = 0; node < 2; ++node) {
      world.spawn(node, [&world, table, show, turn, shown, tokens, node] {
        const pool::AttachingTable attaching = table();
        for (int round = 0; round < 4; ++round) {
          wait_until(world, "the other's visit", [&] { return *turn % 2 == node; });
          pool::Visit visit(attaching, 2,
                            attaching.next(2, world.host(node), world.identity(world.self())));
          visit.begin();
          const std::uint64_t token = visit.token();
          world.require(tokens->insert(token).second, "two visits have the same token");
          show(token, 1);
          visit.beat(/*unlocked=*/true);
          world.memory().full_fence();
          show(token, 2);
          const auto own = attaching.read(2);  // the copy is old when this node visits again
          world.require(own && own->beat == 2, "an attaching process does not see itself");
          ++*turn;
        }
        shown->over = *turn == 8;
      });
    }
    world.spawn(2, [&world, table, shown] { look_on(world, table(), *shown); });
  };
  expect_held("pool", "random schedules", explore(scenario, 60));
}

}  // namespace
}  // namespace penstock::sim

// Numbers of nodes pass from host to host: late stores of the earlier host's processes, and dirty
// lines in its caches, must not harm the next host.
#include <gtest/gtest.h>

#include <array>
#include <map>

#include "device/superblock.hpp"
#include "pool/attaching.hpp"
#include "pool/checksummed_line.hpp"
#include "pool/lease.hpp"
#include "pool/node_table.hpp"
#include "pool/verdicts.hpp"
#include "sim/tests/expect_held.hpp"
#include "sim/tests/simulated_pool.hpp"
#include "sync/lock_line.hpp"

namespace penstock::sim::node_numbers_test {
namespace {

/// Host 1 stays. Host 0 comes, and something happens to it while it attaches. Host 2 gets its
/// number, and takes turns with host 1.
struct Story {
  Process* holder = nullptr;  ///< of the pool's lock
  std::map<std::uint32_t, Process*> slots;
  std::map<std::uint32_t, std::uint32_t> numbers;  ///< by host
  bool first_is_there = false, over = false;
  bool busy = false;  ///< host 1 takes turns without a pause
  int turns = 0;      ///< of host 2
};

using Attached = std::unique_ptr<pool::Pool>;

/// Null: there is no room, as long as the dead have not certainly ended.
Attached attach_if_room(World& world, const SimulatedPool& simulated) {
  ::setenv("PENSTOCK_LEASE_MS", std::to_string(simulated.lease_ns(world) / 1'000'000).c_str(), 1);
  auto attached = pool::attach_as({.spec = simulated.path()},
                                  {world.host(world.self().node), world.identity(world.self())});
  world.require(attached || attached.error().code == ErrorCode::no_slots,
                attached ? "" : attached.error().message);
  return attached ? std::move(*attached) : nullptr;
}

/// Stays attached for a while, and holds the lock for a part of it.
void take_a_turn(World& world, pool::Pool& pool, Story& story) {
  Process& self = world.self();
  const auto whose = story.slots.find(pool.slot());
  world.require(whose == story.slots.end() || gone(*whose->second) || whose->second == &self,
                "two processes have the same slot");
  story.slots[pool.slot()] = &self;
  story.numbers[self.node] = pool.node();
  world.require(story.numbers.count(1) == 0 || story.numbers.count(2) == 0 ||
                    story.numbers[1] != story.numbers[2],
                "two hosts have the same number");
  for (int times = 0; times < 2; ++times) {
    const auto guard = pool.lock();
    world.require(guard.has_value(), guard ? "" : guard.error().message);
    world.require(story.holder == nullptr, "two hold the lock");
    story.holder = &self;
    for (int looks = 0; looks < 60; ++looks) (void)pool.memory().observe_word(pool.base());
    world.require(story.holder == &self, "two hold the lock");
    story.holder = nullptr;
  }
  story.slots.erase(pool.slot());
}

/// `happens`: what happens to host 0.
Scenario one_after_another(const SimulatedPool& pool, const std::string& name,
                           const std::function<void(World&, Process&, Story&)>& happens) {
  Scenario scenario = pool.scenario("pool, numbers of nodes, " + name, 3);
  scenario.faults.same_speed = true;
  scenario.max_steps = 6'000'000;
  scenario.body = [&pool, happens](World& world) {
    auto story = std::make_shared<Story>();
    Process& first = world.spawn(0, [&world, &pool, story] {
      world.until([&] { return story->first_is_there; });
      (void)attach_if_room(world, pool);
    });
    first.may_exit = true;
    world.spawn(1, [&world, &pool, story] {
      const auto stays = pool.attach(world);
      story->first_is_there = true;
      while (!story->over) {
        take_a_turn(world, *stays, *story);
        if (!story->busy) world.sleep(20'000'000);
        if (world.random() % 2 == 0) world.sleep(world.random() % 500'000);
      }
    });
    world.spawn(2, [&world, &pool, story, &first] {
      world.until([&] { return gone(first) || first.stopped; });
      for (; !story->over; ++story->turns) {
        const auto attached = attach_if_room(world, pool);
        if (attached) take_a_turn(world, *attached, *story);
        if (!attached) world.sleep(pool.lease_ns(world));
      }
    });
    happens(world, first, *story);
  };
  return scenario;
}

// ---- stopped -----------------------------------------------------------------------------------

/// It is stopped after any look, declared dead, and goes on when its number belongs to another
/// host.
Scenario goes_on_late(const SimulatedPool& pool) {
  Scenario scenario = one_after_another(
      pool, "stopped for leases", [&pool](World& world, Process& first, Story& story) {
        first.stops_after_load = 1 + world.random() % 500;
        world.spawn(1, [&world, &pool, &first, &story] {
          world.until([&] { return gone(first) || first.stopped; });
          const std::uint64_t until = world.now_ns() + 20 * pool.lease_ns(world);
          world.until([&] { return story.turns > 0 || world.now_ns() > until; });
          for (std::uint64_t yields = world.random() % 100; yields > 0; --yields) world.yield();
          story.busy = true;
          first.stopped = false;
          const int turns = story.turns;
          world.until([&] { return story.turns > turns + 6 || world.now_ns() > 2 * until; });
          story.over = true;
        });
      });
  scenario.faults.max_delay = 10;  // when all sleep, a delayed heartbeat is late by several leases
  return scenario;
}

TEST(NodeNumbers, LateProcessKeepsOffNextOwner) {
  const SimulatedPool pool({.max_processes = 8, .max_nodes = 2});
  expect_held("pool", "random schedules", explore(goes_on_late(pool), 60));
}

TEST(NodeNumbers, LateProcessKeepsOffBlocksOfNextOwner) {
  const SimulatedPool pool({.max_processes = 32, .max_nodes = 2});
  expect_held("pool", "random schedules", explore(goes_on_late(pool), 60));
}

// ---- stores of a process that was declared dead -------------------------------------------------

/// The tables of the pool, for a process that takes the place of a stopped one.
class Tables {
 public:
  Tables(World& world, const SimulatedPool& pool)
      : memory_(world.memory()),
        base_(world.base()),
        superblock_(*pool::check_superblocks(*device::open_parts(pool.path(), device::Access::read),
                                             pool.path())),
        attaching_(memory_, base_, superblock_),
        processes_(memory_, base_, superblock_),
        verdicts_(memory_, base_, superblock_),
        nodes_(memory_, base_, superblock_) {}

  /// Returns true if the others can see that it exists; it is then declared dead.
  bool give_up(const Process& late) {
    bool given_up = false;
    for (std::uint32_t number = 0; attaching_.has(number); ++number) {
      const auto visit = attaching_.look(number);
      if (!visit.whole || visit.line.pid != late.pid || visit.line.beat == 0) continue;
      verdicts_.publish(pool::attaching_token(visit.line.generation, number), pool::attaching_bit);
      another_comes(number);
      given_up = true;
    }
    for (const pool::SlotView& view : processes_.used()) {
      if (!view.whole || !view.attached() || view.line.pid != late.pid) continue;
      verdicts_.publish(pool::make_token(view.line.generation, view.slot), 0);
      pool::StateLine line = view.line;
      ++line.generation;
      line.pid = 1;
      processes_.publish_state(view.slot, line);
      note(superblock_.states_offset + view.slot * sizeof line);
      given_up = true;
    }
    return given_up;
  }

  /// Another host gets the numbers that have been taken.
  void replace_hosts(const pool::HostIdentity& other) {
    for (const pool::NodeTable::Entry& entry : nodes_.entries()) {
      if (!entry.registered()) continue;
      pool::NodeLine line = entry.line;
      line.boot_id = other.boot_id;
      line.machine_id = other.machine_id;
      ++line.incarnation;
      const std::uint64_t place = superblock_.nodes_offset + entry.node * sizeof line;
      pool::publish_checksummed_line(memory_, base_, place, line);
      note(place);
      another_comes(entry.node);
    }
  }

  /// A process of an earlier host of `node` begins a visit when `host` has entered itself there.
  void come_back_after(World& world, const pool::HostIdentity& host, std::uint32_t node) {
    for (int looks = 0; looks < 1000; ++looks, world.sleep(1'000'000)) {
      const auto line = nodes_.read(node);
      if (line && line->boot_id == host.boot_id) return another_comes(node);
    }
  }

  /// Whether no process has stored to the replaced entries.
  bool untouched() const {
    return std::all_of(replaced_.begin(), replaced_.end(),
                       [this](const auto& line) { return line.second == read(line.first); });
  }

 private:
  using Words = std::array<std::uint64_t, 8>;
  Words read(std::uint64_t place) const {
    Words words;
    memory_.observe_line(words.data(), base_ + place);
    return words;
  }
  void note(std::uint64_t place) {
    memory_.full_fence();
    replaced_[place] = read(place);
  }
  /// To the line of visits, and into the lock of the processes that have lines there.
  void another_comes(std::uint32_t number) {
    pool::AttachingLine line = attaching_.look(number).line;
    line.generation += 2;
    line.beat = 1;
    line.pid = 1;
    attaching_.publish(number, line);
    note(superblock_.attaching_offset + number * sizeof line);
    sync::LockLine waits{.token = pool::attaching_token(line.generation, number), .number = 1};
    waits.checksum = sync::lock_checksum(waits);
    const bool of_a_node = number < superblock_.max_nodes;
    const std::uint64_t place = of_a_node ? superblock_.lock_offset + number * sizeof waits
                                          : superblock_.registration_offset +
                                                (number - superblock_.max_nodes) * sizeof waits;
    memory_.publish_line(base_ + place, &waits);
    note(place);
  }

  coherence::Memory memory_;
  std::byte* base_;
  device::Superblock superblock_;
  pool::AttachingTable attaching_;
  pool::ProcessTable processes_;
  pool::VerdictTable verdicts_;
  pool::NodeTable nodes_;
  std::map<std::uint64_t, Words> replaced_;  ///< by place
};

/// `does` is stopped after one of the first `loads` of its loads, declared dead, and goes on when
/// all it had belongs to another.
struct Late {
  std::string name;
  std::function<void(World&)> before, does;
  std::uint64_t loads = 150;
  std::function<void(World&)> meanwhile{};  ///< run by a process of node 2
};

Scenario given_up_behind_a_load(const SimulatedPool& pool, const Late& who) {
  Scenario scenario = pool.scenario("pool, given up behind a load, " + who.name, 4);
  scenario.faults.same_speed = true;
  scenario.faults.max_delay = 10;
  scenario.max_steps = 6'000'000;
  scenario.body = [&pool, who](World& world) {
    Process& late = world.spawn(0, [&world, who] {
      if (who.before) who.before(world);
      world.self().stops_after_load = world.self().loads + 1 + world.random() % who.loads;
      who.does(world);
    });
    late.may_exit = true;
    if (who.meanwhile) world.spawn(2, [&world, who] { who.meanwhile(world); });
    world.spawn(1, [&world, &pool, &late] {
      wait_until(world, "it to be stopped", [&] { return late.stopped || gone(late); });
      if (gone(late)) return;
      // its stores arrive while it is stopped
      for (const auto& thread : late.threads) thread->core->drain();
      world.sleep(2 * pool.lease_ns(world));
      Tables tables(world, pool);
      const bool given_up = tables.give_up(late);
      tables.replace_hosts(world.host(9));
      const std::uint64_t publishes = late.publishes;
      late.stopped = false;
      const std::uint64_t until = world.now_ns() + pool.lease_ns(world) / 2;
      world.until([&] { return gone(late) || world.now_ns() > until; });
      for (const auto& thread : late.threads) thread->core->drain();
      world.require(tables.untouched(), "it stored to lines that belong to another");
      const bool ends = given_up && late.exit_status == pool::declared_dead_status;
      world.require(!ends || late.publishes == publishes, "it stored before it ended");
      world.kill(late);
    });
  };
  return scenario;
}

void attach_and_lock(World& world, const SimulatedPool& pool) {
  const auto attached = attach_if_room(world, pool);
  if (attached) (void)attached->lock();
}

TEST(GivenUpBehindALoad, ANewHostStoresNothing) {
  const SimulatedPool pool({.max_processes = 8, .max_nodes = 4});
  const Late late{"a new host", {}, [&pool](World& world) { attach_and_lock(world, pool); }};
  expect_held("pool", "random schedules", explore(given_up_behind_a_load(pool, late), 200));
}

/// All entries of the table belonged to others, one of which is not needed.
TEST(GivenUpBehindALoad, AHostThatTakesAnothersNumberStoresNothing) {
  SimulatedPool pool({.max_processes = 8, .max_nodes = 1});
  pool.once([&](World& world) {
    (void)pool.attach(world, pool::Caller{world.host(5), world.identity(world.self())});
  });
  const Late late{
      "in another's place", {}, [&pool](World& world) { attach_and_lock(world, pool); }};
  expect_held("pool", "random schedules", explore(given_up_behind_a_load(pool, late), 200));
}

TEST(GivenUpBehindALoad, AHostThatComesBackStoresNothing) {
  const SimulatedPool pool({.max_processes = 8, .max_nodes = 4});
  const auto does = [&pool](World& world) { attach_and_lock(world, pool); };
  const Late late{"a host that comes back", does, does, 80};
  expect_held("pool", "random schedules", explore(given_up_behind_a_load(pool, late), 200));
}

pool::HostIdentity restarted(const World& world) {
  pool::HostIdentity host = world.host(0);
  host.boot_id[2] = 1;
  return host;
}

/// It takes over its earlier entry.
Late after_a_restart(const SimulatedPool& pool) {
  return {.name = "a host that was restarted",
          .before = [&pool](World& world) { attach_and_lock(world, pool); },
          .does =
              [&pool](World& world) {
                (void)pool::attach_as({.spec = pool.path()},
                                      {restarted(world), world.identity(world.self())});
              },
          .loads = 60};
}

TEST(GivenUpBehindALoad, AHostThatWasRestartedStoresNothing) {
  const SimulatedPool pool({.max_processes = 8, .max_nodes = 4});
  expect_held("pool", "random schedules",
              explore(given_up_behind_a_load(pool, after_a_restart(pool)), 200));
}

/// The earlier host comes back meanwhile, so it gets its entry back.
TEST(GivenUpBehindALoad, HostThatReturnsEntryStoresNothing) {
  const SimulatedPool pool({.max_processes = 8, .max_nodes = 4});
  Late late = after_a_restart(pool);
  late.name = "a host that gives an entry back";
  late.meanwhile = [&pool](World& world) {
    Tables(world, pool).come_back_after(world, restarted(world), 0);
  };
  expect_held("pool", "random schedules", explore(given_up_behind_a_load(pool, late), 200));
}

// ---- killed ------------------------------------------------------------------------------------

/// It is killed in the middle of a line before it has a slot, and its host lives on: dirty lines
/// leave that host's caches when the number and the name belong to others. No process waits for
/// them to be flushed.
TEST(NodeNumbers, DirtyLinesOfDeadOverwriteNobody) {
  const SimulatedPool pool({.max_processes = 8, .max_nodes = 4});
  Scenario scenario = pool.scenario("pool, numbers of nodes, killed in a line", 2);
  scenario.swarm = false;
  scenario.faults.stored = 1000;
  scenario.faults.evict = 0;
  scenario.body = [&pool](World& world) {
    Process& first = world.spawn(0, [&world, &pool] { (void)attach_if_room(world, pool); });
    first.dies_after_publish = 1 + world.random() % 40;
    world.spawn(1, [&world, &pool, &first] {
      wait_until(world, "its end", [&] { return gone(first); });
      Tables tables(world, pool);
      (void)tables.give_up(first);
      tables.replace_hosts(world.host(9));
      world.evict_left_dirty();
      world.require(tables.untouched(), "dirty lines of the dead overwrote another's lines");
    });
  };
  expect_held("pool", "deaths within a line", explore(scenario, 200));
}

// ---- a line of attaching processes -------------------------------------------------------------

/// A foreign process's store there must not count as a token for ever.
TEST(NodeNumbers, AVisitEndsWhateverStoodInItsLine) {
  const SimulatedPool pool;
  Scenario scenario = pool.scenario("pool, a line of visits was overwritten", 2);
  scenario.body = [&pool](World& world) {
    world.spawn(0, [&world, &pool] {
      const auto parts = device::open_parts(pool.path(), device::Access::read);
      const auto superblock = pool::check_superblocks(*parts, pool.path());
      const pool::AttachingTable attaching(world.memory(), world.base(), *superblock);
      (void)pool.attach(world);
      for (int round = 0; round < 3; ++round) {
        for (std::uint32_t word = 0; word < 8; ++word)
          world.memory().publish_word(world.base() + superblock->attaching_offset + 8 * word,
                                      round == 0 ? ~0ull : world.random());
        world.memory().full_fence();
        for (int times = 0; times < 2; ++times) {
          const auto attached = pool.attach(world);
          const auto line = attaching.read(0);
          world.require(line && line->beat == 0, "a visit has not ended");
        }
      }
    });
  };
  expect_held("pool", "random schedules", explore(scenario, 20));
}

}  // namespace
}  // namespace penstock::sim::node_numbers_test

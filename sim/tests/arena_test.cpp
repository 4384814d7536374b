// Objects by name: made, opened, destroyed and reclaimed on nodes without coherence, by processes
// that die anywhere.
#include <gtest/gtest.h>

#include <array>
#include <map>
#include <set>

#include "pool/members.hpp"
#include "sim/tests/expect_held.hpp"
#include "sim/tests/simulated_pool.hpp"

namespace penstock::sim {
namespace {

using arena::Arena;
using arena::Lifetime;
using arena::Object;

class ArenaPool : public SimulatedPool {
 public:
  explicit ArenaPool(const PoolOptions& options = {}) : SimulatedPool(options) { format_arena(); }
};

/// A process that works with objects. It detaches in the order of its destructors.
struct Worker {
  Worker(
      World& the_world, const SimulatedPool& simulated,
      const std::function<void()>& when_attached = [] {})
      : world(the_world), pool(simulated.attach(world)) {
    when_attached();
    arena = simulated.open_arena(world, *pool);
  }

  Object create(const std::string& name, std::uint64_t bytes,
                const arena::CreateOptions& options = {}) {
    const auto made = arena->create(name, bytes, options);
    world.require(made.has_value(), made ? "" : made.error().message);
    return *made;
  }
  void destroy(const Object& object) {
    const auto destroyed = arena->destroy(object);
    world.require(destroyed.has_value(), destroyed ? "" : destroyed.error().message);
  }
  void fill(const Object& object, std::uint64_t value) {
    const std::vector<std::uint64_t> words(object.bytes / 8, value);
    pool->memory().publish_bulk(object.data, words.data(), object.bytes);
    pool->memory().full_fence();  // others are told by other means than the pool
  }
  std::vector<std::uint64_t> contents(const Object& object) {
    std::vector<std::uint64_t> words(object.bytes / 8);
    pool->memory().observe_bulk(words.data(), object.data, object.bytes);
    return words;
  }
  /// The arena is empty, and its space is one piece again.
  void require_empty() {
    const arena::Stats stats = arena->stats();
    world.require(stats.objects == 0 && stats.bytes_used == 0 &&
                      stats.bytes_largest_free == stats.bytes_total - line_bytes,
                  fmt::format("{} objects with {} bytes are left, {} of {} are free", stats.objects,
                              stats.bytes_used, stats.bytes_largest_free, stats.bytes_total));
    world.require(arena->list().empty(), "names are left");
  }

  World& world;
  std::unique_ptr<pool::Pool> pool;
  std::unique_ptr<Arena> arena;
};

constexpr std::uint64_t object_bytes = 3 * line_bytes;

/// All processes meet here, any number of times.
class Rendezvous {
 public:
  explicit Rendezvous(std::uint32_t count) : count_(count) {}
  void meet(World& world) {
    const std::uint64_t round = ++arrived_[world.self().number];
    wait_until(world, "the others", [&] {
      std::uint32_t here = 0;
      for (const auto& [number, times] : arrived_) {
        here += times >= round && !world.processes()[number]->dead;
      }
      std::uint32_t dead = 0;
      for (const auto& process : world.processes()) dead += process->dead;
      return here + dead >= count_;
    });
  }

 private:
  std::uint32_t count_;
  std::map<std::uint32_t, std::uint64_t> arrived_;
};

// ---- creation ----------------------------------------------------------------------------------

/// All create one name at once; the contents must be zero although all wrote to the space before.
Scenario race_for_a_name(const SimulatedPool& pool, std::uint32_t processes, bool open_existing) {
  Scenario scenario = pool.scenario(
      fmt::format("arena, {} create one name{}", processes, open_existing ? " or open it" : ""), 2);
  scenario.body = [&pool, processes, open_existing](World& world) {
    auto rendezvous = std::make_shared<Rendezvous>(processes);
    auto winners = std::make_shared<std::map<int, std::set<std::uint32_t>>>();
    auto places = std::make_shared<std::map<int, std::uint64_t>>();
    for (std::uint32_t i = 0; i < processes; ++i) {
      world.spawn(i % 2, [&world, &pool, rendezvous, winners, places, processes, open_existing] {
        Worker worker(world, pool);
        for (int round = 0; round < 4; ++round) {
          const auto made =
              worker.arena->create("contended", object_bytes, {.open_existing = open_existing});
          if (made) (*winners)[round].insert(world.self().number);
          world.require(made || made.error().code == ErrorCode::already_exists,
                        made ? "" : made.error().message);
          rendezvous->meet(world);
          world.require((*winners)[round].size() == (open_existing ? processes : 1),
                        "not exactly one process made the object");
          const auto opened = worker.arena->open("contended");
          world.require(opened.has_value(), "the name is missing");
          const auto place = places->emplace(round, opened->generation).first;
          world.require(place->second == opened->generation, "two processes made the object");
          for (const std::uint64_t word : worker.contents(*opened)) {
            world.require(word == 0, "a new object is not zero");
          }
          rendezvous->meet(world);
          worker.fill(*opened, 7);
          rendezvous->meet(world);
          if (*(*winners)[round].begin() == world.self().number) worker.destroy(*opened);
          rendezvous->meet(world);
        }
      });
    }
  };
  scenario.after = [&pool](World& world) { Worker(world, pool).require_empty(); };
  return scenario;
}

TEST(Arena, AllSeeNewObjectZeroed) {
  const ArenaPool pool;
  expect_held("arena", "random schedules", explore(race_for_a_name(pool, 2, false), 60));
  expect_held("arena", "random schedules", explore(race_for_a_name(pool, 4, true), 60));
}

/// The first processes to arrive format the arena.
Scenario formatting(const SimulatedPool& pool) {
  Scenario scenario = pool.scenario("arena, format", 3);
  scenario.body = [&pool](World& world) {
    auto rendezvous = std::make_shared<Rendezvous>(3);
    for (std::uint32_t i = 0; i < 3; ++i) {
      Process& process = world.spawn(i, [&world, &pool, rendezvous] {
        Worker worker(world, pool);
        const Object own = worker.create(fmt::format("object {}", world.self().number), 100);
        rendezvous->meet(world);
        for (const auto& other : world.processes()) {
          if (other->dead) continue;
          world.require(worker.arena->open(fmt::format("object {}", other->number)).has_value(),
                        "a name is missing");
        }
        rendezvous->meet(world);
        worker.destroy(own);
      });
      if (i == 0) world.mark_victim(process);
    }
  };
  return scenario;
}

TEST(Arena, IsFormattedOnce) {
  const SimulatedPool pool;
  expect_held("arena", "random schedules", explore(formatting(pool), 60));
  expect_held("arena", "crash points", crash_everywhere(formatting(pool), 60));
  expect_held("arena", "deaths within a line", explore(dying_in_a_line(formatting(pool), 40), 150));
}

/// A process that may not take the lock waits for others to format.
TEST(Arena, ObserverFindsFormattedArena) {
  const SimulatedPool pool;
  Scenario scenario = pool.scenario("arena, observer", 2);
  scenario.body = [&pool](World& world) {
    auto looked = std::make_shared<bool>(false);
    world.spawn(0, [&world, &pool, looked] {
      wait_until(world, "the observer", [&] { return *looked; });
      const Worker worker(world, pool);
      wait_until(world, "the observer", [&] { return world.processes()[1]->ended; });
    });
    world.spawn(1, [&world, &pool, looked] {
      const auto attached = pool.attach(world, pool::AttachOptions{.observer = true});
      for (int looks = 0; !Arena::open(*attached); ++looks) {
        world.require(looks < 2000, "the arena is never formatted");
        *looked = true;
        world.yield();
      }
    });
  };
  expect_held("arena", "random schedules", explore(scenario, 60));
}

// ---- names that come and go --------------------------------------------------------------------

/// The maker fills each object with its generation, so a smaller word belongs to an older object.
void read_objects(World& world, const SimulatedPool& pool, const std::uint64_t& last, bool& seen) {
  Worker worker(world, pool);
  for (int looks = 0;; ++looks) {
    world.require(looks < 50'000, "the last object never appears");
    const auto opened = worker.arena->open("changing");
    if (opened) {
      for (const std::uint64_t word : worker.contents(*opened)) {
        world.require(word == 0 || word >= opened->generation, "contents of an older object");
      }
      if (opened->generation == last) break;
    }
    if (looks % 16 != 0) continue;  // the other checks take long
    const auto listed = worker.arena->list();
    world.require(listed.size() <= 2, "the list shows too many objects");
    world.require(worker.arena->stats().objects <= 2, "the statistics show too many objects");
    world.yield();
  }
  for (int looks = 0; worker.arena->list().size() != 1; ++looks) {
    world.require(looks < 3000, "the list never shows the object");
    world.yield();
  }
  seen = true;
  for (int looks = 0; worker.arena->open("changing"); ++looks) {
    world.require(looks < 3000, "the name never disappears");
    world.yield();
  }
}

TEST(Arena, OpenFindsObjectNotPredecessor) {
  const ArenaPool pool;
  Scenario scenario = pool.scenario("arena, a name comes and goes", 3);
  scenario.body = [&pool](World& world) {
    auto last = std::make_shared<std::uint64_t>(0);
    auto seen = std::make_shared<std::array<bool, 2>>();
    world.spawn(0, [&world, &pool, last, seen] {
      Worker worker(world, pool);
      for (int round = 0; round < 12; ++round) {
        const Object object = worker.create("changing", object_bytes);
        worker.fill(object, object.generation);
        if (round == 11) *last = object.generation;
        if (round == 11) wait_until(world, "the readers", [&] { return (*seen)[0] && (*seen)[1]; });
        worker.destroy(object);
        const auto again = worker.arena->destroy(object);
        world.require(!again && again.error().code == ErrorCode::not_found, "destroyed twice");
      }
      wait_until(world, "the readers to end",
                 [&] { return world.processes()[1]->ended && world.processes()[2]->ended; });
    });
    for (std::uint32_t node = 1; node <= 2; ++node) {
      world.spawn(node, [&world, &pool, last, seen, node] {
        read_objects(world, pool, *last, (*seen)[node - 1]);
      });
    }
  };
  expect_held("arena", "random schedules", explore(scenario, 80));
}

TEST(Arena, AnOldHandleDestroysNothing) {
  const ArenaPool pool;
  Scenario scenario = pool.scenario("arena, old handle", 2);
  scenario.body = [&pool](World& world) {
    auto step = std::make_shared<int>(0);
    world.spawn(0, [&world, &pool, step] {
      Worker worker(world, pool);
      const Object old = worker.create("same", object_bytes);
      *step = 1;
      wait_until(world, "the other", [&] { return *step == 2; });
      worker.destroy(old);
      const Object now = worker.create("same", object_bytes);
      *step = 3;
      wait_until(world, "the other", [&] { return *step == 4; });
      worker.destroy(now);
    });
    world.spawn(1, [&world, &pool, step] {
      Worker worker(world, pool);
      wait_until(world, "the other", [&] { return *step == 1; });
      const auto old = worker.arena->open("same");
      world.require(old.has_value(), "the name is missing");
      *step = 2;
      wait_until(world, "the other", [&] { return *step == 3; });
      world.require(!worker.arena->destroy(*old), "an old handle destroyed the object");
      *step = 4;
    });
  };
  scenario.after = [&pool](World& world) { Worker(world, pool).require_empty(); };
  expect_held("arena", "random schedules", explore(scenario, 60));
}

/// Nodes take turns; each knows only what the pool holds.
TEST(Arena, ThousandsOfObjectsLeaveNothingBehind) {
  const ArenaPool pool;
  Scenario scenario = pool.scenario("arena, 3,000 objects", 2);
  scenario.max_steps = 20'000'000;
  scenario.body = [&pool](World& world) {
    auto generations = std::make_shared<std::set<std::uint64_t>>();
    for (std::uint32_t node = 0; node < 2; ++node) {
      world.spawn(node, [&world, &pool, generations, node] {
        Worker worker(world, pool);
        std::vector<Object> made;
        for (std::uint64_t i = 0; i < 1500; ++i) {
          const std::uint64_t bytes = 1 + world.random() % 500;
          made.push_back(worker.create(fmt::format("{} of {}", i, node), bytes,
                                       {.alignment = std::uint64_t{64} << world.random() % 4}));
          world.require(generations->insert(made.back().generation).second,
                        "two objects have the same generation");
          if (world.random() % 2 == 0 || made.size() > 20) {
            const std::size_t which = world.random() % made.size();
            worker.destroy(made[which]);
            made.erase(made.begin() + static_cast<std::ptrdiff_t>(which));
          }
        }
        for (const Object& object : made) worker.destroy(object);
      });
    }
  };
  scenario.after = [&pool](World& world) { Worker(world, pool).require_empty(); };
  expect_held("arena", "random schedules", explore(scenario, 2));
}

// ---- deaths ------------------------------------------------------------------------------------

/// The operations of the process that may die.
void work_until_death(World& world, const SimulatedPool& pool, int rounds) {
  Worker worker(world, pool);
  for (int round = 0; round < rounds; ++round) {
    const Object named = worker.create("m-named", object_bytes);
    const Object own = worker.create("m-own", 100, {.lifetime = Lifetime::process});
    const Object apart = worker.create("m-apart", 200, {.alignment = 4096});
    worker.destroy(named);
    const Object after = worker.create("m-after", 5 * object_bytes, {.zero = false});
    worker.destroy(apart);
    worker.destroy(after);
    if (round % 2 == 0) worker.destroy(own);
  }
}

/// Reaps until the dead process owns nothing and all space is free again.
void clean_up_after_death(World& world, const SimulatedPool& pool, const Process& mortal) {
  Worker worker(world, pool);
  for (int i = 0; i < 4; ++i) {
    const Object own = worker.create(fmt::format("s-{}-{}", world.self().number, i), object_bytes);
    worker.fill(own, 1);
    for (const Object& object : worker.arena->list()) {
      world.require(object.name[0] == 'm' || object.name[0] == 's', "a name of nobody");
    }
    worker.destroy(own);
  }
  wait_until(world, "the mortal", [&] { return mortal.dead || mortal.ended; });
}

Scenario deaths(const SimulatedPool& pool) {
  Scenario scenario = pool.scenario("arena, one dies at work", 2);
  scenario.body = [&pool](World& world) {
    Process& mortal = world.spawn(0, [&world, &pool] { work_until_death(world, pool, 2); });
    world.mark_victim(mortal);
    world.spawn(1, [&world, &pool, &mortal] { clean_up_after_death(world, pool, mortal); });
  };
  scenario.after = [&pool](World& world) {
    Worker worker(world, pool);
    // A process that died with its node is dead only once its lease has run out.
    const auto anybody = [&] {
      const auto records = worker.pool->members().processes();
      return std::count_if(records.begin(), records.end(),
                           [](const auto& record) { return record.attached; }) > 1;
    };
    while (anybody()) {
      const auto collected = worker.arena->collect();
      world.require(collected.has_value(), collected ? "" : collected.error().message);
      world.sleep(5'000'000);
    }
    const auto left = worker.arena->list();
    world.require(worker.arena->stats().objects >= left.size(), "a name has no object");
    for (const Object& object : left) {
      world.require(object.name != "m-own", "the dead process still owns an object");
      worker.destroy(object);
    }
    pool.visit_nodes(world, 2);
    const auto collected = worker.arena->collect();
    world.require(collected.has_value(), collected ? "" : collected.error().message);
    worker.require_empty();
    const Object one = worker.create("one", 1000);
    world.require(worker.arena->stats().objects == 1, "an object lies outside the chain");
    worker.destroy(one);
    worker.require_empty();
  };
  return scenario;
}

enum class Deed { format, create, destroy };

/// Only the lines of the last operation count: there are few, so each is hit often.
Scenario death_between_lines(const SimulatedPool& pool, Deed deed) {
  Scenario scenario = deaths(pool);
  scenario.name =
      fmt::format("arena, one dies between two lines of deed {}", static_cast<int>(deed));
  scenario.faults.deliver = 60;
  scenario.body = [&pool, deed](World& world) {
    Process& mortal = world.spawn(0, [&world, &pool, deed] {
      world.self().publishes = 1ull << 40;
      Worker worker(world, pool, [&world, deed] {
        if (deed == Deed::format) world.self().publishes = 0;
      });
      const Object first = worker.create("m-first", 64, {.zero = false});
      if (deed == Deed::create) world.self().publishes = 0;
      const Object apart = worker.create("m-apart", 64, {.alignment = 512, .zero = false});
      if (deed == Deed::destroy) world.self().publishes = 0;
      worker.destroy(first);
      worker.destroy(apart);
    });
    world.mark_victim(mortal);
  };
  return dying_in_a_line(scenario, 12);
}

TEST(Arena, DeathBetweenLinesKeepsChainWhole) {
  const ArenaPool pool;
  expect_held("arena", "deaths within a line",
              explore(death_between_lines(pool, Deed::create), 400));
  expect_held("arena", "deaths within a line",
              explore(death_between_lines(pool, Deed::destroy), 400));
  const SimulatedPool bare;
  expect_held("arena", "deaths within a line",
              explore(death_between_lines(bare, Deed::format), 200));
}

TEST(Arena, ADeathAnywhereCostsNoSpace) {
  const ArenaPool pool;
  expect_held("arena", "random schedules", explore(deaths(pool), 20));
  expect_held("arena", "crash points", crash_everywhere(deaths(pool), 120));
  expect_held("arena", "deaths within a line", explore(dying_in_a_line(deaths(pool), 120), 100));
}

/// Large objects are zeroed without the lock.
TEST(Arena, DeathWhileZeroingLosesNoSpace) {
  const ArenaPool pool({.bytes = 64 << 20});
  Scenario scenario = pool.scenario("arena, large objects", 2);
  scenario.max_steps = 20'000'000;
  scenario.faults.deliver = 900;
  scenario.body = [&pool](World& world) {
    auto rendezvous = std::make_shared<Rendezvous>(2);
    for (std::uint32_t node = 0; node < 2; ++node) {
      Process& process = world.spawn(node, [&world, &pool, rendezvous] {
        Worker worker(world, pool);
        const auto made = worker.arena->create("large", 16 << 20, {.open_existing = true});
        world.require(made.has_value(), made ? "" : made.error().message);
        for (std::uint64_t at = 0; at < made->bytes; at += 1 << 20) {
          world.require(worker.pool->memory().observe_word(made->data + at) == 0, "not zero");
        }
        rendezvous->meet(world);
      });
      if (node == 0) world.mark_victim(process);
    }
  };
  scenario.after = [&pool](World& world) {
    Worker worker(world, pool);
    const auto left = worker.arena->open("large");
    if (left) worker.destroy(*left);
    world.sleep(2 * pool.lease_ns(world));
    worker.destroy(worker.create("after", 100));
  };
  expect_held("arena", "random schedules", explore(scenario, 2));
  expect_held("arena", "crash points", crash_everywhere(scenario, 3));
}

}  // namespace
}  // namespace penstock::sim

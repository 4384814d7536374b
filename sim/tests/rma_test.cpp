// Regions that peers find, and copies into and out of them, on memory without coherence: puts and
// gets of any length at any address by several nodes, regions that come and go under the same keys,
// owners that die.
#include <gtest/gtest.h>

#include <cstring>
#include <memory>
#include <vector>

#include "rma/rma.hpp"
#include "sim/tests/expect_held.hpp"
#include "sim/tests/lasting_copies.hpp"
#include "sim/tests/simulated_pool.hpp"

namespace penstock::sim {
namespace {

constexpr std::uint64_t sync_area_bytes = 6 * 64;
constexpr std::uint64_t sync_area_address = 0x5000;

/// Shared outside the pool: the present turn, and the place of the table.
struct Truth {
  std::vector<std::byte> bytes{sync_area_bytes};
  std::uint64_t place = 0;
  std::uint32_t turn = 0;
  bool registered = false;
};

struct Attached {
  Attached(World& world, const SimulatedPool& simulated)
      : pool(simulated.attach(world)), arena(SimulatedPool::open_arena(world, *pool)) {}
  std::unique_ptr<pool::Pool> pool;
  std::unique_ptr<arena::Arena> arena;
};

/// Memory that is registered under a key, and again elsewhere under the same key.
class Owner {
 public:
  Owner(World& world, const SimulatedPool& simulated, Truth& truth)
      : world_(world), truth_(truth), at_(world, simulated) {
    auto made = rma::RegionTable::make(*at_.arena);
    world.require(made.has_value(), made ? "" : made.error().message);
    table_ = std::move(*made);
    for (int i = 0; i < 2; ++i) {
      auto object = at_.arena->create("area-" + std::to_string(i), sync_area_bytes,
                                      {.lifetime = arena::Lifetime::process});
      world.require(object.has_value(), object ? "" : object.error().message);
      areas_[i] = object->offset;
    }
    truth_.place = table_->place();
  }

  /// Registers the other area, which is empty.
  void register_anew(std::uint64_t key, std::uint32_t more_access = 0) {
    table_->remove(key);
    use_ = 1 - use_;
    const auto& memory = at_.pool->memory();
    std::fill(truth_.bytes.begin(), truth_.bytes.end(), std::byte{0});
    memory.publish_bulk(at_.pool->at(areas_[use_], sync_area_bytes), truth_.bytes.data(),
                        sync_area_bytes);
    memory.full_fence();
    const auto added = table_->add({key, sync_area_address, sync_area_bytes, areas_[use_],
                                    rma::remote_read | rma::remote_write | more_access});
    world_.require(added.has_value(), added ? "" : added.error().message);
    truth_.registered = true;
  }
  void remove(std::uint64_t key) { table_->remove(key); }
  void close() { table_.reset(); }
  void fill_table(std::uint64_t keys) {
    for (std::uint64_t key = 1000; key < 1000 + keys; ++key) {
      const auto added = table_->add({key, key, 1, areas_[0], rma::remote_read});
      world_.require(added.has_value(), added ? "" : added.error().message);
    }
  }
  /// The owner's own check, past its caches.
  void check() {
    std::vector<std::byte> found(sync_area_bytes);
    at_.pool->memory().observe_bulk(found.data(), at_.pool->at(areas_[use_], sync_area_bytes),
                                    sync_area_bytes);
    world_.require(found == truth_.bytes, "the owner does not find the bytes that were put");
  }

 private:
  World& world_;
  Truth& truth_;
  Attached at_;
  std::unique_ptr<rma::RegionTable> table_;
  std::uint64_t areas_[2] = {0, 0};
  int use_ = 0;
};

class AttachingProcess {
 public:
  AttachingProcess(World& world, const SimulatedPool& simulated, Truth& truth)
      : world_(world), truth_(truth), at_(world, simulated), regions_(*at_.pool, truth.place) {}

  void put(std::uint64_t key) {
    const auto [from, bytes] = extent();
    std::vector<std::byte> data(bytes);
    for (std::uint64_t i = 0; i < bytes; ++i) {
      data[i] = truth_.bytes[from + i] = static_cast<std::byte>(world_.random());
    }
    require(regions_.put(key, sync_area_address + from, data.data(), bytes));
  }
  void get(std::uint64_t key) {
    const auto [from, bytes] = extent();
    std::vector<std::byte> data(bytes);
    require(regions_.get(key, sync_area_address + from, data.data(), bytes));
    const bool same = std::equal(data.begin(), data.end(),
                                 truth_.bytes.begin() + static_cast<std::ptrdiff_t>(from));
    world_.require(same,
                   fmt::format("{} bytes from {} on are not those that were put", bytes, from));
  }
  Result<rma::Region> find(std::uint64_t key) { return regions_.find(key); }
  void require_found(std::uint64_t key) {
    const auto found = regions_.find(key);
    world_.require(found.has_value(),
                   fmt::format("region {}: {}", key, found ? "" : found.error().message));
  }
  void require_refused(std::uint64_t key) {
    const std::uint64_t data = 0;
    for (int puts = 0; regions_.put(key, sync_area_address, &data, sizeof data); ++puts)
      world_.require(puts < 64, "puts into a closed region still succeed");
  }
  void require_absent(std::uint64_t key, ErrorCode code = ErrorCode::not_found) {
    const auto found = regions_.find(key);
    world_.require(!found, fmt::format("region {} is found still, or already", key));
    world_.require(found.error().code == code, found.error().message);
  }
  Result<void> try_get(std::uint64_t key) {
    std::byte data[8];
    return regions_.get(key, sync_area_address, data, sizeof data);
  }

 private:
  struct Extent {
    std::uint64_t from, bytes;
  };
  Extent extent() {
    const std::uint64_t from = world_.random() % sync_area_bytes;
    return {from, world_.random() % (sync_area_bytes - from + 1)};
  }
  void require(const Result<void>& done) {
    world_.require(done.has_value(), done ? "" : done.error().message);
  }

  World& world_;
  Truth& truth_;
  Attached at_;
  rma::PeerRegions regions_;
};

void wait_for_turn(World& world, const Truth& truth, std::uint32_t turn) {
  wait_until(world, "a turn", [&] { return truth.turn == turn; });
}

constexpr std::uint32_t turns = 18;
constexpr std::uint64_t key = 7;

/// The owner and two others in turn; the turn does not pass through the pool, so that only the
/// calls themselves write bytes back or invalidate copies.
Scenario in_turns(const SimulatedPool& pool) {
  Scenario scenario = pool.scenario("one-sided, in turns", 3);
  scenario.body = [&pool](World& world) {
    auto truth = std::make_shared<Truth>();
    world.spawn(0, [&world, &pool, truth] {
      Owner owner(world, pool, *truth);
      owner.register_anew(key);
      truth->turn = 1;
      for (std::uint32_t turn = 3; turn < turns; turn += 3) {
        wait_for_turn(world, *truth, turn);
        owner.check();
        if (world.random() % 2 == 0) owner.register_anew(key);
        ++truth->turn;
      }
      wait_for_turn(world, *truth, turns);
    });
    for (std::uint32_t self = 1; self < 3; ++self) {
      world.spawn(self, [&world, &pool, truth, self] {
        wait_until(world, "the table", [&] { return truth->registered; });
        AttachingProcess attaching(world, pool, *truth);
        for (std::uint32_t turn = self; turn < turns; turn += 3) {
          wait_for_turn(world, *truth, turn);
          // A put must not rely on a get before it, nor a get on a put.
          const bool first_get = world.random() % 2 == 0;
          if (first_get) attaching.get(key);
          attaching.put(key);
          if (!first_get) attaching.get(key);
          ++truth->turn;
        }
      });
    }
  };
  return scenario;
}

TEST(OneSided, WhatOneNodePutsAnotherGets) {
  SimulatedPool pool;
  pool.format_arena();
  expect_held("one-sided", "random schedules", explore(in_turns(pool), 60));
  expect_held("one-sided", "random schedules", explore(with_lasting_copies(in_turns(pool)), 30));
}

/// Neighbours in one line and in one word: each writes its own bytes, all at once.
TEST(OneSided, NeighboursDoNotDisturbEachOther) {
  SimulatedPool pool;
  pool.format_arena();
  constexpr std::uint32_t nodes = 3, rounds = 12;
  Scenario scenario = pool.scenario("one-sided, neighbours", nodes);
  scenario.body = [&pool](World& world) {
    auto truth = std::make_shared<Truth>();
    auto finished = std::make_shared<std::uint32_t>(0);
    world.spawn(0, [&world, &pool, truth, finished] {
      Owner owner(world, pool, *truth);
      owner.register_anew(key);
      wait_until(world, "the others", [&] { return *finished == nodes; });
      owner.check();
    });
    for (std::uint32_t self = 0; self < nodes; ++self) {
      world.spawn(self, [&world, &pool, truth, finished, self] {
        wait_until(world, "the table", [&] { return truth->registered; });
        Attached at(world, pool);
        rma::PeerRegions regions(*at.pool, truth->place);
        // pieces of 1 to 12 bytes, dealt in turn: most words and all lines have several writers
        for (std::uint32_t round = 0; round < rounds; ++round) {
          std::uint64_t piece = 0;
          for (std::uint64_t from = 0; from < sync_area_bytes; ++piece) {
            const std::uint64_t bytes = std::min(1 + piece * 7 % 12, sync_area_bytes - from);
            if (piece % nodes == self) {
              std::vector<std::byte> data(bytes);
              for (auto& byte : data) byte = static_cast<std::byte>(world.random());
              std::copy(data.begin(), data.end(),
                        truth->bytes.begin() + static_cast<std::ptrdiff_t>(from));
              const auto put = regions.put(key, sync_area_address + from, data.data(), bytes);
              world.require(put.has_value(), put ? "" : put.error().message);
            }
            from += bytes;
          }
        }
        ++*finished;
      });
    }
  };
  scenario.max_steps = 4'000'000;
  expect_held("one-sided", "random schedules", explore(scenario, 8));
}

/// A registered region is found at once, also by a process that has searched before; a removed one
/// is never found again.
/// `eager`: the searching process does nothing else.
Scenario coming_and_going(const SimulatedPool& pool, bool eager = false) {
  constexpr std::uint64_t many = 1000, last = many + 149;
  Scenario scenario = pool.scenario("one-sided, coming and going", 2);
  scenario.max_steps = 4'000'000;
  scenario.body = [&pool, eager](World& world) {
    auto truth = std::make_shared<Truth>();
    world.spawn(0, [&world, &pool, truth] {
      Owner owner(world, pool, *truth);
      owner.register_anew(key + 1);
      wait_for_turn(world, *truth, 1);
      owner.register_anew(key);
      truth->turn = 2;
      wait_for_turn(world, *truth, 3);
      owner.fill_table(150);  // more than the first two blocks have lines for
      truth->turn = 4;
      wait_for_turn(world, *truth, 5);
      owner.remove(key);
      truth->turn = 6;
      wait_for_turn(world, *truth, 7);
      owner.close();
      truth->turn = 8;
      wait_for_turn(world, *truth, 9);
    });
    world.spawn(1, [&world, &pool, truth, eager] {
      wait_until(world, "the table", [&] { return truth->registered; });
      AttachingProcess attaching(world, pool, *truth);
      attaching.require_absent(key);
      attaching.require_absent(last);
      truth->turn = 1;
      wait_for_turn(world, *truth, 2);
      attaching.require_found(key);
      truth->turn = 3;
      while (truth->turn == 3) {  // the chain is whole while it grows
        attaching.require_absent(many - 1);
        eager ? world.yield() : world.sleep(300'000);
      }
      for (std::uint64_t i = many; i <= last; ++i) attaching.require_found(i);
      attaching.require_found(key);
      truth->turn = 5;
      wait_for_turn(world, *truth, 6);
      attaching.require_absent(key);
      truth->turn = 7;
      wait_for_turn(world, *truth, 8);
      world.require(!attaching.find(last), "a region of a closed table is found");
      truth->turn = 9;
    });
  };
  return scenario;
}

/// Under a lasting key a put checks the region now and then, and so soon notices that it was
/// closed.
Scenario lasting_keys(const SimulatedPool& pool) {
  constexpr std::uint64_t keys = 4;
  Scenario scenario = pool.scenario("one-sided, lasting keys", 2);
  scenario.body = [&pool](World& world) {
    auto truth = std::make_shared<Truth>();
    world.spawn(0, [&world, &pool, truth] {
      Owner owner(world, pool, *truth);
      for (std::uint64_t i = 1; i <= keys; ++i) {
        owner.register_anew(i, rma::lasting_key);
        ++truth->turn;
        wait_for_turn(world, *truth, static_cast<std::uint32_t>(4 * i - 2));
        owner.check();
        owner.remove(i);
        ++truth->turn;
        wait_for_turn(world, *truth, static_cast<std::uint32_t>(4 * i));
      }
    });
    world.spawn(1, [&world, &pool, truth] {
      wait_for_turn(world, *truth, 1);
      AttachingProcess attaching(world, pool, *truth);
      for (std::uint64_t i = 1; i <= keys; ++i) {
        wait_for_turn(world, *truth, static_cast<std::uint32_t>(4 * i - 3));
        attaching.put(i);
        attaching.put(i);
        ++truth->turn;
        wait_for_turn(world, *truth, static_cast<std::uint32_t>(4 * i - 1));
        attaching.require_refused(i);
        ++truth->turn;
      }
    });
  };
  return scenario;
}

TEST(OneSided, LastingKeysSpareALook) {
  SimulatedPool pool;
  pool.format_arena();
  expect_held("one-sided", "random schedules", explore(lasting_keys(pool), 40));
  expect_held("one-sided", "random schedules",
              explore(with_lasting_copies(lasting_keys(pool)), 10));
}

TEST(OneSided, RegionsComeAndGo) {
  SimulatedPool pool;
  pool.format_arena();
  expect_held("one-sided", "random schedules", explore(coming_and_going(pool), 20));
  expect_held("one-sided", "random schedules",
              explore(with_lasting_copies(coming_and_going(pool)), 8));
  Scenario unordered = coming_and_going(pool);
  unordered.name += ", unordered";
  unordered.swarm = false;
  unordered.faults.hold_unordered = true;
  expect_held("one-sided", "random schedules", explore(unordered, 40));
  Scenario slow = coming_and_going(pool, /*eager=*/true);
  slow.name += ", slow stores";
  slow.swarm = false;
  slow.faults.deliver = 100;
  slow.faults.switching = 60;
  slow.faults.max_delay = 2000;
  expect_held("one-sided", "random schedules", explore(slow, 600));
}

/// The owner dies. A search for its regions returns a whole one or an error, and its space is free
/// again when the job is over. With `in_a_line` it dies within one of the first regions' lines.
Scenario dying_owner(const SimulatedPool& pool, bool in_a_line) {
  Scenario scenario = pool.scenario("one-sided, the owner dies", 2);
  scenario.body = [&pool, in_a_line](World& world) {
    auto truth = std::make_shared<Truth>();
    Process& owner = world.spawn(0, [&world, &pool, truth, in_a_line] {
      if (in_a_line) world.self().publishes = 1ull << 40;
      Owner mine(world, pool, *truth);
      mine.register_anew(key);
      if (in_a_line) world.self().publishes = 0;
      mine.fill_table(70);
      mine.register_anew(key);
    });
    world.mark_victim(owner);
    world.spawn(1, [&world, &pool, truth] {
      wait_until(world, "the table, or the end",
                 [&] { return truth->place != 0 || gone(*world.processes()[0]); });
      if (truth->place == 0) return;
      AttachingProcess attaching(world, pool, *truth);
      for (int i = 0; i < 30; ++i) {
        if (const auto found = attaching.find(key); found) {
          const bool whole = found->base == sync_area_address && found->bytes == sync_area_bytes;
          world.require(whole, "a partial region was found");
        }
        (void)attaching.try_get(key);
        for (std::uint64_t other = 1000; other < 1012; ++other) (void)attaching.find(other);
        world.sleep(500'000);
      }
    });
  };
  scenario.after = [&pool](World& world) {
    for (int attempt = 0;; ++attempt) {
      Attached later(world, pool);
      if (later.arena->stats().objects == 0) break;
      world.require(attempt < 6, "objects of dead processes are left");
      world.sleep(pool.lease_ns(world));
    }
  };
  return in_a_line ? dying_in_a_line(scenario, 12) : scenario;
}

TEST(OneSided, TheOwnerMayDieAnywhere) {
  SimulatedPool pool;
  pool.format_arena();
  expect_held("one-sided", "crash points", crash_everywhere(dying_owner(pool, false), 120));
  expect_held("one-sided", "deaths within a line", explore(dying_owner(pool, true), 60));
}

}  // namespace
}  // namespace penstock::sim

// Processes of several nodes act one after the other, while nodes keep old copies.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "sim/tests/expect_held.hpp"
#include "sim/tests/lasting_copies.hpp"
#include "sim/tests/late_stores.hpp"
#include "sim/tests/puppet.hpp"
#include "sim/tests/stops.hpp"

namespace penstock::sim {

using Play = std::function<void(World&, Puppet&, Puppet&, Puppet&)>;

/// On nodes 0, 1 and 2, led from node 3. Each holds copies of earlier contents: words of other
/// objects.
inline Scenario in_turn(const SmallPool& pool, const std::string& name, Play play) {
  constexpr int all_of_the_room = 1000;  // objects
  Scenario scenario = pool.scenario(name, nodes + 1);
  scenario.body = [&pool, play = std::move(play)](World& world) {
    auto rank = std::make_shared<Puppet>(world, pool, 0);
    auto one = std::make_shared<Puppet>(world, pool, 1);
    auto other = std::make_shared<Puppet>(world, pool, 2);
    world.spawn(nodes, [&world, play, rank, one, other] {
      auto before = std::make_shared<std::vector<Object>>();
      rank->does([&world, before](SpaceUser& user) {
        *before = fill_and_publish(world, user, all_of_the_room);
      });
      for (const auto& puppet : {one, other})
        puppet->does([before](SpaceUser& user) {
          for (const Object& object : *before) user.require_whole(object, "before");
        });
      rank->does([before](SpaceUser& user) {
        for (const Object& object : *before) (void)user.arena->destroy(object);
      });
      play(world, *rank, *one, *other);
      for (const auto& puppet : {rank, one, other}) puppet->end();
    });
  };
  return scenario;
}

/// In several orders; and with caches that keep all earlier copies.
inline void expect_held_in_turn(const char* protocol, const SmallPool& pool,
                                const std::string& name, Play play, std::uint64_t runs = 10) {
  const Scenario scenario = in_turn(pool, name, std::move(play));
  expect_held(protocol, "random schedules", explore(scenario, runs));
  expect_held(protocol, "random schedules", explore(with_lasting_copies(scenario), 5));
}

/// The same with stores that arrive late if no fence orders them.
inline void expect_held_with_late_stores(const char* protocol, const SmallPool& pool,
                                         const std::string& name, Play play,
                                         std::uint64_t late_runs = 10) {
  const Scenario scenario = in_turn(pool, name, std::move(play));
  expect_held(protocol, "random schedules", explore(scenario, 5));
  expect_held(protocol, "late stores", explore(with_late_stores(scenario), late_runs));
}

/// `rank` is stopped at one of the first `operations` of its task while `watcher` is at one of its
/// own, and goes on later, until both have ended.
inline void stop_within(World& world, std::uint64_t operations, Puppet& rank, Puppet::Task task,
                        Puppet& watcher) {
  rank.starts([&world, operations, task = std::move(task)](SpaceUser& user) {
    const StopWithin stop(world, operations);
    task(user);
  });
  while (!rank.is_idle() || !watcher.is_idle()) {
    world.sleep(2'000'000);  // its stores leave meanwhile
    rank.process().stopped = false;
  }
}

}  // namespace penstock::sim

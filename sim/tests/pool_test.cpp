// Attaching, leaving, dying and being reaped, with the unchanged sources of the pool.
#include <gtest/gtest.h>

#include <map>
#include <set>

#include "sim/tests/simulated_pool.hpp"

namespace penstock::sim {
namespace {

void expect_held(const char* protocol, const char* method, const Tally& tally) {
  report(protocol, method, tally);
  EXPECT_TRUE(tally.held()) << tally.first_failure;
}

TEST(Pool, AttachesAtOnce) {
  const SimulatedPool pool;
  Scenario scenario = pool.scenario("pool, attach at once", 2);
  scenario.body = [&pool](World& world) {
    struct Seen {
      std::set<std::uint64_t> tokens;
      std::set<std::uint32_t> slots;
      std::map<std::uint32_t, std::uint32_t> nodes;
    };
    auto seen = std::make_shared<Seen>();
    for (std::uint32_t i = 0; i < 4; ++i) {
      world.spawn(i % 2, [&world, &pool, seen] {
        const auto attached = pool.attach(world);
        world.require(seen->tokens.insert(attached->token()).second, "two have one token");
        world.require(seen->slots.insert(attached->slot()).second, "two have one slot");
        const auto place = seen->nodes.emplace(world.self().node, attached->node()).first;
        world.require(place->second == attached->node(), "one node has two numbers");
        world.until([&] { return seen->tokens.size() == 4; });
      });
    }
  };
  expect_held("pool", "random schedules", explore(scenario, 100));
}

}  // namespace
}  // namespace penstock::sim

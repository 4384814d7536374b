// Claims of switches that are stopped for longer than a lease at any operation while they take a
// claim or give it back. The new holder finds what they overwrite when they go on, and takes the
// claim again.
#include <gtest/gtest.h>

#include <functional>
#include <memory>
#include <optional>
#include <set>

#include "offload/registration.hpp"
#include "sim/tests/expect_held.hpp"
#include "sim/tests/lasting_copies.hpp"
#include "sim/tests/offload_user.hpp"
#include "sim/tests/puppet.hpp"
#include "sim/tests/stops.hpp"

namespace penstock::sim {
namespace {

constexpr std::uint32_t late_node = 1, switch_node = 2, next_node = 3;

struct Turns {
  bool late_is_ready = false;
  std::set<std::uint64_t> serve;  ///< tokens of the switches that serve
  bool over = false;
};

/// Takes the claim and gives it back, and is stopped at one operation of these.
void be_late(World& world, const SmallPool& pool, Turns& turns) {
  constexpr std::uint64_t operations = 160;  // in both together
  const SpaceUser user(world, pool);
  const auto directory = Directory::find_or_make(*user.arena);
  world.require(directory.has_value(), directory ? "" : directory.error().message);
  world.self().may_exit = true;
  stop_within(world, operations);
  turns.late_is_ready = true;
  (void)offload::take_claim(*directory, {});
  (void)offload::give_claim_back(*directory, {});
}

/// Serves until another has its claim.
void serve_after(World& world, const SmallPool& pool, const Process& late,
                 const std::shared_ptr<Turns>& turns) {
  wait_until(world, "the late one",
             [&] { return turns->late_is_ready && (late.stopped || gone(late)); });
  while (!turns->over) {
    const auto server = open_server(world, pool);
    if (!server) {
      world.require(server.error().code == ErrorCode::already_exists, server.error().message);
      world.sleep(world.random() % 20'000'000);
      continue;
    }
    const std::uint64_t token = (*server)->pool().token();
    turns->serve.insert(token);
    while (!turns->over && !(*server)->lost())
      if (!(*server)->poll()) world.sleep(1 + world.random() % 200'000);
    if (!turns->over) turns->serve.erase(token);
  }
}

std::uint64_t served_by(const SpaceUser& user) {
  const auto found = offload::serving(*user.arena);
  user.world.require(found.has_value(), found ? "" : found.error().message);
  return *found ? (*found)->tokens.front() : 0;
}

/// Goes on when another has the claim; all soon find that one again.
void let_the_late_one_go_on(World& world, const SmallPool& pool, Process& late, Turns& turns) {
  const SpaceUser rank(world, pool);
  wait_until(world, "a switch", [&] { return !turns.serve.empty(); });
  world.sleep(world.random() % 30'000'000);
  late.stopped = false;
  wait_until(world, "the end of the late one", [&] { return gone(late); });
  world.sleep(pool.lease_ns(world) / 2);
  world.require(turns.serve.size() == 1, "not one serves");
  world.require(served_by(rank) == *turns.serve.begin(), "the serving switch is not found");
  turns.over = true;
}

/// `switches`: that take turns at serving.
Scenario stopped_at_its_claim(const SmallPool& pool, std::uint32_t switches) {
  Scenario scenario = pool.scenario(
      fmt::format("a switch is stopped as it takes a claim, {} come after it", switches), 4);
  scenario.max_steps = 8'000'000;
  scenario.body = [&pool, switches](World& world) {
    auto turns = std::make_shared<Turns>();
    Process& late =
        world.spawn(late_node, [&world, &pool, turns] { be_late(world, pool, *turns); });
    for (std::uint32_t i = 0; i < switches; ++i)
      world.spawn(i == 0 ? switch_node : next_node,
                  [&world, &pool, turns, &late] { serve_after(world, pool, late, turns); });
    world.spawn(
        0, [&world, &pool, turns, &late] { let_the_late_one_go_on(world, pool, late, *turns); });
  };
  return scenario;
}

TEST(Claim, ThatALateSwitchOverwritesIsTakenAnew) {
  const SmallPool pool;
  expect_held("switch", "random schedules", explore(stopped_at_its_claim(pool, 1), 200));
}

TEST(Claim, OneSwitchStaysWhereAnotherFindsItOverwritten) {
  const SmallPool pool;
  expect_held("switch", "random schedules", explore(stopped_at_its_claim(pool, 2), 30));
}

// ---- two living switches for a moment -----------------------------------------------------------

/// A rank, two processes that play switches, one after the other, and a dead process.
struct Parts {
  Parts(World& the_world, const SmallPool& the_pool)
      : world(the_world),
        pool(the_pool),
        rank(world, pool, 0),
        one(world, pool, late_node),
        other(world, pool, switch_node) {
    Puppet late(world, pool, next_node);
    late.does([this](SpaceUser& user) { dead = user.pool->token(); });
    one.does([this](SpaceUser&) {
      server = Server::open({.attach = [this](const pool::AttachOptions& options) {
                 Result<std::unique_ptr<pool::Pool>> attached = pool.attach(world, options);
                 if (has_attached) has_attached();
                 return attached;
               }})->release();
    });
    world.kill(late.process());
    for (Puppet* each : {&rank, &one, &other})
      each->does([this](SpaceUser& user) {
        wait_until(world, "a death", [&] { return !user.pool->alive(dead); });
      });
    rank.does([this](SpaceUser& user) {
      const Shape shape{
          .ranks = 1, .slot_bytes = 256, .communicator = 1, .owner = user.pool->token()};
      region.emplace(make_room(user, "region", shape)->offset, shape);
      offload::describe(*user.pool, *region);
      slot = user.pool->slot();
    });
  }
  void end() {
    one.does([this](SpaceUser&) { delete server; });
    for (Puppet* each : {&rank, &one, &other}) each->end();
  }
  static Directory directory(SpaceUser& user) { return **Directory::find(*user.arena); }

  World& world;
  const SmallPool& pool;
  Puppet rank, one, other;
  std::uint64_t dead = 0;
  Server* server = nullptr;
  std::function<void()> has_attached;  ///< called by the server each time it has attached
  std::optional<Region> region;
  std::uint32_t slot = 0;  ///< of the rank
};

Scenario of_parts(const SmallPool& pool, const std::string& name,
                  const std::function<void(Parts&)>& play) {
  Scenario scenario = pool.scenario(name, next_node + 2);
  scenario.body = [&pool, play](World& world) {
    world.spawn(next_node + 1, [&world, &pool, play] {
      Parts parts(world, pool);
      play(parts);
      parts.end();
    });
  };
  return scenario;
}

void ask_for_the_region(Parts& parts) {
  parts.rank.does([&](SpaceUser& user) {
    const std::uint64_t at = Parts::directory(user).ask_line(parts.slot);
    user.pool->memory().publish_word(user.pool->base() + at,
                                     offload::Ask::of(parts.region->offset(), 0).word);
    user.pool->memory().full_fence();
  });
}

/// By a look that holds an old copy of the line.
void notice_at_once(Parts& parts) {
  parts.one.does([&](SpaceUser&) {
    for (int looks = 0; looks < 4; ++looks) (void)parts.server->poll();
  });
  ask_for_the_region(parts);
  parts.one.does([&](SpaceUser& user) {
    (void)parts.server->poll();
    parts.world.require(parts.server->communicators() == 1, "the switch did not take the ask");
    user.pool->memory().full_fence();
  });
}

TEST(Claim, NextLookFindsRequest) {
  const SmallPool pool;
  expect_held("switch", "random schedules",
              explore(with_lasting_copies(of_parts(pool, "an ask is heard", notice_at_once)), 5));
}

/// Just after one switch has accepted a region, its claim is overwritten, and another takes it.
void claim_what_one_has(Parts& parts) {
  World& world = parts.world;
  bool accepted = false, looked = false, taken = false, found = false;
  ask_for_the_region(parts);
  parts.other.starts([&](SpaceUser& user) {
    const Directory directory = Parts::directory(user);
    while (!accepted) world.yield();
    directory.publish_claim(0, {parts.dead, offload::protocol_version, 0});
    user.pool->memory().full_fence();
    taken = offload::take_claim(directory, {}).has_value();
    found = offload::observe_member(*user.pool, *parts.region, parts.region->switch_line(0))
                .has_value();
    looked = true;
  });
  parts.one.does([&](SpaceUser&) {
    while (parts.server->communicators() == 0) (void)parts.server->poll();
    accepted = true;
    while (!looked) world.yield();  // a sleep would send its buffered stores
  });
  parts.other.await();
  world.require(taken, "a dead switch's claim is not taken over");
  world.require(found, "a served region is not known to be served");
}

TEST(Claim, NewOwnerFindsRegionsOfFormerOne) {
  const SmallPool pool;
  Scenario scenario = of_parts(pool, "a claim is taken from one who lives", claim_what_one_has);
  scenario.swarm = false;
  scenario.faults.deliver = 0;
  scenario.faults.max_delay = 1'000'000'000;
  expect_held("switch", "random schedules", explore(scenario, 10));
}

/// At any operation of a switch that accepts a region, another takes the claim, and looks.
void claim_while_one_accepts(Parts& parts) {
  World& world = parts.world;
  constexpr std::uint64_t operations = 12;  // from the job on
  bool looked = false, found = false;
  Process& one = parts.one.process();
  ask_for_the_region(parts);
  parts.has_attached = [&] { stop_within(world, one, operations); };
  parts.other.starts([&](SpaceUser& user) {
    const Directory directory = Parts::directory(user);
    wait_until(world, "the stop", [&] { return one.stopped; });
    directory.publish_claim(0, {parts.dead, offload::protocol_version, 0});
    user.pool->memory().full_fence();
    world.require(offload::take_claim(directory, {}).has_value(), "a dead switch's claim stays");
    found = offload::observe_member(*user.pool, *parts.region, parts.region->switch_line(0))
                .has_value();
    looked = true;
    one.stopped = false;
  });
  parts.one.does([&](SpaceUser&) {
    while (!looked || !parts.server->lost()) (void)parts.server->poll();
  });
  parts.other.await();
  parts.has_attached = nullptr;
  world.require(found || parts.server->communicators_ever() == 0,
                "one switch serves a region, and another cannot know it");
}

TEST(Claim, OneOfTwoFindsTheOther) {
  const SmallPool pool;
  Scenario scenario =
      of_parts(pool, "a claim is taken from one who accepts", claim_while_one_accepts);
  scenario.swarm = false;
  scenario.faults.deliver = 0;
  scenario.faults.max_delay = 1'000'000'000;
  expect_held("switch", "random schedules", explore(scenario, 60));
}

/// Another switch has answered that it does not serve a region, which it never did.
void let_another_answer(Parts& parts) {
  World& world = parts.world;
  std::shared_ptr<offload::Registration> asked;
  parts.rank.starts([&](SpaceUser& user) {
    asked = *offload::Registration::ask(**offload::serving(*user.arena), *parts.region);
    world.require(asked->served(), asked->why());
  });
  parts.one.does([&](SpaceUser& user) {
    while (!parts.rank.is_idle())
      if (!parts.server->poll()) world.sleep(100'000);
    user.pool->memory().full_fence();
  });
  const auto withdraws = [&](bool expected) {
    parts.rank.does([&](SpaceUser&) {
      world.require(asked->is_withdrawn() == expected, "the serving switch was not asked");
    });
  };
  withdraws(false);
  parts.other.does([&](SpaceUser& user) {
    const Directory directory = Parts::directory(user);
    const auto& memory = user.pool->memory();
    std::byte* const base = user.pool->base();
    const offload::Ask ask{memory.observe_word(base + directory.ask_line(parts.slot))};
    memory.publish_word(base + directory.answer_line(0, parts.slot),
                        ask.answered(offload::Answer::gone));
    memory.full_fence();
  });
  withdraws(false);
  parts.one.does([&](SpaceUser& user) {
    while (parts.server->communicators() != 0)
      if (!parts.server->poll()) world.sleep(100'000);
    user.pool->memory().full_fence();
  });
  withdraws(true);
  parts.rank.does([&](SpaceUser&) { asked = nullptr; });
}

/// The word that says that a switch has let go of a region comes after all its stores there. It
/// still serves another region of the same job: otherwise it would leave that job, with fences of
/// its own.
void use_released_region(Parts& parts) {
  World& world = parts.world;
  const std::vector<std::byte> mark(parts.region->bytes(), std::byte{0x77});
  std::shared_ptr<offload::Registration> asked, other;
  const auto serve = [&](SpaceUser&) {
    while (!parts.rank.is_idle()) {
      (void)parts.server->poll();
      world.yield();  // a sleep would send its buffered stores
    }
  };
  parts.rank.starts([&](SpaceUser& user) {
    Shape shape = parts.region->shape();
    ++shape.communicator;
    const Region another(make_room(user, "another", shape)->offset, shape);
    offload::describe(*user.pool, another);
    const auto serving = **offload::serving(*user.arena);
    other = *offload::Registration::ask(serving, another);
    asked = *offload::Registration::ask(serving, *parts.region);
    world.require(asked->served() && other->served(), asked->why());
  });
  parts.one.does(serve);
  parts.rank.starts([&](SpaceUser& user) {
    while (!asked->is_withdrawn()) world.yield();
    user.pool->memory().publish_bulk(user.pool->base() + parts.region->offset(), mark.data(),
                                     mark.size());
    user.pool->memory().full_fence();
  });
  parts.one.does(serve);
  parts.one.does([](SpaceUser& user) { user.pool->memory().full_fence(); });
  parts.rank.does([&](SpaceUser& user) {
    std::vector<std::byte> found(mark.size());
    user.pool->memory().observe_bulk(found.data(), user.pool->base() + parts.region->offset(),
                                     found.size());
    world.require(found == mark, "a store arrived after the switch had let go");
    asked = other = nullptr;
  });
}

TEST(Claim, StoresNothingToReleasedRegions) {
  const SmallPool pool;
  Scenario scenario = of_parts(pool, "what was let go of is used again", use_released_region);
  scenario.swarm = false;
  scenario.faults.deliver = 20;
  scenario.faults.tear = 1000;
  scenario.max_steps = 8'000'000;
  expect_held("switch", "random schedules", explore(scenario, 100));
}

TEST(Claim, KeepsRegionServedByAnotherSwitch) {
  const SmallPool pool;
  const Scenario scenario = of_parts(pool, "another answers", let_another_answer);
  expect_held("switch", "random schedules", explore(scenario, 5));
  expect_held("switch", "random schedules", explore(with_lasting_copies(scenario), 5));
}

}  // namespace
}  // namespace penstock::sim

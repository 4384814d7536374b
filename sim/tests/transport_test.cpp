// Endpoints and their channels on memory without coherence: messages of every form, in both
// directions, through wraps of rings and cells, with processes and nodes that die anywhere.
#include <gtest/gtest.h>

#include "base/environment_guard.hpp"
#include "sim/tests/late_stores.hpp"
#include "sim/tests/ranks.hpp"

namespace penstock::sim {
namespace {

TEST(Channel, DeliversAllFormsInOrder) {
  const auto pool = pool_with_endpoints();
  Scenario two = conversation(*pool, "channel, 2 ranks", 2, 2, 14);
  two.after = [&](World& world) { expect_clean(world, *pool); };
  expect_held("channel", "random schedules", explore(two, 40));
  Scenario three = conversation(*pool, "channel, 4 ranks on 3 nodes", 4, 3, 4);
  three.after = [&](World& world) { expect_clean(world, *pool); };
  expect_held("channel", "random schedules", explore(three, 15));
}

/// Two ranks on each node: some channels rely on their node's caches, others do not. Also with
/// copies that stay until they are invalidated.
TEST(Channel, PeersOfOneNodeAndOfOthers) {
  const auto pool = pool_with_endpoints();
  Scenario mixed = conversation(*pool, "channel, 4 ranks on 2 nodes", 4, 2, 6);
  mixed.after = [&](World& world) { expect_clean(world, *pool); };
  expect_held("channel", "random schedules", explore(mixed, 15));
  expect_held("channel", "random schedules", explore(with_lasting_copies(mixed), 10));
  expect_held("channel", "crash points", crash_everywhere(mixed, 40));
}

/// A node that took no part can read the traffic counts that endpoints publish.
TEST(Channel, CountsAreFoundByOthers) {
  const auto pool = pool_with_endpoints();
  Scenario scenario = with_lasting_copies(pool->scenario("channel, counts", 3));
  scenario.max_steps = 6'000'000;
  scenario.body = [&](World& world) {
    auto job_state = std::make_shared<JobState>(2);
    auto seen = std::make_shared<bool>(false);
    for (std::uint32_t i = 0; i < 2; ++i) {
      world.spawn(i, [&, job_state, seen, i] {
        Rank rank(world, *pool, {i, {1 - i}, {1 - i}, 4});
        job_state->enter(rank, i);
        world.until([&] { return job_state->opened[1 - i]; });
        rank.converse(job_state->addresses);
        rank.look_until([&] { return *seen; });
        rank.leave();
      });
    }
    world.spawn(2, [&, seen] {
      const auto attached = pool->attach(world, {.rank = 7, .job = "looks"});
      const auto arena = SimulatedPool::open_arena(world, *attached);
      wait_until(world, "the counts of both", [&] {
        std::uint64_t right = 0;
        for (const auto& row : transport::peer_counts(*arena)) {
          world.require(row.counts.messages_sent <= 4 && row.token != 0, "impossible counts");
          right += row.counts.messages_sent == 4 && row.counts.messages_received == 4 ? 1 : 0;
        }
        return right == 2;
      });
      *seen = true;
    });
  };
  expect_held("channel", "random schedules", explore(scenario, 10));
}

/// Two messages of several lines that arrive at once in scattered buffers: each has a staging
/// buffer of its own. (With one for all channels the second overwrote the first.)
TEST(Channel, ScatteredMessagesOfSeveralSendersDoNotMix) {
  const auto pool = pool_with_endpoints();
  Scenario scenario = pool->scenario("channel, scattered from two", 3);
  scenario.max_steps = 6'000'000;
  scenario.body = [&](World& world) {
    auto job_state = std::make_shared<JobState>(3);
    world.spawn(0, [&, job_state] {
      run_rank(world, *pool, *job_state, {0, {}, {1, 2}, 24, true});
    });
    for (std::uint32_t i = 1; i < 3; ++i) {
      world.spawn(i, [&, job_state, i] { run_rank(world, *pool, *job_state, {i, {0}, {}, 24}); });
    }
  };
  expect_held("channel", "random schedules", explore(scenario, 60));
}

/// Only messages in lines: a ring of 1,024 lines wraps several times.
TEST(Channel, RingsWrap) {
  const auto pool = pool_with_endpoints();
  Scenario scenario = conversation(*pool, "channel, wraps", 2, 2, 60);
  expect_held("channel", "random schedules", explore(scenario, 8));
}

TEST(Channel, ReportsDeathsAndFreesAllSpace) {
  const auto pool = pool_with_endpoints();
  Scenario scenario = conversation(*pool, "channel, rank 0 dies", 3, 3, 3);
  scenario.after = [&](World& world) { expect_clean(world, *pool); };
  expect_held("channel", "crash points", crash_everywhere(scenario, 120));
}

/// After a death the pool serves another job with another number of ranks.
TEST(Channel, NextJobRunsWithOtherRankCount) {
  const auto pool = pool_with_endpoints();
  Scenario scenario = conversation(*pool, "channel, the next job", 2, 2, 2);
  const auto first_job = scenario.body;
  scenario.nodes = 3;
  scenario.body = [&, first_job](World& world) {
    first_job(world);
    auto job_state = std::make_shared<JobState>(3);
    for (std::uint32_t i = 0; i < 3; ++i) {
      world.spawn(2, [&world, &pool, job_state, i] {
        const auto& all = world.processes();
        world.until(
            [&] { return (all[0]->dead || all[0]->ended) && (all[1]->dead || all[1]->ended); });
        Rank rank(world, *pool, {i, others(i, 3), others(i, 3), 2});
        job_state->enter(rank, i);
        world.until(
            [&] { return job_state->opened[0] && job_state->opened[1] && job_state->opened[2]; });
        rank.converse(job_state->addresses);
        const bool all_live = !rank.peer_died() && !rank.was_refused();
        world.require(all_live, "a process of the next job counts as dead");
        rank.leave();
      });
    }
  };
  expect_held("channel", "crash points", crash_everywhere(scenario, 60));
}

/// Cells that hold a whole message, which is announced when it is complete.
TEST(Channel, MessagesOfOneCell) {
  const auto pool = pool_with_endpoints();
  std::uint32_t messages = 6;  // the last one is such a message: no later send pushes it on
  while (Message{0, 1, messages - 1}.bytes() <= 16'384) ++messages;
  Scenario scenario = conversation(*pool, "channel, one cell", 2, 2, messages);
  const auto body = scenario.body;
  scenario.body = [body](World& world) {
    base::EnvironmentItems::add("PENSTOCK_CHANNELS", "cell=65536");
    body(world);
  };
  expect_held("channel", "random schedules", explore(scenario, 20));
  expect_held("channel", "late stores", explore(with_late_stores(scenario), 20));
  base::EnvironmentItems::add("PENSTOCK_CHANNELS", "cell=4096");
}

/// A reader finds an endpoint open while its user changes the word for its peers, and finds the new
/// word once that call has returned.
TEST(Channel, FindsEndpointWhileUserWordChanges) {
  const auto pool = pool_with_endpoints();
  Scenario scenario = pool->scenario("channel, user words", 2);
  scenario.faults.tear = 600;
  scenario.body = [&](World& world) {
    auto job_state = std::make_shared<JobState>(2);
    auto set = std::make_shared<std::uint64_t>(0);
    auto over = std::make_shared<bool>(false);
    world.spawn(0, [&, job_state, set, over] {
      Rank rank(world, *pool, {0, {1}, {}, 0});
      job_state->enter(rank, 0);
      world.until([&] { return job_state->opened[1]; });
      for (std::uint64_t user_word = 1; user_word <= 20; ++user_word) {
        rank.set_user_word(user_word);
        *set = user_word;
        world.yield();
      }
      *over = true;
      rank.leave();
    });
    world.spawn(1, [&, job_state, set, over] {
      Rank rank(world, *pool, {1, {0}, {}, 0});
      job_state->enter(rank, 1);
      world.until([&] { return job_state->opened[0]; });
      while (!*over) {
        const std::uint64_t at_least = *set;
        const bool open = rank.can_reach(job_state->addresses[0]);
        world.require(open || *over, "a living endpoint counts as closed");
        const std::uint64_t found = rank.user_word_of(job_state->addresses[0]);
        world.require(found >= at_least || *over, "an old user word is found");
        rank.progress();
        world.yield();
      }
      rank.leave();
    });
  };
  expect_held("channel", "random schedules", explore(scenario, 60));
  expect_held("channel", "random schedules", explore(with_lasting_copies(scenario), 20));
}

/// A rank without traffic does not read the device with each poll.
TEST(Channel, WhoHasWaitedForLongLooksSeldom) {
  const auto pool = pool_with_endpoints();
  Scenario scenario = pool->scenario("channel, nobody talks", 1);
  scenario.swarm = false;
  scenario.body = [&](World& world) {
    world.spawn(0, [&] {
      constexpr int polls = 1000;
      Rank rank(world, *pool, {0, {}, {}, 0});
      const auto steps_of_polls = [&](std::uint64_t apart_ns) {
        const std::uint64_t before = world.steps();
        for (int i = 0; i < polls; ++i) {
          rank.progress();
          world.sleep(apart_ns);
        }
        return world.steps() - before;
      };
      const std::uint64_t looking = steps_of_polls(100'000);
      const std::uint64_t seldom = steps_of_polls(500);
      world.require(seldom * 2 < looking,
                    fmt::format("{} operations, {} where each poll looks", seldom, looking));
      rank.leave();
    });
  };
  expect_held("channel", "random schedules", explore(scenario, 3));
}

/// Endpoints are made and closed again and again: slots and space are freed.
TEST(Channel, EndpointsComeAndGo) {
  const auto pool = pool_with_endpoints();
  Scenario scenario = pool->scenario("endpoints come and go", 2);
  scenario.max_steps = 20'000'000;
  scenario.body = [&](World& world) {
    for (std::uint32_t node = 0; node < 2; ++node) {
      world.spawn(node, [&world, &pool, node] {
        for (int round = 0; round < 12; ++round) Rank(world, *pool, {node, {}, {}, 0}).leave();
      });
    }
  };
  scenario.after = [&](World& world) { expect_clean(world, *pool); };
  expect_held("channel", "random schedules", explore(scenario, 6));
}

/// One endpoint stays; others come one after the other, on its node and on others: each channel
/// reuses the memory of an earlier one. Rank 0 stays.
Scenario one_stays(const SimulatedPool& pool) {
  constexpr std::uint32_t rounds = 6;
  Scenario scenario = pool.scenario("channel, one stays and others come and go", 3);
  scenario.max_steps = 20'000'000;
  scenario.body = [&pool](World& world) {
    struct Stage {
      transport::Address stays;
      std::vector<transport::Address> comes = std::vector<transport::Address>(rounds);
      std::vector<bool> came = std::vector<bool>(rounds);
      bool open = false;
      std::uint32_t over = 0;
    };
    auto stage = std::make_shared<Stage>();
    Process& stays = world.spawn(0, [&world, &pool, stage] {
      Rank rank(world, pool, {0, {1}, {1}, 3});
      stage->stays = rank.address();
      stage->open = true;
      for (std::uint32_t round = 0; round < rounds; ++round) {
        world.until([&] { return static_cast<bool>(stage->came[round]); });
        rank.converse({stage->stays, stage->comes[round]});
        world.require(!rank.peer_died(), "taken for dead: " + rank.death());
        stage->over = round + 1;
        // sometimes it finds the next one in its place, sometimes that it has left
        if (world.random() % 2 == 0)
          rank.look_until([&] { return !rank.can_reach(stage->comes[round]); });
      }
      rank.leave();
    });
    world.mark_victim(stays);
    for (std::uint32_t round = 0; round < rounds; ++round) {
      world.spawn(round % 3, [&world, &pool, &stays, stage, round] {
        world.until([&] { return (stage->open && stage->over >= round) || gone(stays); });
        if (gone(stays)) return;
        Rank rank(world, pool, {1, {0}, {0}, 3});
        stage->comes[round] = rank.address();
        stage->came[round] = true;
        rank.converse({stage->stays, rank.address()});
        world.until([&] { return stage->over > round || gone(stays); });
        rank.leave();
      });
    }
  };
  scenario.after = [&pool](World& world) { expect_clean(world, pool); };
  return scenario;
}

TEST(Channel, ReusesChannelMemoryAfterPeerLeft) {
  const auto pool = pool_with_endpoints();
  const Scenario scenario = one_stays(*pool);
  expect_held("channel", "random schedules", explore(scenario, 30));
  expect_held("channel", "random schedules", explore(with_lasting_copies(scenario), 15));
  expect_held("channel", "crash points", crash_everywhere(scenario, 30));
}

constexpr std::uint32_t many_nodes = 16;

/// A ring of many ranks.
Scenario ring_of(const SimulatedPool& pool, std::uint32_t ranks) {
  constexpr std::uint32_t nodes = many_nodes;
  Scenario scenario = pool.scenario(fmt::format("channel, ring of {} ranks", ranks), nodes);
  scenario.max_steps = 4'000'000'000;
  scenario.max_seconds = 1200;
  scenario.swarm = false;
  scenario.faults.switching = 20;
  scenario.body = [&pool, ranks](World& world) {
    auto job_state = std::make_shared<JobState>(ranks);
    for (std::uint32_t i = 0; i < ranks; ++i) {
      world.spawn(i % nodes, [&world, &pool, job_state, i, ranks] {
        run_rank(world, pool, *job_state, {i, {(i + 1) % ranks}, {(i + ranks - 1) % ranks}, 2});
      });
    }
  };
  return scenario;
}

class ManyRanks : public testing::TestWithParam<std::uint32_t> {};

TEST_P(ManyRanks, ExchangeMessages) {
  const std::uint32_t ranks = GetParam();
  const auto pool = pool_with_endpoints({.bytes = std::max<std::uint64_t>(ranks, 128) << 21,
                                         .max_processes = ranks + 8,
                                         .max_nodes = many_nodes,
                                         .lease_ms = 6 * ranks});  // all beat in one thread
  expect_held("channel", "random schedules", explore(ring_of(*pool, ranks), 1));
}
INSTANTIATE_TEST_SUITE_P(Sizes, ManyRanks, testing::Values(129u, 257u));
INSTANTIATE_TEST_SUITE_P(Long, ManyRanks, testing::Values(1024u));

}  // namespace
}  // namespace penstock::sim

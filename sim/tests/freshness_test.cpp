// Published data is found, and found at once, on nodes that hold copies of earlier contents: of
// lines, credits, channels, slots and endpoints.
#include <gtest/gtest.h>

#include <numeric>

#include "base/environment_guard.hpp"
#include "sim/tests/ranks.hpp"

namespace penstock::sim {
namespace {

/// The polls themselves find a published message at once: none has to wait for a line to be evicted
/// by chance, or for the checks that run only now and then.
TEST(Freshness, MessagesArePrompt) {
  const base::EnvironmentItems lines("PENSTOCK_CHANNELS",
                                     "first_lines=1024");  // the channel never moves
  constexpr std::uint32_t messages = 60;
  constexpr int max_polls = 4;
  const auto pool = pool_with_endpoints();
  Scenario scenario = pool->scenario("channel, prompt", 2);
  scenario = with_lasting_copies(scenario);
  scenario.faults.lazy_store_fence = false;
  scenario.body = [&](World& world) {
    auto job_state = std::make_shared<JobState>(2);
    auto sent = std::make_shared<std::array<std::uint32_t, 2>>();
    for (std::uint32_t i = 0; i < 2; ++i) {
      world.spawn(i, [&, job_state, sent, i] {
        Rank rank(world, *pool, {i, {1 - i}, {1 - i}, messages});
        job_state->enter(rank, i);
        world.until([&] { return job_state->opened[1 - i]; });
        rank.meet(job_state->addresses);
        for (std::uint32_t n = 0; n < messages; ++n) {
          // In turn, by ranks 0 and 1.
          int late = 0;
          while (rank.received_from(1 - i) < n + i) {
            rank.progress();
            if (n > 0 && (*sent)[1 - i] >= n + i)
              ++late;  // the first message also has to make a
                       // channel
            world.require(late < max_polls, fmt::format("message {} is found late", n));
            world.yield();
          }
          while (!rank.send_and_complete()) {
            rank.progress();
            world.yield();
          }
          for (late = 0; !rank.all_complete(); ++late) {
            rank.progress();
            world.require(late < 200, fmt::format("message {} is taken late", n));
            world.yield();
          }
          (*sent)[i] = n + 1;
        }
        while (!rank.finished()) {
          rank.progress();
          world.yield();
        }
        rank.leave();
      });
    }
  };
  expect_held("channel", "random schedules", explore(scenario, 10));
}

/// A sender without credit finds it at its first look after it was returned.
TEST(Freshness, CreditsArePrompt) {
  const auto pool = pool_with_endpoints();
  Scenario scenario = with_lasting_copies(pool->scenario("channel, credits", 2));
  scenario.faults.lazy_store_fence = false;
  scenario.body = [&](World& world) {
    auto job_state = std::make_shared<JobState>(2);
    auto state = std::make_shared<int>(0);  // 1: the sender is out of credit; 2: credit was
                                            // returned
    world.spawn(0, [&, job_state, state] {
      Rank rank(world, *pool, {0, {1}, {}, 5000});
      job_state->enter(rank, 0);
      world.until([&] { return job_state->opened[1]; });
      rank.meet(job_state->addresses);
      while (rank.inject_word()) {
      }
      *state = 1;
      world.until([&] { return *state == 2; });
      world.require(rank.inject_word(), "returned credit is not found");
      rank.leave();
    });
    world.spawn(1, [&, job_state, state] {
      Rank rank(world, *pool, {1, {}, {0}, 5000});
      job_state->enter(rank, 1);
      world.until([&] { return *state == 1; });
      rank.meet(job_state->addresses);
      for (int i = 0; i < 200; ++i) {
        rank.progress();
        world.yield();
      }
      *state = 2;
      while (!rank.dead_or_left(job_state->addresses[0])) {
        rank.progress();
        world.sleep(20'000'000);
      }
      rank.leave();
    });
  };
  expect_held("channel", "random schedules", explore(scenario, 3));
}

constexpr std::uint32_t ten = 10;

/// Rank `i` of ten; rank 1 leaves early.
void one_of_ten(World& world, const SimulatedPool& pool, JobState& job_state, std::uint32_t i) {
  world.until([&] { return i == 0 ? job_state.opened[ten] : job_state.opened[i - 1]; });
  const bool leaves = i == 1;
  std::vector<std::uint32_t> to, from;
  if (!leaves && (i + 2) % ten != 1) to.push_back((i + 2) % ten);
  if (!leaves && i != 3) from.push_back((i + ten - 2) % ten);
  Rank rank(world, pool, {i, to, from, 3});
  job_state.enter(rank, i);
  rank.look_until([&] { return static_cast<bool>(job_state.opened[ten - 1]); });
  if (!leaves) {
    rank.look_until([&] { return job_state.changed_hands; });
    rank.converse(job_state.addresses);
  }
  rank.leave();
}

/// More endpoints than words in one line of a mailbox; one of them opens again after the others
/// have found each other.
TEST(Freshness, HearsAllTenSendersAfterOneReturns) {
  const auto pool = pool_with_endpoints({.max_processes = 16});
  Scenario scenario = pool->scenario("channel, ten endpoints", 3);
  scenario.body = [&](World& world) {
    auto job_state = std::make_shared<JobState>(ten + 1);
    for (std::uint32_t i = 0; i < ten; ++i) {
      world.spawn(i < 8 ? 0 : 1, [&, job_state, i] { one_of_ten(world, *pool, *job_state, i); });
    }
    world.spawn(2, [&, job_state] {
      Rank early(world, *pool, {ten, {}, {}, 0});
      early.progress();  // its node now holds copies of its mailbox
      early.close();
      job_state->opened[ten] = true;
      world.until([&] { return job_state->opened[ten - 1] && world.processes()[1]->ended; });
      early.open();
      job_state->changed_hands = true;
      early.leave();
    });
  };
  expect_held("channel", "random schedules", explore(scenario, 20));
  expect_held("channel", "random schedules", explore(with_lasting_copies(scenario), 5));
}

/// The ninth endpoint has its word in a new line of every mailbox. It is heard although it sends
/// one message and then never polls.
TEST(Freshness, TheNinthIsHeardBeforeItPolls) {
  constexpr std::uint32_t ninth = 8;
  const auto pool = pool_with_endpoints({.max_processes = 16});
  Scenario scenario = with_lasting_copies(pool->scenario("channel, the ninth", 2));
  scenario.faults.lazy_store_fence = false;
  scenario.body = [&](World& world) {
    auto job_state = std::make_shared<JobState>(ninth + 1);
    auto received = std::make_shared<bool>(false);
    for (std::uint32_t i = 0; i <= ninth; ++i) {
      world.spawn(i == ninth ? 1 : 0, [&, job_state, received, i] {
        world.until([&] { return i == 0 || job_state->opened[i - 1]; });
        const std::vector<std::uint32_t> first{0}, last{ninth}, nobody{};
        Rank rank(world, *pool, {i, i == ninth ? first : nobody, i == 0 ? last : nobody, 1});
        job_state->enter(rank, i);
        if (i == 0) {
          rank.look_until([&] { return static_cast<bool>(job_state->opened[ninth]); });
          rank.converse(job_state->addresses);
          *received = true;
        }
        if (i == ninth) {
          rank.meet(job_state->addresses);
          world.require(rank.send_and_complete(), "no credit for the first message");
        }
        world.until([&] { return *received; });
        rank.leave();
      });
    }
  };
  expect_held("channel", "random schedules", explore(scenario, 2));
}

/// Index of the first message from rank 0 to rank 1 of that length.
std::uint32_t index_of(std::uint64_t bytes) {
  std::uint32_t index = 0;
  while (Message{0, 1, index}.bytes() != bytes) ++index;
  return index;
}

/// A sender whose last message has `bytes` bytes, and which then makes no call: its stores must not
/// wait for the fence of a later operation.
Scenario silent_after(const SimulatedPool& pool, std::uint64_t bytes) {
  Scenario scenario = pool.scenario(fmt::format("channel, the last has {} bytes", bytes), 2);
  scenario.swarm = false;
  scenario.faults.hold_unordered = true;
  scenario.max_steps = 2'000'000;
  scenario.body = [&pool, last = index_of(bytes)](World& world) {
    auto job_state = std::make_shared<JobState>(2);
    auto received = std::make_shared<std::uint32_t>(0);
    world.spawn(0, [&world, &pool, job_state, received, last] {
      Rank rank(world, pool, {0, {1}, {}, last + 1});
      job_state->enter(rank, 0);
      world.until([&] { return job_state->opened[1]; });
      rank.meet(job_state->addresses);
      for (std::uint32_t n = 0; n < last; ++n) {
        rank.look_until([&] { return rank.send_and_complete(); });
      }
      rank.look_until([&] { return *received == last && rank.all_complete(); });
      world.require(rank.send_and_complete(), "no room for the last message");
      world.until([&] { return *received > last; });
      rank.leave();
    });
    world.spawn(1, [&world, &pool, job_state, received, last] {
      Rank rank(world, pool, {1, {}, {0}, last + 1});
      job_state->enter(rank, 1);
      world.until([&] { return job_state->opened[0]; });
      rank.meet(job_state->addresses);
      while (*received <= last) {
        rank.progress();
        *received = rank.received_from(0);
        world.yield();
      }
      rank.leave();
    });
  };
  return scenario;
}

TEST(Freshness, TheLastMessageNeedsNoLaterOne) {
  const auto pool = pool_with_endpoints();
  for (const std::uint64_t bytes : {8, 500, 16'384, 20'480}) {
    expect_held("channel", "random schedules", explore(silent_after(*pool, bytes), 4));
  }
  const base::EnvironmentItems cells_of_a_whole_message("PENSTOCK_CHANNELS", "cell=65536");
  expect_held("channel", "random schedules", explore(silent_after(*pool, 40'000), 4));
}

/// The receiver no longer looks, and holds copies of lines that were not written yet.
void receive_the_last(World& world, Rank& rank, const JobState& job_state, int& phase) {
  while (rank.received_from(0) < 1) {
    rank.progress();
    world.yield();
  }
  for (int polls = 0; polls < 40'000; ++polls) rank.progress();
  phase = 1;
  world.until([&] { return phase == 3; });  // the sender is dead, and its slot belongs to another
  world.require(rank.can_reach(job_state.addresses[2]), "the new owner is not found");
  world.require(rank.received_from(0) == 2, "the last message of the replaced process is lost");
  phase = 4;
}

Scenario last_of_the_replaced(const SimulatedPool& pool) {
  Scenario scenario = with_lasting_copies(pool.scenario("channel, the last of the replaced", 2));
  scenario.max_steps = 4'000'000;
  scenario.body = [&pool](World& world) {
    auto job_state = std::make_shared<JobState>(3);
    auto phase = std::make_shared<int>(0);
    Process& sender = world.spawn(0, [&world, &pool, job_state, phase] {
      Rank rank(world, pool, {0, {1}, {}, 2});
      rank.open_another();
      job_state->enter(rank, 0);
      world.until([&] { return job_state->opened[1]; });
      rank.meet(job_state->addresses);
      rank.look_until([&] { return rank.send_and_complete(); });
      world.until([&] { return *phase == 1; });
      rank.look_until([&] { return rank.send_and_complete(); });
      world.memory().full_fence();
      *phase = 2;
      world.sleep(3'600'000'000'000);
    });
    world.spawn(1, [&world, &pool, job_state, phase] {
      Rank rank(world, pool, {1, {}, {0}, 2});
      job_state->enter(rank, 1);
      world.until([&] { return job_state->opened[0]; });
      rank.meet(job_state->addresses);
      receive_the_last(world, rank, *job_state, *phase);
      rank.leave();
    });
    world.spawn(0, [&world, &pool, job_state, phase, &sender] {
      world.until([&] { return *phase == 2; });
      world.kill(sender);
      Rank rank(world, pool, {2, {}, {}, 0});  // slots that were never used are taken first
      while (rank.address().slot != job_state->addresses[0].slot) rank.open_another();
      job_state->enter(rank, 2);
      *phase = 3;
      world.until([&] { return *phase == 4; });
      rank.leave();
    });
  };
  return scenario;
}
TEST(Freshness, TakesLastMessageFromRestingChannel) {
  const auto pool = pool_with_endpoints();
  expect_held("channel", "random schedules", explore(last_of_the_replaced(*pool), 5));
}

/// An endpoint that closes while its process lives on is reported as closed, not as dead.
TEST(Freshness, PeersLearnThatAnEndpointWasClosed) {
  const auto pool = pool_with_endpoints();
  Scenario scenario = pool->scenario("channel, one leaves", 2);
  scenario.body = [&](World& world) {
    auto job_state = std::make_shared<JobState>(2);
    auto notified = std::make_shared<bool>(false);
    world.spawn(0, [&, job_state, notified] {
      Rank rank(world, *pool, {0, {1}, {1}, 2});
      job_state->enter(rank, 0);
      world.until([&] { return job_state->opened[1]; });
      rank.converse(job_state->addresses);
      rank.close();
      for (int i = 0; i < 400 && !*notified; ++i) world.sleep(20'000'000);
      rank.leave();
    });
    world.spawn(1, [&, job_state, notified] {
      Rank rank(world, *pool, {1, {0}, {0}, 2});
      job_state->enter(rank, 1);
      world.until([&] { return job_state->opened[0]; });
      rank.converse(job_state->addresses);
      bool closed = false;
      for (int i = 0; i < 100 && !closed; ++i) {
        world.sleep(20'000'000);
        rank.progress();
        closed = !rank.can_reach(job_state->addresses[0]);
      }
      world.require(closed, "the closed endpoint was not reported");
      world.require(!rank.peer_died(), "a closed endpoint counts as dead");
      *notified = true;
      rank.leave();
    });
  };
  expect_held("channel", "random schedules", explore(scenario, 100));
}

/// Ends close and open again: new channels lie where old ones lay, and nodes hold copies of those.
/// Rank 0 sends to rank 1, which may keep its endpoint.
Scenario made_anew(const SimulatedPool& pool, bool receiver_stays) {
  constexpr std::uint32_t rounds = 5;
  Scenario scenario = pool.scenario("channel, made anew", 2);
  scenario.max_steps = 6'000'000;
  scenario.body = [&pool, receiver_stays](World& world) {
    std::vector<std::shared_ptr<JobState>> rolls;
    for (std::uint32_t r = 0; r < rounds; ++r) rolls.push_back(std::make_shared<JobState>(2));
    for (std::uint32_t i = 0; i < 2; ++i) {
      world.spawn(i, [&world, &pool, receiver_stays, rolls, i] {
        const bool stays = receiver_stays && i == 1;
        const std::vector<std::uint32_t> other{1 - i}, nobody{};
        Rank rank(world, pool, {i, i == 0 ? other : nobody, i == 1 ? other : nobody, 1});
        for (std::uint32_t r = 0; r < rounds; ++r) {
          if (r > 0 && !stays) rank.open();
          rolls[r]->enter(rank, i);
          rank.look_until([&] { return static_cast<bool>(rolls[r]->opened[1 - i]); });
          rank.converse(rolls[r]->addresses);
          world.require(!rank.peer_died(), "taken for dead: " + rank.death());
          if (!stays) rank.close();
        }
        rank.leave();
      });
    }
  };
  return scenario;
}

TEST(Freshness, NewChannelsInThePlaceOfOldOnes) {
  const auto pool = pool_with_endpoints();
  for (const bool receiver_stays : {false, true}) {
    const Scenario scenario = made_anew(*pool, receiver_stays);
    expect_held("channel", "random schedules", explore(scenario, 20));
    expect_held("channel", "random schedules", explore(with_lasting_copies(scenario), 5));
  }
}

/// The receiver's node holds, by a prefetch, a copy of the header that lay in the same place
/// before. A channel is announced once: the receiver must understand it then.
TEST(Freshness, FindsNewChannelAtOldOffsetAtOnce) {
  constexpr std::uint32_t rounds = 4, max_polls = 400;
  const auto pool = pool_with_endpoints();
  Scenario scenario = with_lasting_copies(pool->scenario("channel, a new one is heard", 2));
  scenario.faults.lazy_store_fence = false;
  scenario.faults.prefetch = 300;
  scenario.body = [&](World& world) {
    struct Stage {
      std::uint32_t receivers = 0, opened = 0, sent = 0, received = 0;  ///< rounds
      transport::Address sender, receiver;
    };
    auto stage = std::make_shared<Stage>();
    world.spawn(0, [&, stage] {
      Rank rank(world, *pool, {0, {1}, {}, 1});
      for (std::uint32_t round = 1; round <= rounds; ++round) {
        if (round > 1) rank.open();
        stage->sender = rank.address();
        stage->opened = round;
        world.until([&] { return stage->receivers == round; });
        rank.meet({{}, stage->receiver});
        rank.look_until([&] { return rank.send_and_complete() && rank.all_complete(); });
        stage->sent = round;
        world.until([&] { return stage->received == round; });
        rank.close();
      }
      rank.leave();
    });
    world.spawn(1, [&, stage] {
      Rank rank(world, *pool, {1, {}, {0}, 1});
      for (std::uint32_t round = 1; round <= rounds; ++round) {
        if (round > 1) rank.open();
        stage->receiver = rank.address();
        stage->receivers = round;
        rank.look_until([&] { return stage->opened == round; });
        rank.meet({stage->sender, {}});
        rank.look_until([&] { return stage->sent == round; });
        for (std::uint32_t polls = 0; rank.received_from(0) == 0; ++polls) {
          world.require(polls < max_polls, fmt::format("channel {} is not heard", round));
          rank.progress();
          world.yield();
        }
        stage->received = round;
        rank.close();
      }
      rank.leave();
    });
  };
  expect_held("channel", "random schedules", explore(scenario, 60));
}

/// One message for each channel, so that nothing announces it a second time: an announcement that
/// arrives before the header counts as one to another endpoint, and is ignored until the receiver
/// searches for lost announcements.
TEST(Freshness, AChannelIsAnnouncedAfterItsHeader) {
  constexpr std::uint32_t senders = 6, max_polls = 4'000;
  const auto pool = pool_with_endpoints();
  Scenario scenario = pool->scenario("channel, announced", 2);
  scenario.swarm = false;
  scenario.faults.hold_unordered = true;
  scenario.faults.deliver = 5;
  scenario.faults.max_delay = 8000;
  scenario.max_steps = 2'000'000;
  scenario.body = [&](World& world) {
    auto job_state = std::make_shared<JobState>(senders + 1);
    auto sent = std::make_shared<std::uint32_t>(0);
    auto received = std::make_shared<bool>(false);
    const auto all_opened = [job_state] {
      return std::all_of(job_state->opened.begin(), job_state->opened.end(),
                         [](bool is) { return is; });
    };
    for (std::uint32_t i = 0; i <= senders; ++i) {
      world.spawn(i == 0 ? 0 : 1, [&, all_opened, job_state, sent, received, i] {
        std::vector<std::uint32_t> all(senders);
        std::iota(all.begin(), all.end(), 1u);
        Rank rank(world, *pool, i == 0 ? Rank::Plan{0, {}, all, 1} : Rank::Plan{i, {0}, {}, 1});
        job_state->enter(rank, i);
        if (i == 0) {
          rank.look_until(all_opened);
          rank.meet(job_state->addresses);
          for (std::uint32_t polls = 0; !rank.finished(); polls += *sent == senders ? 1 : 0) {
            world.require(polls < max_polls, "a channel is not found");
            rank.progress();
            world.yield();
          }
          *received = true;
        } else {
          world.until(all_opened);
          rank.meet(job_state->addresses);
          // the ring is too small for it, and the pool's lock not free soon: the second time it
          // uses a cell
          const bool at_once = rank.send_and_complete();
          world.require(at_once || rank.send_and_complete(), "no credit for the first message");
          ++*sent;
          world.until([&] {
            if (!rank.all_complete()) rank.progress();  // the first ring may have no room for it
            return *received;
          });
        }
        rank.leave();
      });
    }
  };
  expect_held("channel", "random schedules", explore(scenario, 60));
}

}  // namespace
}  // namespace penstock::sim

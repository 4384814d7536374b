// Channels that move: to a larger ring when they prove busy, and back when they are idle.
#include <gtest/gtest.h>

#include "base/environment_guard.hpp"
#include "sim/tests/ranks.hpp"
#include "sim/tests/sides.hpp"
#include "sim/tests/vandal.hpp"

namespace penstock::sim {
namespace {

constexpr std::uint64_t ns_a_s = 1'000'000'000;
/// Bytes of the ranks' own payload; of two idle channels, in pieces; and the additional bytes of
/// two busy ones.
constexpr std::uint64_t buffers = 2 * Rank::bytes_of_buffers, small = 112 << 10, grown = 128 << 10;

/// Two ranks, and the most and the least used space that rank 1 finds.
struct Story {
  JobState job{2};
  std::uint32_t talked[2] = {};  ///< conversations that each has ended
  bool rested[2] = {};
  std::uint64_t before = 0, busy = 0, idle = 0;
};

bool a_victim_died(World& world) {
  return world.victim() != nullptr && world.victim()->dead;
}

void talk(World& world, Rank& rank, Story& story, std::uint32_t i) {
  rank.converse(story.job.addresses);
  const std::uint32_t talked = ++story.talked[i];
  // the other may still wait for credits, or for this rank to follow
  rank.look_until([&] { return story.talked[1 - i] >= talked || a_victim_died(world); });
}

/// Makes progress so rarely that many seconds take few steps.
void idle(World& world, Rank& rank, std::uint64_t ns) {
  const std::uint64_t until = world.now_ns() + ns;
  for (; world.now_ns() < until; world.sleep(ns_a_s / 1000))
    for (int call = 0; call < 8; ++call) rank.progress();
}

void run(World& world, const SimulatedPool& pool, Story& story, std::uint32_t i,
         std::uint32_t messages) {
  Rank rank(world, pool, {i, {1 - i}, {1 - i}, messages});
  story.job.enter(rank, i);
  world.until([&] { return story.job.opened[1 - i] || a_victim_died(world); });
  if (i == 1) story.before = rank.bytes_used();
  talk(world, rank, story, i);
  if (i == 1) story.busy = rank.bytes_used();
  idle(world, rank, 14 * ns_a_s);
  if (i == 1) story.idle = rank.bytes_used();
  story.rested[i] = true;  // a rank that looks meanwhile would take messages of the next
                           // conversation
  world.until([&] { return story.rested[1 - i] || a_victim_died(world); });
  talk(world, rank, story, i);
  if (rank.peer_died()) world.require(a_victim_died(world), "taken for dead: " + rank.death());
  rank.leave();
}

/// A conversation that makes both channels grow, a rest in which they shrink, and another
/// conversation.
Scenario grow_and_shrink(const SimulatedPool& pool, std::uint32_t messages) {
  Scenario scenario = pool.scenario("channel, moving", 2);
  scenario.max_steps = 60'000'000;
  scenario.swarm = false;
  scenario.body = [&pool, messages](World& world) {
    auto story = std::make_shared<Story>();
    for (std::uint32_t i = 0; i < 2; ++i) {
      Process& process = world.spawn(i, [&world, &pool, story, messages, i] {
        run(world, pool, *story, i, messages);
        if (i == 0 || a_victim_died(world)) return;
        world.require(story->busy >= story->idle + grown, "no channel grew, or none shrank");
        world.require(story->idle <= story->before + buffers + small,
                      fmt::format("{} bytes are used by idle channels",
                                  story->idle - story->before - buffers));
      });
      if (i == 0) world.mark_victim(process);
    }
  };
  scenario.after = [&pool](World& world) { expect_clean(world, pool); };
  return scenario;
}

TEST(Moving, BusyChannelGrowsAndIdleShrinks) {
  const auto pool = pool_with_endpoints();
  const Scenario scenario = grow_and_shrink(*pool, 120);
  expect_held("channel", "random schedules", explore(scenario, 4));
  expect_held("channel", "random schedules", explore(with_lasting_copies(scenario), 2));
}

/// With fewer cells at first.
TEST(Moving, AChannelOfFewCellsGrows) {
  const auto pool = pool_with_endpoints();
  const base::EnvironmentItems cells("PENSTOCK_CHANNELS", "cells=");
  const Scenario scenario = grow_and_shrink(*pool, 120);
  expect_held("channel", "random schedules", explore(scenario, 3));
}

/// Whichever rank dies, and wherever: the other is told, and all space is freed.
TEST(Moving, WhoDiesOnTheWayIsTold) {
  const auto pool = pool_with_endpoints();
  const base::EnvironmentItems lines("PENSTOCK_CHANNELS", "first_lines=16");  // it moves at once
  Scenario scenario = conversation(*pool, "channel, moving, deaths", 2, 2, 40);
  scenario.after = [&](World& world) { expect_clean(world, *pool); };
  expect_held("channel", "random schedules", explore(scenario, 40));
  expect_held("channel", "random schedules", explore(with_lasting_copies(scenario), 20));
  expect_held("channel", "crash points", crash_everywhere(scenario, 40));
}

/// A burst into a channel that the receiver has not heard of yet: messages sent before the move
/// come first.
TEST(Moving, NothingIsLostOrOvertakenByABurst) {
  const auto pool = pool_with_endpoints();
  const base::EnvironmentItems lines("PENSTOCK_CHANNELS", "first_lines=16");
  Scenario scenario = pool->scenario("channel, moving, a burst", 2);
  scenario.max_steps = 20'000'000;
  scenario.body = [&](World& world) {
    auto job_state = std::make_shared<JobState>(2);
    auto sent = std::make_shared<bool>(false);
    world.spawn(0, [&, job_state, sent] {
      Rank rank(world, *pool, {0, {1}, {}, 60});
      job_state->enter(rank, 0);
      world.until([&] { return job_state->opened[1]; });
      rank.meet(job_state->addresses);
      for (int n = 0; n < 60 && rank.send_and_complete(); ++n) {
      }
      *sent = true;
      while (!rank.finished()) {
        if (!rank.send_and_complete()) rank.progress();
        world.yield();
      }
      rank.leave();
    });
    world.spawn(1, [&, job_state, sent] {
      Rank rank(world, *pool, {1, {}, {0}, 60});
      job_state->enter(rank, 1);
      world.until([&] { return *sent; });
      rank.converse(job_state->addresses);
      rank.leave();
    });
  };
  expect_held("channel", "random schedules", explore(scenario, 60));
  expect_held("channel", "random schedules", explore(with_lasting_copies(scenario), 30));
}

/// A process is stopped while it holds the pool's lock, under which a larger ring gets its memory:
/// the channel stays as it is meanwhile, and its ranks go on.
TEST(Moving, StoppedLockHolderBlocksNoChannel) {
  const auto pool = pool_with_endpoints({.lease_ms = 36'000'000});
  const base::EnvironmentItems lines("PENSTOCK_CHANNELS", "first_lines=16");
  constexpr std::uint32_t words = 400;
  constexpr std::uint64_t longest_ns = 60 * ns_a_s;
  struct Stages {
    JobState job{2};
    bool met = false, locked = false;
    std::uint32_t ended = 0;
  };
  Scenario scenario = pool->scenario("channel, moving, the lock's holder stopped", 2);
  scenario.max_steps = 40'000'000;
  scenario.swarm = false;
  scenario.body = [&](World& world) {
    auto all = std::make_shared<Stages>();
    for (std::uint32_t i = 0; i < 2; ++i)
      world.spawn(i, [&, all, i] {
        Rank rank(world, *pool, {i, {1 - i}, {1 - i}, 0});
        all->job.enter(rank, i);
        world.until([&] { return all->job.opened[1 - i]; });
        rank.meet(all->job.addresses);
        if (i == 0) {
          world.require(rank.inject_word(), "no credit");
        } else {
          rank.look_until([&] { return rank.words_received() == 1; });
          all->met = true;
        }
        world.until([&] { return all->locked; });
        const std::uint64_t since = world.now_ns();
        for (std::uint32_t n = 1; i == 0 && n < words; ++n)
          while (!rank.inject_word()) rank.progress();
        if (i == 1) rank.look_until([&] { return rank.words_received() == words; });
        world.require(world.now_ns() - since < longest_ns, "the rank waited for the lock");
        ++all->ended;
        rank.look_until([&] { return all->ended == 2; });
        world.until([&] { return !world.processes()[2]->stopped; });
        rank.leave();
      });
    Process& holder = world.spawn(1, [&, all] {
      const auto attached = pool->attach(world, {.job = "sim"});
      world.until([&] { return all->met; });
      const auto guard = attached->lock();
      world.require(guard.has_value(), guard ? "" : guard.error().message);
      all->locked = true;
      world.self().stopped = true;
      world.sleep(1);
    });
    world.spawn(0, [&, all] {
      wait_until(world, "the ranks", [&] { return all->ended == 2; });
      holder.stopped = false;
    });
  };
  expect_held("channel", "random schedules", explore(scenario, 10));
}

/// The receiver knows the old channel, and finds the new channel's header overwritten.
TEST(Moving, RereadsOverwrittenHeaderOfNewChannel) {
  const auto pool = pool_with_endpoints();
  const base::EnvironmentItems lines("PENSTOCK_CHANNELS", "first_lines=16");
  constexpr std::uint32_t words = 40;
  struct Stages {
    JobState job{2};
    bool received = false, sent = false, damaged = false, over = false;
  };
  Scenario scenario = pool->scenario("channel, moving, a header overwritten", 3);
  scenario.max_steps = 20'000'000;
  scenario.body = [&](World& world) {
    auto all = std::make_shared<Stages>();
    for (std::uint32_t i = 0; i < 2; ++i)
      world.spawn(i, [&, all, i] {
        Rank rank(world, *pool, {i, {1 - i}, {1 - i}, 0});
        all->job.enter(rank, i);
        world.until([&] { return all->job.opened[1 - i]; });
        rank.meet(all->job.addresses);
        if (i == 0) {
          world.require(rank.inject_word(), "no credit");
          world.until([&] { return all->received; });
          for (std::uint32_t n = 1; n < words; ++n) world.require(rank.inject_word(), "no credit");
          all->sent = true;
          rank.look_until([&] { return all->over; });
        } else {
          rank.look_until([&] { return rank.words_received() == 1; });
          all->received = true;
          world.until([&] { return all->damaged; });
          await_words(world, rank, words);
          all->over = true;
        }
        rank.leave();
      });
    world.spawn(2, [&, all] {
      const Vandal vandal(world, *pool, all->job);
      world.until([&] { return all->sent; });
      vandal.overwrite(vandal.channel(), world.random());
      all->damaged = true;
    });
  };
  expect_held("channel", "random schedules", explore(scenario, 5));
}

/// The receiver has not heard of the old channel yet, which holds the first words, and finds its
/// header overwritten: the sender still has it, and writes it again.
TEST(Moving, RepairsOverwrittenHeaderOfOldChannel) {
  const auto pool = pool_with_endpoints();
  const base::EnvironmentItems lines("PENSTOCK_CHANNELS", "first_lines=16");
  const Scenario scenario =
      damaged_unnoticed(*pool, "channel, moving, an old header overwritten", 40,
                        [](World& world, const Vandal& vandal) {
                          transport::ChannelHeader header;
                          vandal.memory().observe_line(&header, vandal.channel());
                          world.require(header.previous != 0, "the channel has not moved");
                          vandal.overwrite(vandal.at(header.previous), world.random());
                        });
  expect_held("channel", "random schedules", explore(scenario, 5));
}

/// An idle channel has moved back, and while its receiver heard of that, another held the pool's
/// lock: the receiver gives credits there only with the next message. That message, of 4,000 bytes
/// to be injected, is longer than the small ring.
TEST(Moving, LongMessageContinuesWithoutReceiversMove) {
  const auto pool = pool_with_endpoints();
  constexpr std::uint32_t words = 200, sends = 2, receives = 0;  // so the first is as long
  struct Stages {
    JobState job{3};
    bool shrunk = false, held = false, received = false;
  };
  Scenario scenario = pool->scenario("channel, moving, followed late", 3);
  scenario.max_steps = 60'000'000;
  scenario.swarm = false;
  scenario.body = [&](World& world) {
    auto all = std::make_shared<Stages>();
    world.spawn(1, [&, all] {
      const auto attached = pool->attach(world, {.job = "sim"});
      world.until([&] { return all->shrunk; });
      const auto held = attached->lock();
      world.require(held.has_value(), "no lock");
      all->held = true;
      world.until([&] { return all->received; });
    });
    world.spawn(sends, [&, all] {
      Rank rank(world, *pool, {sends, {receives}, {}, 1});
      all->job.enter(rank, sends);
      world.until([&] { return all->job.opened[receives]; });
      const std::uint64_t before = rank.bytes_used();
      rank.meet(all->job.addresses);
      for (std::uint32_t n = 0; n < words;)
        rank.inject_word() ? static_cast<void>(++n) : rank.progress();
      world.require(rank.bytes_used() >= before + grown / 2, "the channel has not grown");
      idle(world, rank, 14 * ns_a_s);
      all->shrunk = true;
      rank.look_until([&] { return all->received; });
      const std::uint64_t until = world.now_ns() + ns_a_s / 2;  // sooner than damage is noticed
      rank.meet(all->job.addresses);
      const Message first{sends, receives, 0};
      world.require(first.bytes() == 4000 && first.injected(), "another message");
      while (!rank.finished()) {
        world.require(world.now_ns() < until, "the message does not leave");
        (void)rank.send_and_complete();
        rank.progress();
        world.sleep(1'000'000);
      }
      rank.leave();
    });
    world.spawn(receives, [&, all] {
      Rank rank(world, *pool, {receives, {}, {sends}, 1});
      all->job.enter(rank, receives);
      rank.look_until([&] { return rank.words_received() == words; });
      idle(world, rank, ns_a_s);  // all credits are returned
      world.until([&] { return all->held; });
      idle(world, rank, 4 * ns_a_s);  // it no longer looks at the channel itself
      all->received = true;
      rank.converse(all->job.addresses);
      rank.leave();
    });
  };
  expect_held("channel", "random schedules", explore(scenario, 5));
  expect_held("channel", "random schedules", explore(with_lasting_copies(scenario), 2));
}

/// Counts the arriving messages.
class Counting final : public transport::EndpointCallbacks {
 public:
  explicit Counting(World&) {}
  ReceiveBuffer on_message(const transport::Message&) override {
    ++arrived;
    return {};
  }
  void on_sent(SendOp*) override {}
  void on_send_failed(SendOp*, const Error&) override {}
  void on_peer_dead(Peer, const std::string&) override {}
  std::uint32_t arrived = 0;
};

/// The receiver reports an error in its place while the channel has moved on. The sender looks
/// there a last time, and holds a copy of an earlier report.
TEST(Moving, SeesErrorSentBeforeReceiverMoves) {
  const auto pool = pool_with_endpoints();
  const base::EnvironmentItems lines("PENSTOCK_CHANNELS", "first_lines=16");
  constexpr std::uint32_t words = 40, code = 28;
  struct Stages {
    std::optional<transport::Address> addresses[2];
    bool received = false, looked = false, notified = false;
    bool sent = false, followed = false, over = false;
  };
  Scenario scenario = pool->scenario("channel, moving, error", 2);
  scenario.max_steps = 20'000'000;
  scenario.body = [&](World& world) {
    auto all = std::make_shared<Stages>();
    world.spawn(0, [&, all] {
      SideOf<Counting> self(world, *pool);
      all->addresses[0] = self.endpoint->address();
      world.until([&] { return all->addresses[1].has_value(); });
      const Peer peer = *self.endpoint->resolve(*all->addresses[1]);
      const auto send_word = [&] {
        const auto sent = self.endpoint->try_inject(peer, {}, nullptr);
        world.require(sent && *sent, "no credit");
      };
      send_word();
      world.until([&] { return all->received; });
      world.require(self.endpoint->take_error(peer) == 0,
                    "an error was reported before there was any");
      all->looked = true;
      world.until([&] { return all->notified; });
      world.require(self.endpoint->take_error(peer) == code - 1, "the first report is heard late");
      for (std::uint32_t n = 1; n < words; ++n) send_word();
      all->sent = true;
      world.until([&] { return all->followed; });
      world.require(self.endpoint->take_error(peer) == code, "the report is not heard");
      world.require(self.endpoint->take_error(peer) == 0, "the report is heard twice");
      all->over = true;
    });
    world.spawn(1, [&, all] {
      SideOf<Counting> self(world, *pool);
      all->addresses[1] = self.endpoint->address();
      world.until([&] { return all->addresses[0].has_value(); });
      const Peer peer = *self.endpoint->resolve(*all->addresses[0]);
      const auto look_until = [&](const std::function<bool()>& holds) {
        for (; !holds(); world.sleep(1'000'000)) self.endpoint->progress();
      };
      look_until([&] { return self.callbacks.arrived == 1; });
      all->received = true;
      world.until([&] { return all->looked; });
      self.endpoint->send_error(peer, code - 1);
      world.memory().full_fence();
      all->notified = true;
      world.until([&] { return all->sent; });
      self.endpoint->send_error(peer, code);
      look_until([&] { return self.callbacks.arrived == words; });
      const std::uint64_t until = world.now_ns() + ns_a_s;
      look_until([&] { return world.now_ns() >= until; });  // all credits are returned
      all->followed = true;
      look_until([&] { return all->over; });
    });
  };
  expect_held("channel", "random schedules", explore(scenario, 10));
  expect_held("channel", "random schedules", explore(with_lasting_copies(scenario), 10));
}

/// A sender that only injects has nothing queued: the receiver still learns that it waits.
TEST(Moving, RepublishesOverwrittenCreditsForInject) {
  const auto pool = pool_with_endpoints();
  const base::EnvironmentItems lines("PENSTOCK_CHANNELS",
                                     "first_lines=1024");  // the channel never moves
  constexpr std::uint32_t fill = 1024;
  struct Stages {
    JobState job{2};
    bool full = false, rested = false, over = false;
  };
  Scenario scenario = pool->scenario("channel, credits overwritten", 3);
  scenario.max_steps = 60'000'000;
  scenario.swarm = false;
  scenario.body = [&](World& world) {
    auto all = std::make_shared<Stages>();
    world.spawn(0, [&, all] {
      Rank rank(world, *pool, {0, {1}, {}, 0});
      all->job.enter(rank, 0);
      world.until([&] { return all->job.opened[1]; });
      rank.meet(all->job.addresses);
      for (std::uint32_t n = 0; n < fill; ++n) world.require(rank.inject_word(), "no credit");
      all->full = true;
      world.until([&] { return all->rested; });
      const Vandal vandal(world, *pool, all->job);
      vandal.overwrite(vandal.channel() + transport::ChannelLayout::credits, world.random());
      const std::uint64_t until = world.now_ns() + 20 * ns_a_s;
      while (!rank.inject_word()) {
        world.require(world.now_ns() < until, "no credit for 20 s");
        rank.look_until([&, looked = false]() mutable { return std::exchange(looked, true); });
      }
      rank.look_until([&] { return all->over; });
      rank.leave();
    });
    world.spawn(1, [&, all] {
      Rank rank(world, *pool, {1, {}, {0}, 0});
      all->job.enter(rank, 1);
      world.until([&] { return all->full; });
      rank.look_until([&] { return rank.words_received() == fill; });
      idle(world, rank, 2 * ns_a_s);  // all credits are returned, and the channel rests
      all->rested = true;
      rank.look_until([&] { return rank.words_received() > fill; });
      all->over = true;
      rank.leave();
    });
  };
  expect_held("channel", "random schedules", explore(scenario, 5));
}

}  // namespace
}  // namespace penstock::sim

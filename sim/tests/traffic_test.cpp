// Device reads of waiting ranks, and how soon they still find a message.
#include <gtest/gtest.h>

#include "sim/tests/ranks.hpp"

namespace penstock::sim {
namespace {

constexpr std::uint64_t poll_ns = 5'000, ns_a_ms = 1'000'000;

/// Two ranks on two nodes, whose only turn is that of `body(rank, state)`.
struct Talk {
  JobState job{2};
  std::uint32_t sent = 0;
  bool over = false;
};

Scenario two_ranks(const SimulatedPool& pool, const char* name,
                   std::function<void(World&, Rank&, Talk&, std::uint32_t)> body) {
  Scenario scenario = with_lasting_copies(pool.scenario(name, 2));
  scenario.swarm = false;
  scenario.faults.lazy_store_fence = false;
  scenario.max_steps = 40'000'000;
  scenario.body = [&pool, body](World& world) {
    auto talk = std::make_shared<Talk>();
    for (std::uint32_t i = 0; i < 2; ++i) {
      world.spawn(i, [&world, &pool, body, talk, i] {
        Rank rank(world, pool, {i, {1 - i}, {1 - i}, 0});
        talk->job.enter(rank, i);
        world.until([&] { return talk->job.opened[1 - i]; });
        rank.meet(talk->job.addresses);
        body(world, rank, *talk, i);
        rank.leave();
      });
    }
  };
  return scenario;
}

void wait_polling(World& world, Rank& rank, const std::function<bool()>& holds) {
  for (; !holds(); world.sleep(poll_ns)) rank.progress();
}

/// After a first message, so that a channel exists.
void exchange_words(World& world, Rank& rank, Talk& talk, std::uint32_t i) {
  if (i == 0) {
    world.require(rank.inject_word(), "no credit");
    talk.sent = 1;
  } else {
    wait_polling(world, rank, [&] { return rank.words_received() == 1; });
  }
}

/// Sends message `n` after a rest of `ns`, in which the sender polls as well.
void send_after(World& world, Rank& rank, Talk& talk, std::uint32_t n, std::uint64_t ns) {
  const std::uint64_t until = world.now_ns() + ns;
  wait_polling(world, rank, [&] { return world.now_ns() >= until; });
  world.require(rank.inject_word(), "no credit");
  talk.sent = n;
}

/// Finds message `n`, at most `ns` after it was sent.
void find_within(World& world, Rank& rank, const Talk& talk, std::uint32_t n,
                 std::uint64_t late_ns) {
  wait_polling(world, rank, [&] { return talk.sent == n || rank.words_received() == n; });
  const std::uint64_t sent_ns = world.now_ns();
  wait_polling(world, rank, [&] { return rank.words_received() == n; });
  const std::uint64_t late = world.now_ns() - sent_ns;
  world.require(late <= late_ns, fmt::format("found {} us later", late / 1000));
}

/// After the first millisecond, and including all else that a rank polls.
TEST(Traffic, WaiterReadsLimitedLinesPerSecond) {
  constexpr std::uint64_t waits_ns = 1000 * ns_a_ms, most = 10'000;
  const auto pool = pool_with_endpoints();
  const auto body = [&](World& world, Rank& rank, Talk& talk, std::uint32_t i) {
    exchange_words(world, rank, talk, i);
    if (i == 0) {
      wait_polling(world, rank, [&] { return talk.over; });
      return;
    }
    std::uint64_t until = world.now_ns() + ns_a_ms;
    wait_polling(world, rank, [&] { return world.now_ns() >= until; });
    const std::uint64_t before = rank.device_reads();
    until = world.now_ns() + waits_ns;
    wait_polling(world, rank, [&] { return world.now_ns() >= until; });
    const std::uint64_t reads = rank.device_reads() - before;
    world.require(reads <= most, fmt::format("{} lines were read in a second", reads));
    talk.over = true;
  };
  expect_held("traffic", "random schedules", explore(two_ranks(*pool, "a wait", body), 2));
}

/// The bell: a message after a long wait is found within a look at the bell, and not only when the
/// mailbox is swept.
TEST(Traffic, WhoHasWaitedForLongHearsTheBell) {
  constexpr std::uint32_t messages = 8;
  constexpr std::uint64_t apart_ns = 90 * ns_a_ms, late_ns = ns_a_ms;
  const auto pool = pool_with_endpoints();
  const auto body = [&](World& world, Rank& rank, Talk& talk, std::uint32_t i) {
    exchange_words(world, rank, talk, i);
    for (std::uint32_t n = 2; n <= messages; ++n) {
      if (i == 0) {
        // not after a whole number of sweeps
        send_after(world, rank, talk, n, apart_ns + n * ns_a_ms / 2);
        continue;
      }
      find_within(world, rank, talk, n, late_ns);
    }
  };
  expect_held("traffic", "random schedules", explore(two_ranks(*pool, "the bell", body), 5));
}

/// A wait of some ms does not get longer by an eighth: looks at everything are rare, looks at the
/// bell are not.
TEST(Traffic, LongWaiterFindsMessageByBell) {
  constexpr std::uint64_t late_ns = 300'000;
  const auto pool = pool_with_endpoints();
  const auto body = [&](World& world, Rank& rank, Talk& talk, std::uint32_t i) {
    exchange_words(world, rank, talk, i);
    for (std::uint32_t n = 2; n <= 12; ++n) {
      if (i == 0) {
        send_after(world, rank, talk, n, 11 * ns_a_ms + n * ns_a_ms / 3);
        continue;
      }
      find_within(world, rank, talk, n, late_ns);
    }
  };
  expect_held("traffic", "random schedules", explore(two_ranks(*pool, "a short wait", body), 5));
}

/// A sender that has just sent does not ring; its message is found without that, and soon.
TEST(Traffic, FindsSoonMessagesWithoutBell) {
  const auto pool = pool_with_endpoints();
  const auto body = [&](World& world, Rank& rank, Talk& talk, std::uint32_t i) {
    exchange_words(world, rank, talk, i);
    for (std::uint32_t n = 2; n <= 40; ++n) {
      if (i == 0) {
        wait_polling(world, rank, [&] { return talk.over; });
        world.sleep(n * 10'000);  // up to 400 us
        world.require(rank.inject_word(), "no credit");
        talk.over = false;
        talk.sent = n;
        continue;
      }
      talk.over = true;
      find_within(world, rank, talk, n, ns_a_ms);
    }
  };
  expect_held("traffic", "random schedules", explore(two_ranks(*pool, "a talk", body), 5));
}

}  // namespace
}  // namespace penstock::sim

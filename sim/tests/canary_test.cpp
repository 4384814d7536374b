// Protocols with one piece missing, which the simulation must catch: if one of these passes, the
// simulation is blind, and its results about the real protocols are worthless.
#include <gtest/gtest.h>
#include <unistd.h>

#include <cstring>
#include <thread>

#include "sim/world/explore.hpp"

namespace penstock::sim {
namespace {

using coherence::Memory;

constexpr std::uint64_t rounds = 20;
constexpr std::uint64_t data_lines = 4;
constexpr std::uint64_t runs = 300;

std::byte* line(World& world, std::uint64_t index) {
  return world.base() + index * line_bytes;
}

struct Pieces {
  bool store_fence = true;
  bool invalidate_data = true;
  bool load_fence = true;
  bool invalidate_flag = true;
  bool published = true;
};

/// Line 0: flag; line 1: the reader's acknowledgement; lines 2..: data.
void writer(World& world, const Pieces& with) {
  const Memory memory = world.memory();
  std::byte* acknowledged = line(world, 1);
  for (std::uint64_t round = 1; round <= rounds; ++round) {
    std::uint64_t payload[data_lines * words_per_line];
    std::fill(std::begin(payload), std::end(payload), round);
    if (with.published) {
      memory.publish_bulk(line(world, 2), payload, sizeof payload);
    } else {
      std::memcpy(line(world, 2), payload, sizeof payload);  // without a write-back
    }
    if (with.store_fence) memory.store_fence();
    memory.publish_word(line(world, 0), round);
    memory.store_fence();
    world.until([&] { return memory.observe_word(acknowledged) >= round; });
  }
}

void reader(World& world, const Pieces& with) {
  const Memory memory = world.memory();
  std::byte* acknowledged = line(world, 1);
  for (std::uint64_t round = 1; round <= rounds; ++round) {
    std::uint64_t announced = 0;
    for (int polls = 0; announced < round; ++polls) {
      world.require(polls < 2000, "the flag never came");
      if (with.invalidate_flag) memory.invalidate(line(world, 0), 8);
      memory.load_fence();
      announced = memory.load_word(line(world, 0));
      if (announced < round) world.yield();
    }
    std::uint64_t payload[data_lines * words_per_line];
    if (with.invalidate_data) memory.invalidate(line(world, 2), sizeof payload);
    if (with.load_fence) memory.load_fence();
    memory.load_bulk(payload, line(world, 2), sizeof payload);
    for (const std::uint64_t word : payload)
      world.require(word == round, "the data is not the announced one");
    memory.publish_word(acknowledged, round);
    memory.store_fence();
  }
}

Scenario flag_and_data(const char* name, const Pieces& with) {
  Scenario scenario;
  scenario.name = name;
  scenario.device_bytes = 64 << 10;
  scenario.max_steps = 300'000;
  scenario.body = [with](World& world) {
    world.spawn(0, [&world, with] { writer(world, with); });
    world.spawn(1, [&world, with] { reader(world, with); });
  };
  return scenario;
}

TEST(Canary, TheWholeProtocolHolds) {
  const RunStatistics statistics = explore(flag_and_data("canary: whole", {}), runs);
  EXPECT_TRUE(statistics.held()) << statistics.first_failure;
}

void expect_caught(const char* name, const Pieces& without) {
  EXPECT_FALSE(explore(flag_and_data(name, without), runs).held()) << name << " was not caught";
}

TEST(Canary, MissingStoreFenceIsCaught) {
  expect_caught("canary: no order", {.store_fence = false});
}
TEST(Canary, MissingInvalidationOfTheDataIsCaught) {
  expect_caught("canary: data not invalidated", {.invalidate_data = false});
}
TEST(Canary, MissingLoadFenceIsCaught) {
  expect_caught("canary: no load_fence", {.load_fence = false});
}
TEST(Canary, MissingInvalidationOfTheFlagIsCaught) {
  expect_caught("canary: flag not invalidated", {.invalidate_flag = false});
}
TEST(Canary, MissingWriteBackIsCaught) {
  expect_caught("canary: not written back", {.published = false});
}

/// Dekker: each publishes its word and looks at the other's. With `store_fence` alone both may miss
/// the other.
Scenario dekker(const char* name, bool full) {
  Scenario scenario;
  scenario.name = name;
  scenario.device_bytes = 64 << 10;
  scenario.body = [full](World& world) {
    auto missed = std::make_shared<int>(0);
    for (std::uint32_t node = 0; node < 2; ++node) {
      world.spawn(node, [&world, full, node, missed] {
        const Memory memory = world.memory();
        memory.publish_word(line(world, node), 1);
        full ? memory.full_fence() : memory.store_fence();
        if (memory.observe_word(line(world, 1 - node)) == 0) ++*missed;
        world.require(*missed < 2, "neither saw the other");
      });
    }
  };
  return scenario;
}

TEST(Canary, CatchesStoreFenceForFullFence) {
  EXPECT_FALSE(explore(dekker("canary: Dekker by order", false), runs).held());
  const RunStatistics statistics = explore(dekker("Dekker by full order", true), runs);
  EXPECT_TRUE(statistics.held()) << statistics.first_failure;
}

/// Rule 3, "flag, then invalidate, then load": an invalidation before the flag does not help,
/// although `load_fence` comes after it.
Scenario invalidated(const char* name, bool after_the_flag) {
  Scenario scenario;
  scenario.name = name;
  scenario.device_bytes = 64 << 10;
  scenario.body = [after_the_flag](World& world) {
    auto signalled = std::make_shared<std::uint64_t>(0);  // by other means than the pool
    auto taken = std::make_shared<std::uint64_t>(0);
    world.spawn(0, [&world, signalled, taken] {
      for (std::uint64_t round = 1; round <= rounds; ++round) {
        world.memory().publish_word(line(world, 0), round);
        world.memory().full_fence();
        *signalled = round;
        world.until([&] { return *taken == round; });
      }
    });
    world.spawn(1, [&world, after_the_flag, signalled, taken] {
      for (std::uint64_t round = 1; round <= rounds; ++round) {
        if (!after_the_flag) world.memory().invalidate(line(world, 0), 8);
        world.until([&] { return *signalled == round; });
        if (after_the_flag) world.memory().invalidate(line(world, 0), 8);
        world.memory().load_fence();
        world.require(world.memory().load_word(line(world, 0)) == round, "an older copy");
        *taken = round;
      }
    });
  };
  return scenario;
}

TEST(Canary, InvalidationBeforeTheFlagIsCaught) {
  EXPECT_FALSE(explore(invalidated("canary: invalidated too early", false), runs).held());
  const RunStatistics statistics = explore(invalidated("invalidated after the flag", true), runs);
  EXPECT_TRUE(statistics.held()) << statistics.first_failure;
}

/// The publisher of a line may keep a copy of it: two nodes that write it in turns must invalidate
/// it before they read it.
Scenario in_turns(const char* name, bool observing) {
  Scenario scenario;
  scenario.name = name;
  scenario.device_bytes = 64 << 10;
  scenario.faults.prefetch = 0;
  scenario.body = [observing](World& world) {
    auto turn = std::make_shared<std::uint64_t>(0);
    for (std::uint32_t node = 0; node < 2; ++node) {
      world.spawn(node, [&world, observing, turn, node] {
        for (std::uint64_t round = node; round < rounds; round += 2) {
          world.until([&] { return *turn == round; });
          Line seen;
          if (observing) world.memory().invalidate(line(world, 0), line_bytes);
          world.memory().load_fence();
          world.memory().load_line(&seen, line(world, 0));
          world.require(seen.words[0] == round, "the reader found the old copy of its own line");
          const Line next = {{round + 1}};
          world.memory().publish_line(line(world, 0), &next);
          world.memory().full_fence();
          *turn = round + 1;
        }
      });
    }
  };
  return scenario;
}

TEST(Canary, TheCopyOfAPublishedLineIsCaught) {
  EXPECT_FALSE(explore(in_turns("canary: the own line is believed", false), runs).held());
  const RunStatistics statistics = explore(in_turns("lines written in turns", true), runs);
  EXPECT_TRUE(statistics.held()) << statistics.first_failure;
}

/// Copies of several lines without tags, read while they are written.
TEST(Canary, ATornCopyIsCaught) {
  Scenario scenario;
  scenario.name = "canary: torn copy";
  scenario.device_bytes = 64 << 10;
  scenario.body = [](World& world) {
    world.spawn(0, [&world] {
      for (std::uint64_t round = 1; round <= rounds; ++round) {
        std::uint64_t words[words_per_line];
        std::fill(std::begin(words), std::end(words), round);
        world.memory().publish_bulk(line(world, 0), words, sizeof words);
        world.memory().store_fence();
      }
    });
    world.spawn(1, [&world] {
      for (std::uint64_t round = 1; round <= rounds; ++round) {
        std::uint64_t words[words_per_line];
        world.memory().observe_bulk(words, line(world, 0), sizeof words);
        for (const std::uint64_t word : words) world.require(word == words[0], "torn");
      }
    });
  };
  EXPECT_FALSE(explore(scenario, runs).held());
}

/// The packed counters of rule 5 work with partial stores, and only with these.
TEST(Canary, PackedWordsNeedPartialStores) {
  for (const bool partial : {true, false}) {
    Scenario scenario;
    scenario.name =
        partial ? "packed words by partial stores" : "canary: packed words by plain stores";
    scenario.nodes = 3;
    scenario.device_bytes = 64 << 10;
    scenario.body = [partial](World& world) {
      for (std::uint32_t node = 0; node < 3; ++node) {
        world.spawn(node, [&world, partial, node] {
          std::byte* own = line(world, 0) + 8 * node;
          for (std::uint64_t round = 1; round <= rounds; ++round) {
            if (partial) {
              world.memory().publish_word(own, round);
            } else {
              std::memcpy(own, &round, sizeof round);
              world.memory().write_back(own, sizeof round);
            }
            world.memory().full_fence();
            world.require(world.memory().observe_word(own) == round,
                          "a neighbour destroyed the word");
          }
        });
      }
    };
    const RunStatistics statistics = explore(scenario, runs);
    EXPECT_EQ(statistics.held(), partial) << statistics.first_failure;
  }
}

/// A thread of the operating system beside the fibers would race with them, and no seed could
/// replay it.
TEST(Canary, ProductThreadsRunAsFibers) {
  Scenario scenario;
  scenario.name = "a thread";
  scenario.body = [](World& world) {
    world.spawn(0, [&world] {
      const pid_t known_to_the_kernel = ::gettid();
      const Process& starter = world.self();
      std::thread([&] {
        world.require(::gettid() == known_to_the_kernel, "a thread of the operating system");
        world.require(&world.self() == &starter, "a thread of another process");
      }).join();
    });
  };
  const RunStatistics statistics = explore(scenario, 10);
  EXPECT_TRUE(statistics.held()) << statistics.first_failure;
}

/// As large jobs are timed: others' operations take none of a thread's time.
TEST(Canary, EachThreadHasACore) {
  constexpr std::uint64_t times = 100, an_access_ns = 400 + 20 + 3 * 10;
  Scenario scenario;
  scenario.name = "cores";
  scenario.swarm = false;
  scenario.faults.op_ns = 10;
  scenario.faults.line_ns = 20;
  scenario.faults.device_ns = 400;
  scenario.body = [](World& world) {
    for (std::uint64_t number = 0; number < 8; ++number) {
      world.spawn(static_cast<std::uint32_t>(number % 2), [&world, number] {
        std::byte* line = world.base() + 64 * number;
        const std::uint64_t begin_ns = world.now_ns();
        for (std::uint64_t i = 0; i < times; ++i) (void)world.memory().observe_word(line);
        const std::uint64_t took_ns = world.now_ns() - begin_ns;
        world.require(world.running().core->device_waits() == times, "as many waits as loads");
        world.require(took_ns > (times - 1) * an_access_ns && took_ns <= times * an_access_ns,
                      fmt::format("{} ns", took_ns));
      });
    }
  };
  const RunStatistics statistics = explore(scenario, 5);
  EXPECT_TRUE(statistics.held()) << statistics.first_failure;
}

/// The same seed gives the same run, down to the last operation.
TEST(Canary, ASeedReplaysItsFailure) {
  Device device(64 << 10);
  const Scenario scenario = flag_and_data("replay", {.store_fence = false});
  std::string first;
  for (std::uint64_t seed = 1; first.empty() && seed < 1000; ++seed) {
    for (int attempt = 0; attempt < 2; ++attempt) {
      std::memset(device.base(), 0, device.bytes());
      RandomChoices choices(seed);
      World world(device, 2, scenario.faults, choices, seed);
      world.start_trace();
      scenario.body(world);
      std::string text;
      try {
        world.run(scenario.max_steps);
      } catch (const Violation& violation) {
        text = violation.what + world.trace()->text();
      }
      if (attempt == 0) first = text;
      ASSERT_EQ(text, first) << "seed " << seed;
    }
  }
  EXPECT_NE(first, "");
}

}  // namespace
}  // namespace penstock::sim

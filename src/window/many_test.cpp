// Windows of more ranks than a line has words, with trees as fences: directories of several levels,
// and lists of lockers in several chunks.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <thread>
#include <vector>

#include "arena/test_pool.hpp"
#include "window/test_memory.hpp"
#include "window/window.hpp"

namespace penstock::window::many_test {
namespace {

constexpr std::uint32_t ranks = 12, nodes = 4;
constexpr std::uint64_t segment_bytes = 16 << 10;

class ManyRanks : public testing::Test {
 protected:
  ManyRanks() : pool_(32u << 20) {
    std::vector<Member> members;
    for (std::uint32_t rank = 0; rank < ranks; ++rank) {
      at_.push_back(pool_.attach({.emulated_node = rank % nodes}));
      const auto more = more_of(*at_[rank].arena, 100 + rank);
      const std::uint64_t words = *more(words_bytes());
      clear_words(at_[rank].pool->memory(), at_[rank].pool->base() + words);
      members.push_back({at_[rank].pool->token(), *more(segment_bytes), segment_bytes, words,
                         at_[rank].pool->node()});
    }
    for (std::uint32_t rank = 0; rank < ranks; ++rank) {
      Options options;
      options.members = members;
      options.self = rank;
      options.more = more_of(*at_[rank].arena, rank);
      options.fences = {.flat_up_to = 1, .fan_in = 2};
      auto opened = Window::open(*at_[rank].pool, std::move(options));
      EXPECT_TRUE(opened) << opened.error().message;
      windows_.push_back(std::move(*opened));
    }
  }
  /// Runs a thread for each rank.
  template <class Body>
  void all(const Body& body) {
    std::vector<std::thread> threads;
    for (auto& window : windows_) threads.emplace_back([&] { body(*window); });
    for (auto& thread : threads) thread.join();
  }
  static std::uint64_t own(const Window& window, std::uint64_t at) {
    std::uint64_t value;
    std::memcpy(&value, window.segment(window.self()) + at, sizeof value);
    return value;
  }

  arena::TestPool pool_;
  std::vector<arena::Attached> at_;
  std::vector<std::unique_ptr<Window>> windows_;
};

TEST_F(ManyRanks, PutInActiveAndPassiveEpochs) {
  constexpr std::uint64_t rounds = 4;
  all([](Window& window) {
    std::vector<std::uint32_t> others;
    for (std::uint32_t rank = 0; rank < ranks; ++rank) {
      if (rank != window.self()) others.push_back(rank);
    }
    const Extent fenced{64ull * window.self(), 8}, posted{4096 + 64ull * window.self(), 8};
    for (std::uint64_t round = 1; round <= rounds; ++round) {
      const std::uint64_t value = round * ranks + window.self();
      ASSERT_TRUE(window.fence());
      for (const std::uint32_t target : others)
        ASSERT_TRUE(window.put(target, {&fenced, 1}, &value));
      ASSERT_TRUE(window.fence(no_succeed));
      ASSERT_TRUE(window.post(others));
      ASSERT_TRUE(window.start(others));
      for (const std::uint32_t target : others)
        ASSERT_TRUE(window.put(target, {&posted, 1}, &value));
      ASSERT_TRUE(window.complete());
      ASSERT_TRUE(window.wait());
      for (const std::uint32_t origin : others) {
        EXPECT_EQ(own(window, 64 * origin), round * ranks + origin);
        EXPECT_EQ(own(window, 4096 + 64 * origin), round * ranks + origin);
      }
    }
    ASSERT_TRUE(window.leave());
  });
}

TEST_F(ManyRanks, LockOneSegmentFromAllRanks) {
  constexpr std::uint64_t rounds = 10;
  all([](Window& window) {
    const Extent piece{8000, 8};
    const auto add_one = [](std::byte* packed) {
      std::uint64_t value;
      std::memcpy(&value, packed, sizeof value);
      ++value;
      std::memcpy(packed, &value, sizeof value);
      return true;
    };
    for (std::uint64_t round = 0; round < rounds; ++round) {
      const auto hold =
          (round + window.self()) % 2 == 0 ? sync::Hold::shared : sync::Hold::exclusive;
      const auto locked = window.lock(3, hold);
      ASSERT_TRUE(locked) << locked.error().message;
      ASSERT_TRUE(window.update(3, {&piece, 1}, add_one));
      ASSERT_TRUE(window.unlock(3));
    }
    ASSERT_TRUE(window.leave());
  });
  EXPECT_EQ(own(*windows_[3], 8000), rounds * ranks);
}

/// Lines that a rank reads and writes in a barrier that all others have reached.
struct Counted {
  std::uint64_t read = 0, written = 0;
};

Counted counted(pool::Pool& pool, const std::vector<std::uint32_t>& nodes_of, std::uint32_t self) {
  alignas(64) static std::uint64_t received[8], own[8];
  std::fill(std::begin(received), std::end(received), ~std::uint64_t{0});
  group::Group group(pool, {.tokens = std::vector<std::uint64_t>(nodes_of.size(), pool.token()),
                            .nodes = nodes_of,
                            .self = self,
                            .idle = {}});
  Counted calls;
  group::Barrier barrier(group, [&](std::uint32_t rank) {
    ++(rank == self ? calls.written : calls.read);
    return reinterpret_cast<std::byte*>(rank == self ? own : received);
  });
  EXPECT_TRUE(barrier.meet("a count"));
  calls.read /= 2;  // each line is invalidated and loaded
  return calls;
}

/// docs/protocols/barrier.md has the formula and these figures.
TEST(Fences, ReadFewLines) {
  const arena::TestPool test_pool(32u << 20);
  const auto at = test_pool.attach();
  struct Case {
    std::uint32_t ranks, nodes;
    std::uint64_t lines;
  };
  for (const Case& each :
       {Case{2, 2, 2}, Case{16, 4, 240}, Case{64, 4, 132}, Case{1024, 16, 2256}}) {
    std::vector<std::uint32_t> nodes_of(each.ranks);
    for (std::uint32_t rank = 0; rank < each.ranks; ++rank)
      nodes_of[rank] = rank / (each.ranks / each.nodes);
    std::uint64_t read = 0;
    for (std::uint32_t self = 0; self < each.ranks; ++self) {
      const Counted calls = counted(*at.pool, nodes_of, self);
      read += calls.read;
      EXPECT_LE(calls.read, 31u);
      EXPECT_LE(calls.written, 3u);
    }
    EXPECT_EQ(read, each.lines) << each.ranks << " ranks on " << each.nodes << " nodes";
  }
}

TEST(Fences, ReadFewLinesWithinRacks) {
  const arena::TestPool test_pool(32u << 20);
  const auto at = test_pool.attach();
  constexpr std::uint32_t all = 8192, per_node = 64;
  std::vector<std::uint32_t> nodes_of(all);
  for (std::uint32_t rank = 0; rank < all; ++rank) nodes_of[rank] = rank / per_node;
  EXPECT_EQ(counted(*at.pool, nodes_of, per_node).read, 16u + 11 + 10);  // a leader
  EXPECT_EQ(counted(*at.pool, nodes_of, per_node + 1).read, 16u + 1);    // ranks gather at it too
  EXPECT_EQ(counted(*at.pool, nodes_of, per_node + 63).read, 1u);
}

}  // namespace
}  // namespace penstock::window::many_test

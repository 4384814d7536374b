// Windows of more ranks than a line has words, whose fences are trees: directories of several
// levels, lists of lockers in several chunks.
#include <gtest/gtest.h>

#include <cstring>
#include <thread>
#include <vector>

#include "arena/test_pool.hpp"
#include "window/test_memory.hpp"
#include "window/window.hpp"

namespace penstock::window {
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
  /// A thread for each rank.
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

TEST_F(ManyRanks, PutToAllInEpochsOfBothKindsAndLeave) {
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

TEST_F(ManyRanks, AllLockOne) {
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
      ASSERT_TRUE(window.lock(3, hold));
      ASSERT_TRUE(window.update(3, {&piece, 1}, add_one));
      ASSERT_TRUE(window.unlock(3));
    }
    ASSERT_TRUE(window.leave());
  });
  EXPECT_EQ(own(*windows_[3], 8000), rounds * ranks);
}

}  // namespace
}  // namespace penstock::window

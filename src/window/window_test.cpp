// Windows between attachments of one pool, a thread for each rank. Their caches are coherent here;
// sim/tests/window_test.cpp shows which flushes are needed.
#include "window/window.hpp"

#include <gtest/gtest.h>

#include <atomic>
#include <cstring>
#include <numeric>
#include <thread>

#include "arena/test_pool.hpp"
#include "window/layout.hpp"
#include "window/test_memory.hpp"

namespace penstock::window::window_test {
namespace {

constexpr std::uint32_t ranks = 3;
constexpr std::uint64_t segment_bytes = 1 << 16;

class Windows : public testing::TestWithParam<coherence::Mode> {
 protected:
  Windows() : pool_(32u << 20, GetParam()) {
    for (std::uint32_t rank = 0; rank < ranks; ++rank) {
      at_.push_back(pool_.attach({.emulated_node = rank}));  // as if on its own host
      auto object = at_[rank]->create("segment-" + std::to_string(rank), segment_bytes);
      EXPECT_TRUE(object) << object.error().message;
      auto words = at_[rank]->create("words-" + std::to_string(rank), words_bytes());
      EXPECT_TRUE(words) << words.error().message;
      members_.push_back({at_[rank].pool->token(), object->offset, segment_bytes, words->offset,
                          at_[rank].pool->node()});
    }
    for (std::uint32_t rank = 0; rank < ranks; ++rank) {
      auto opened = Window::open(*at_[rank].pool, options_of(rank, members_));
      EXPECT_TRUE(opened) << opened.error().message;
      windows_.push_back(std::move(*opened));
    }
  }
  Options options_of(std::uint32_t rank, const std::vector<Member>& members) {
    Options options;
    options.members = members;
    options.self = rank;
    options.more = more_of(*at_[rank].arena, rank);
    return options;
  }
  /// Runs a thread for each rank; a rank that has finished serves the others.
  void all(const std::function<void(Window&)>& body) {
    std::atomic<std::uint32_t> through{0};
    std::vector<std::thread> threads;
    for (auto& window : windows_) {
      threads.emplace_back([&] {
        body(*window);
        ++through;
        while (through < ranks) {
          window->serve();
          std::this_thread::yield();
        }
      });
    }
    for (auto& thread : threads) thread.join();
  }
  static std::vector<std::uint32_t> others(const Window& window) {
    std::vector<std::uint32_t> list;
    for (std::uint32_t rank = 0; rank < ranks; ++rank) {
      if (rank != window.self()) list.push_back(rank);
    }
    return list;
  }
  static std::uint64_t own(const Window& window, std::uint64_t at) {
    std::uint64_t value;
    std::memcpy(&value, window.segment(window.self()) + at, sizeof value);
    return value;
  }

  arena::TestPool pool_;
  std::vector<arena::Attached> at_;
  std::vector<Member> members_;
  std::vector<std::unique_ptr<Window>> windows_;
};

TEST_P(Windows, FencePutsReachAllRanks) {
  all([](Window& window) {
    for (std::uint64_t round = 1; round < 50; ++round) {
      ASSERT_TRUE(window.fence());
      for (std::uint32_t target = 0; target < ranks; ++target) {
        const Extent piece{8ull * window.self() + 1000 * (round % 5), 8};
        const std::uint64_t value = 100 * round + target;
        ASSERT_TRUE(window.put(target, {&piece, 1}, &value));
      }
      ASSERT_TRUE(window.fence());
      for (std::uint64_t origin = 0; origin < ranks; ++origin)
        EXPECT_EQ(own(window, 8 * origin + 1000 * (round % 5)), 100 * round + window.self());
    }
  });
}

TEST_P(Windows, PostStartCompleteWaitWithAnyExtents) {
  all([](Window& window) {
    const auto group = others(window);
    for (std::uint64_t round = 1; round < 50; ++round) {
      ASSERT_TRUE(window.post(group));
      ASSERT_TRUE(window.start(group));
      const std::uint64_t base = 20'000ull * window.self();
      const std::vector<Extent> extents{{base + 3, 5}, {base + 100, round * 7}, {base + 10, 1}};
      std::vector<unsigned char> bytes(6 + round * 7);
      std::iota(bytes.begin(), bytes.end(), static_cast<unsigned char>(round));
      for (const std::uint32_t target : group)
        ASSERT_TRUE(window.put(target, extents, bytes.data()));
      ASSERT_TRUE(window.complete());
      ASSERT_TRUE(window.wait());
      for (const std::uint64_t origin : group) {
        const std::byte* const from = window.segment(window.self()) + 20'000 * origin;
        EXPECT_EQ(std::memcmp(from + 3, bytes.data(), 5), 0);
        EXPECT_EQ(std::memcmp(from + 100, bytes.data() + 5, round * 7), 0);
        EXPECT_EQ(static_cast<unsigned char>(from[10]), bytes.back());
      }
    }
  });
}

TEST_P(Windows, UpdatesUnderAnyLockLoseNothing) {
  constexpr std::uint64_t rounds = 200;
  all([](Window& window) {
    const Extent piece{24, 8};
    const auto add = [](std::byte* packed) {
      std::uint64_t value;
      std::memcpy(&value, packed, sizeof value);
      ++value;
      std::memcpy(packed, &value, sizeof value);
      return true;
    };
    for (std::uint64_t round = 0; round < rounds; ++round) {
      const auto hold = round % 2 == 0 ? sync::Hold::shared : sync::Hold::exclusive;
      ASSERT_TRUE(window.lock(1, hold));
      ASSERT_TRUE(window.update(1, {&piece, 1}, add));
      ASSERT_TRUE(window.unlock(1));
    }
    ASSERT_TRUE(window.lock_all());
    for (std::uint64_t round = 0; round < rounds; ++round)
      ASSERT_TRUE(window.update(1, {&piece, 1}, add));
    ASSERT_TRUE(window.flush_all());
    ASSERT_TRUE(window.unlock_all());
  });
  Window& last = *windows_[1];
  ASSERT_TRUE(last.lock(1, sync::Hold::shared));
  EXPECT_EQ(own(last, 24), 2 * rounds * ranks);
  ASSERT_TRUE(last.unlock(1));
}

TEST_P(Windows, RefuseAccessesWithoutEpochOrOutside) {
  std::atomic<bool> through{false};
  std::thread server([&] {
    while (!through) windows_[1]->serve();
  });
  Window& window = *windows_[0];
  const std::uint64_t value = 1;
  const Extent piece{0, 8}, beyond{segment_bytes - 7, 8}, wrapping{~0ull - 3, 8};
  EXPECT_EQ(window.put(1, {&piece, 1}, &value).error().code, ErrorCode::mismatch);
  EXPECT_EQ(window.unlock(1).error().code, ErrorCode::mismatch);
  EXPECT_EQ(window.unlock_all().error().code, ErrorCode::mismatch);
  EXPECT_EQ(window.complete().error().code, ErrorCode::mismatch);
  EXPECT_EQ(window.wait().error().code, ErrorCode::mismatch);
  EXPECT_EQ(window.flush(1).error().code, ErrorCode::mismatch);
  EXPECT_EQ(window.lock(ranks, sync::Hold::shared).error().code, ErrorCode::invalid_argument);
  EXPECT_TRUE(window.lock(1, sync::Hold::shared));
  EXPECT_EQ(window.lock(1, sync::Hold::shared).error().code, ErrorCode::mismatch);
  EXPECT_EQ(window.put(1, {&beyond, 1}, &value).error().code, ErrorCode::invalid_argument);
  EXPECT_EQ(window.put(1, {&wrapping, 1}, &value).error().code, ErrorCode::invalid_argument);
  EXPECT_EQ(window.put(2, {&piece, 1}, &value).error().code, ErrorCode::mismatch);
  EXPECT_TRUE(window.put(1, {&piece, 1}, &value));
  EXPECT_TRUE(window.unlock(1));
  through = true;
  server.join();
}

TEST_P(Windows, RefuseSegmentsOutsidePool) {
  auto members = members_;
  members[1].offset = at_[0].pool->bytes() - 64;
  auto opened = Window::open(*at_[0].pool, options_of(0, members));
  ASSERT_FALSE(opened);
  EXPECT_EQ(opened.error().code, ErrorCode::wrong_format);
  members = members_;
  members[2].words += 1;
  opened = Window::open(*at_[0].pool, options_of(0, members));
  ASSERT_FALSE(opened);
  EXPECT_EQ(opened.error().code, ErrorCode::wrong_format);
}

TEST_P(Windows, WaitsEndWhenAwaitedRankDies) {
  at_[2].arena.reset();
  at_[2].pool.reset();  // detached
  const std::uint32_t dead[] = {2};
  const auto started = windows_[0]->start(dead);
  ASSERT_FALSE(started);
  EXPECT_EQ(started.error().code, ErrorCode::peer_dead);
  EXPECT_NE(started.error().message.find("rank 2"), std::string::npos) << started.error().message;
  EXPECT_EQ(windows_[0]->lock(2, sync::Hold::shared).error().code, ErrorCode::peer_dead);
  windows_[2].release();  // its pool no longer exists
}

/// A chunk that names itself as the next one.
TEST_P(Windows, ReadingOverwrittenLockerListEnds) {
  const auto& memory = at_[0].pool->memory();
  const auto chunk = at_[0]->create("chunk", 512), idle = at_[0]->create("idle", 128);
  ASSERT_TRUE(chunk && idle);
  for (std::uint64_t at = 0; at < 512; at += 8)
    memory.publish_word(chunk->data + at, at == 504 ? chunk->offset : idle->offset);
  std::byte* const list = at_[0].pool->base() + place_of(RankLine::lockers, members_[1].words);
  for (std::uint64_t at = 0; at < 64; at += 8) memory.publish_word(list + at, chunk->offset);
  memory.full_fence();
  const auto locked = windows_[0]->lock(1, sync::Hold::exclusive);
  ASSERT_FALSE(locked);
  EXPECT_EQ(locked.error().code, ErrorCode::wrong_format) << locked.error().message;
}

INSTANTIATE_TEST_SUITE_P(Modes, Windows,
                         testing::Values(coherence::Mode::hardware, coherence::Mode::software),
                         [](const auto& tested) {
                           return std::string(coherence::mode_name(tested.param));
                         });

}  // namespace
}  // namespace penstock::window::window_test

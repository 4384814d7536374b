// Threads of one rank in one window, as plugins/mpi admits them. Run under the thread sanitizer.
#include <gtest/gtest.h>

#include <atomic>
#include <cstring>
#include <thread>

#include "arena/test_pool.hpp"
#include "base/handover_mutex.hpp"
#include "window/test_memory.hpp"
#include "window/window.hpp"

namespace penstock::window::threads_test {
namespace {

constexpr std::uint32_t ranks = 2;
constexpr std::uint64_t segment_bytes = 1 << 16;

/// A rank's window. All its threads enter by call().
struct Shared {
  base::HandoverMutex mutex;
  std::unique_ptr<Window> window;
  std::atomic<bool> waits{false};  ///< a thread waits and admits others

  template <class Body>
  auto call(Body body) {
    const std::lock_guard guard(mutex);
    auto done = body(*window);
    window->store_fence();
    return done;
  }
};

class WindowThreads : public testing::TestWithParam<coherence::Mode> {
 protected:
  WindowThreads() : pool_(32u << 20, GetParam()) {
    std::vector<Member> members;
    for (std::uint32_t rank = 0; rank < ranks; ++rank) {
      at_.push_back(pool_.attach({.emulated_node = rank}));
      auto object = at_[rank]->create("segment-" + std::to_string(rank), segment_bytes);
      EXPECT_TRUE(object) << object.error().message;
      auto words = at_[rank]->create("words-" + std::to_string(rank), words_bytes());
      EXPECT_TRUE(words) << words.error().message;
      members.push_back({at_[rank].pool->token(), object->offset, segment_bytes, words->offset,
                         at_[rank].pool->node()});
    }
    for (std::uint32_t rank = 0; rank < ranks; ++rank) {
      Options options;
      options.members = members;
      options.self = rank;
      options.more = more_of(*at_[rank].arena, rank);
      Shared& own = shared_[rank];
      options.idle = [&own] {
        own.waits = true;
        own.window->store_fence();
        own.mutex.let_in();
      };
      auto opened = Window::open(*at_[rank].pool, std::move(options));
      EXPECT_TRUE(opened) << opened.error().message;
      own.window = std::move(*opened);
    }
  }
  /// Runs `threads` threads of each rank; they serve peers until all have finished.
  void all(std::uint32_t threads, const std::function<void(Shared&, std::uint32_t thread)>& body) {
    std::atomic<std::uint32_t> through{0};
    std::vector<std::thread> running;
    for (Shared& own : shared_) {
      for (std::uint32_t thread = 0; thread < threads; ++thread) {
        running.emplace_back([&, thread] {
          body(own, thread);
          ++through;
        });
      }
      running.emplace_back([&] {
        while (through < ranks * threads) {
          if (own.mutex.try_lock()) {
            own.window->serve();
            own.mutex.unlock();
          }
          std::this_thread::yield();
        }
      });
    }
    for (auto& thread : running) thread.join();
  }

  arena::TestPool pool_;
  std::vector<arena::Attached> at_;
  Shared shared_[ranks];
};

bool add_one(std::byte* packed) {
  std::uint64_t value;
  std::memcpy(&value, packed, sizeof value);
  ++value;
  std::memcpy(packed, &value, sizeof value);
  return true;
}

/// Other updates start meanwhile and must wait.
bool add_one_slowly(std::byte* packed) {
  add_one(packed);
  std::this_thread::sleep_for(std::chrono::microseconds(200));
  return true;
}

std::uint64_t value_at(Window& window, std::uint32_t target, std::uint64_t at) {
  const Extent piece{at, 8};
  std::uint64_t value = 0;
  EXPECT_TRUE(window.get(target, {&piece, 1}, &value));
  return value;
}

TEST_P(WindowThreads, UpdatesLoseNothing) {
  constexpr std::uint32_t threads = 3;
  constexpr std::uint64_t rounds = 300;
  for (Shared& own : shared_) ASSERT_TRUE(own.window->lock_all());
  all(threads, [](Shared& own, std::uint32_t) {
    const Extent piece{24, 8};
    for (std::uint64_t i = 0; i < rounds; ++i) {
      const auto add = i % 3 == 0 ? add_one_slowly : add_one;
      ASSERT_TRUE(own.call([&](Window& w) { return w.update(1, {&piece, 1}, add); }));
    }
  });
  EXPECT_EQ(value_at(*shared_[0].window, 1, 24), ranks * threads * rounds);
}

TEST_P(WindowThreads, RequestRangesOfOneTargetTogether) {
  constexpr std::uint32_t threads = 3;
  constexpr std::uint64_t step = 4096, rounds = segment_bytes / 8 / step * 8;
  all(1, [](Shared& own, std::uint32_t) {
    ASSERT_TRUE(own.call([](Window& w) { return w.lock_all(); }));
  });
  all(threads, [](Shared& own, std::uint32_t thread) {
    const std::uint32_t target = 1 - own.window->self();
    for (std::uint64_t i = 0; i < rounds; ++i) {
      const Extent piece{step * i + 64 * thread, 8};
      const std::uint64_t value = i * threads + thread + 1;
      ASSERT_TRUE(own.call([&](Window& w) { return w.put(target, {&piece, 1}, &value); }));
    }
  });
  all(threads, [](Shared& own, std::uint32_t thread) {
    for (std::uint64_t i = 0; i < rounds; ++i) {
      const std::uint32_t target = 1 - own.window->self();
      const std::uint64_t at = step * i + 64 * thread;
      const auto value = own.call([&](Window& w) { return value_at(w, target, at); });
      EXPECT_EQ(value, i * threads + thread + 1);
    }
  });
}

/// A waits for rank 1, which waits for a lock of B; B must be admitted to release it.
TEST_P(WindowThreads, WaitingThreadLetsOthersRelease) {
  std::atomic<int> ready{0};
  std::thread b([&] {
    Shared& own = shared_[0];
    ASSERT_TRUE(own.call([](Window& w) { return w.lock(0, sync::Hold::exclusive); }));
    ++ready;
    while (!own.waits || !shared_[1].waits) std::this_thread::yield();
    ASSERT_TRUE(own.call([](Window& w) { return w.unlock(0); }));
  });
  std::thread peer([&] {
    Shared& own = shared_[1];
    ASSERT_TRUE(own.call([](Window& w) { return w.lock(1, sync::Hold::exclusive); }));
    ++ready;
    while (ready < 2) std::this_thread::yield();
    ASSERT_TRUE(own.call([](Window& w) { return w.lock(0, sync::Hold::exclusive); }));
    ASSERT_TRUE(own.call([](Window& w) { return w.unlock(0); }));
    ASSERT_TRUE(own.call([](Window& w) { return w.unlock(1); }));
  });
  while (ready < 2) std::this_thread::yield();
  Shared& own = shared_[0];
  ASSERT_TRUE(own.call([](Window& w) { return w.lock(1, sync::Hold::exclusive); }));
  ASSERT_TRUE(own.call([](Window& w) { return w.unlock(1); }));
  b.join();
  peer.join();
}

/// Under lock_all the first thread that accesses a target takes its lock.
TEST_P(WindowThreads, OneThreadTakesLockForAll) {
  constexpr std::uint64_t rounds = 100;
  all(1, [](Shared& own, std::uint32_t) {
    for (std::uint64_t i = 0; i < rounds; ++i) {
      if (own.window->self() == 1) {  // contends with the others at times
        ASSERT_TRUE(own.call([](Window& w) { return w.lock(1, sync::Hold::exclusive); }));
        std::this_thread::sleep_for(std::chrono::microseconds(200));
        ASSERT_TRUE(own.call([](Window& w) { return w.unlock(1); }));
        continue;
      }
      ASSERT_TRUE(own.call([](Window& w) { return w.lock_all(); }));
      const auto add = [&own] {
        const Extent piece{64, 8};
        ASSERT_TRUE(own.call([&](Window& w) { return w.update(1, {&piece, 1}, add_one); }));
      };
      std::thread other(add);
      add();
      other.join();
      ASSERT_TRUE(own.call([](Window& w) { return w.unlock_all(); }));
    }
  });
  ASSERT_TRUE(shared_[1].window->lock_all());
  EXPECT_EQ(value_at(*shared_[1].window, 1, 64), 2 * rounds);
}

INSTANTIATE_TEST_SUITE_P(Modes, WindowThreads,
                         testing::Values(coherence::Mode::hardware, coherence::Mode::software),
                         [](const auto& tested) {
                           return std::string(coherence::mode_name(tested.param));
                         });

}  // namespace
}  // namespace penstock::window::threads_test

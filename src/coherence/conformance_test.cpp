// Every mode and every flush choice passes the same suite. It runs on one coherent host, so it
// proves what the operations transfer and in which order, not that no flush is missing.
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <cstring>
#include <memory>
#include <new>
#include <string>
#include <thread>
#include <vector>

#include "arch/arch.hpp"
#include "coherence/coherence.hpp"

namespace penstock::coherence {
namespace {

struct Way {
  const char* name;
  Mode mode;
  FlushChoice flush;
  bool intra_node = false;
};

bool runnable(const Way& way) {
  if (way.mode != Mode::software) return true;
  const arch::Features& features = arch::features();
  if (!features.partial_nt_store) return false;
  switch (way.flush) {
    case FlushChoice::automatic:
      return features.clflush;
    case FlushChoice::clflush:
      return features.clflush;
    case FlushChoice::clflushopt:
      return features.clflushopt;
    case FlushChoice::clwb:
      return features.clwb;
  }
  return false;
}

constexpr std::size_t sizes[] = {0,   1,   8,   55,  56,   57,   63,   64,   65,   112,
                                 113, 256, 448, 449, 1023, 1024, 1025, 4096, 5000, 16383};
constexpr std::byte guard{0x5a};

class Conformance : public testing::TestWithParam<Way> {
 protected:
  void SetUp() override {
    if (!runnable(GetParam())) GTEST_SKIP() << "this CPU lacks the instruction";
    auto bound = bind(GetParam().mode, GetParam().flush);
    ASSERT_TRUE(bound) << bound.error().message;
    memory_ = GetParam().intra_node ? bound->intra_node() : *bound;
    pool_.reset(new (std::align_val_t{64}) std::byte[pool_bytes]);
    std::fill_n(pool_.get(), pool_bytes, guard);
    sync();
  }

  void sync() {
    memory_.store_fence();
    memory_.full_fence();
  }
  std::byte* line(std::size_t index) { return pool_.get() + index * line_bytes; }
  /// The bytes that an observer finds; read by the operations, as pools are never dereferenced.
  std::vector<std::byte> observed(const void* at, std::size_t bytes) {
    std::vector<std::byte> copy(bytes);
    memory_.observe_bulk(copy.data(), at, bytes);
    return copy;
  }
  bool untouched(const std::byte* at, std::size_t bytes) {
    const auto found = observed(at, bytes);
    return std::all_of(found.begin(), found.end(), [](std::byte b) { return b == guard; });
  }
  static std::vector<std::byte> pattern(std::size_t bytes, unsigned seed) {
    std::vector<std::byte> data;
    data.reserve(bytes + 1);  // not null even for 0 bytes
    data.resize(bytes);
    for (std::size_t i = 0; i < bytes; ++i)
      data[i] = static_cast<std::byte>((i * 37 + seed * 11) >> 1);
    return data;
  }

  struct Free {
    void operator()(std::byte* p) const { ::operator delete[](p, std::align_val_t{64}); }
  };
  static constexpr std::size_t pool_bytes = 64 << 10;
  Memory memory_;
  std::unique_ptr<std::byte[], Free> pool_;
};

TEST_P(Conformance, WordRoundTripsAndSparesItsNeighbours) {
  auto* words = reinterpret_cast<std::uint64_t*>(line(1));
  for (std::uint64_t i = 0; i < 8; ++i) {
    memory_.publish_word(words + i, 100 + i);
    memory_.store_fence();
    EXPECT_EQ(memory_.observe_word(words + i), 100 + i);
  }
  memory_.publish_word(words + 5, 7);
  memory_.store_fence();
  for (std::uint64_t i = 0; i < 8; ++i) {
    EXPECT_EQ(memory_.observe_word(words + i), i == 5 ? 7 : 100 + i);
  }
  EXPECT_TRUE(untouched(line(0), 64));
  EXPECT_TRUE(untouched(line(2), 64));
}

TEST_P(Conformance, BytesRoundTripAndSpareTheirNeighbours) {
  for (std::size_t at = 0; at < 64; ++at) {
    const std::size_t bytes = 1 + at * 5 % (8 - at % 8);
    auto expected = observed(line(1), 64);
    const auto data = pattern(bytes, static_cast<unsigned>(at));
    std::copy(data.begin(), data.end(), expected.begin() + static_cast<std::ptrdiff_t>(at));
    memory_.publish_bytes(line(1) + at, data.data(), bytes);
    memory_.store_fence();
    EXPECT_EQ(observed(line(1), 64), expected) << bytes << " at " << at;
  }
  EXPECT_TRUE(untouched(line(0), 64));
  EXPECT_TRUE(untouched(line(2), 64));
}

TEST_P(Conformance, LineRoundTripsFromAnyAddress) {
  for (std::size_t off : {0u, 1u, 9u, 63u}) {
    const auto data = pattern(64 + off, static_cast<unsigned>(off));
    for (const auto publish : {&Memory::publish_line, &Memory::send_line, &Memory::stream_line}) {
      (memory_.*publish)(line(1), data.data() + off, Site::here());
      memory_.store_fence();
      std::byte got[64];
      memory_.observe_line(got, line(1));
      EXPECT_EQ(std::memcmp(got, data.data() + off, 64), 0) << "off by " << off;
      EXPECT_TRUE(untouched(line(0), 64));
      EXPECT_TRUE(untouched(line(2), 64));
      memory_.publish_line(line(1), pattern(64, 77).data());
    }
  }
}

TEST_P(Conformance, BulkRoundTripsAndStaysInItsLines) {
  for (const std::size_t bytes : sizes) {
    for (std::size_t off : {0u, 3u, 33u}) {
      const auto data = pattern(bytes + off, static_cast<unsigned>(bytes));
      memory_.publish_bulk(line(1), data.data() + off, bytes);
      memory_.store_fence();
      std::vector<std::byte> got(bytes + 16, std::byte{1});
      memory_.observe_bulk(got.data(), line(1), bytes);
      EXPECT_EQ(std::memcmp(got.data(), data.data() + off, bytes), 0) << bytes << " bytes";
      EXPECT_TRUE(std::all_of(got.begin() + static_cast<long>(bytes), got.end(),
                              [](std::byte b) { return b == std::byte{1}; }))
          << bytes << " bytes";
      const std::size_t lines = (bytes + 63) / 64;
      EXPECT_TRUE(untouched(line(0), 64));
      EXPECT_TRUE(untouched(line(1 + lines), 64)) << bytes << " bytes";
    }
  }
}

TEST_P(Conformance, TaggedRoundTripsAndStaysInItsLines) {
  for (const std::size_t bytes : sizes) {
    const auto data = pattern(bytes, 3);
    bytes % 2 == 0 ? memory_.publish_tagged(line(1), data.data(), bytes, 1000)
                   : memory_.stream_tagged(line(1), data.data(), bytes, 1000);
    memory_.store_fence();
    const std::size_t lines = (bytes + tagged_bytes - 1) / tagged_bytes;
    memory_.invalidate(line(1), lines * line_bytes);
    memory_.load_fence();
    std::vector<std::byte> got(bytes + 16, std::byte{1});
    EXPECT_EQ(memory_.load_tagged(got.data(), line(1), bytes, 1000), bytes);
    EXPECT_EQ(std::memcmp(got.data(), data.data(), bytes), 0) << bytes << " bytes";
    EXPECT_TRUE(std::all_of(got.begin() + static_cast<long>(bytes), got.end(),
                            [](std::byte b) { return b == std::byte{1}; }))
        << bytes << " bytes";
    EXPECT_TRUE(untouched(line(0), 64));
    EXPECT_TRUE(untouched(line(1 + lines), 64)) << bytes << " bytes";
    for (std::size_t i = 0; i < lines; ++i) {
      EXPECT_EQ(memory_.observe_word(line(1 + i) + tagged_bytes), 1000 + i) << bytes << " bytes";
    }
  }
}

TEST_P(Conformance, TaggedLoadCountsTheLinesThatMatch) {
  for (const std::size_t bytes :
       {std::size_t{56 * 6}, std::size_t{56 * 5 + 9}, std::size_t{2000}}) {
    const std::size_t lines = (bytes + tagged_bytes - 1) / tagged_bytes;
    const auto data = pattern(bytes, 9);
    for (std::size_t broken = 0; broken < lines; ++broken) {
      memory_.publish_tagged(line(0), data.data(), bytes, 50);
      memory_.publish_word(line(broken) + tagged_bytes, 49);
      sync();
      std::vector<std::byte> got(bytes);
      ASSERT_EQ(memory_.load_tagged(got.data(), line(0), bytes, 50), broken * tagged_bytes);
      EXPECT_EQ(std::memcmp(got.data(), data.data(), broken * tagged_bytes), 0);
      // The rest arrives: reading continues at the line that was missing.
      memory_.publish_word(line(broken) + tagged_bytes, 50 + broken);
      memory_.store_fence();
      memory_.invalidate(line(broken), line_bytes);
      memory_.load_fence();
      const std::size_t done = broken * tagged_bytes;
      ASSERT_EQ(memory_.load_tagged(got.data() + done, line(broken), bytes - done, 50 + broken),
                bytes - done);
      EXPECT_EQ(got, data);
    }
  }
}

TEST_P(Conformance, NoBytesTouchNothing) {
  memory_.publish_bulk(line(1), nullptr, 0);
  memory_.publish_tagged(line(1), nullptr, 0, 9);
  memory_.write_back(line(1), 0);
  sync();
  memory_.observe_bulk(nullptr, line(1), 0);
  EXPECT_EQ(memory_.load_tagged(nullptr, line(1), 0, 9), 0u);
  EXPECT_TRUE(untouched(line(0), 3 * line_bytes));
}

TEST_P(Conformance, WriteBackAndInvalidateKeepPublishedContents) {
  const auto data = pattern(1000, 5);
  memory_.publish_bulk(line(0), data.data(), data.size());
  memory_.write_back(line(0), data.size());
  memory_.store_fence();
  memory_.invalidate(line(0) + 5, 700);  // any range: the lines that it touches
  memory_.invalidate(line(0), 0);
  memory_.load_fence();
  EXPECT_EQ(observed(line(0), data.size()), data);
}

/// Publish data, store fence, publish a flag; observe the flag, then the data: it is the announced
/// data, or later data. The writer runs without pause, so that the reader meets every stage.
TEST_P(Conformance, FlagFollowsItsData) {
  constexpr std::uint64_t rounds = 10'000;
  constexpr std::size_t bytes = 640;
  std::byte* data = line(0);
  std::byte* flag = line(20);
  memory_.publish_word(flag, 0);
  sync();
  std::thread writer([&] {
    std::uint64_t payload[bytes / 8];
    for (std::uint64_t round = 1; round <= rounds; ++round) {
      std::fill(std::begin(payload), std::end(payload), round);
      memory_.publish_bulk(data, payload, bytes);
      memory_.store_fence();
      memory_.publish_word(flag, round);
      memory_.store_fence();
    }
  });
  std::uint64_t stale = 0, announced = 0;
  while (announced < rounds) {
    announced = memory_.observe_word(flag);
    std::uint64_t got[bytes / 8];
    memory_.observe_bulk(got, data, bytes);
    if (announced == 0) continue;
    stale += static_cast<std::uint64_t>(std::count_if(
        std::begin(got), std::end(got), [&](std::uint64_t word) { return word < announced; }));
  }
  writer.join();
  EXPECT_EQ(stale, 0u);
}

/// The last word of a line vouches for the others, in every mode.
TEST_P(Conformance, LastWordFollowsRestOfLine) {
  constexpr std::uint64_t rounds = 20'000;
  std::byte* shared = line(4);
  const std::uint64_t zeros[8] = {};
  memory_.publish_line(shared, zeros);
  sync();
  std::thread writer([&] {
    for (std::uint64_t round = 1; round <= rounds; ++round) {
      std::uint64_t words[8];
      std::fill(std::begin(words), std::end(words), round);
      memory_.publish_line(shared, words);
      memory_.store_fence();
    }
  });
  std::uint64_t torn = 0, last = 0;
  while (last < rounds) {
    std::uint64_t words[8];
    memory_.observe_line(words, shared);
    last = words[7];
    torn += static_cast<std::uint64_t>(
        std::count_if(words, words + 7, [&](std::uint64_t word) { return word < last; }));
  }
  writer.join();
  EXPECT_EQ(torn, 0u);
}

/// Dekker: each side publishes its own line, does a full fence, and observes the other's: at least
/// one of the two sees the other. Both run freely over many pairs of lines; they meet often enough
/// that without the fence a few percent of the pairs fail.
TEST_P(Conformance, FullFenceKeepsLoadsBehindPublishes) {
  constexpr std::size_t pairs = pool_bytes / line_bytes / 2;
  constexpr std::uint64_t rounds = 50;
  for (std::size_t i = 0; i < 2 * pairs; ++i) memory_.publish_word(line(i), 0);
  sync();
  std::vector<std::uint64_t> seen[2];
  std::atomic<std::uint64_t> arrived{0};
  const auto side = [&](std::size_t self) {
    for (std::uint64_t round = 1; round <= rounds; ++round) {
      arrived.fetch_add(1);
      for (int polls = 0; arrived.load() < 2 * round; ++polls) {
        if (polls > 1000) std::this_thread::yield();
      }
      for (std::size_t i = 0; i < pairs; ++i) {
        memory_.publish_word(line(2 * i + self), round);
        memory_.full_fence();
        seen[self].push_back(memory_.observe_word(line(2 * i + 1 - self)));
      }
    }
  };
  seen[0].reserve(pairs * rounds);
  seen[1].reserve(pairs * rounds);
  std::thread other(side, 1);
  side(0);
  other.join();
  std::uint64_t missed = 0;
  for (std::size_t i = 0; i < pairs * rounds; ++i) {
    const std::uint64_t round = i / pairs + 1;
    if (seen[0][i] < round && seen[1][i] < round) ++missed;
  }
  EXPECT_EQ(missed, 0u);
}

INSTANTIATE_TEST_SUITE_P(
    EveryWay, Conformance,
    testing::Values(Way{"hardware", Mode::hardware, FlushChoice::automatic},
                    Way{"software", Mode::software, FlushChoice::automatic},
                    Way{"software_clflush", Mode::software, FlushChoice::clflush},
                    Way{"software_clflushopt", Mode::software, FlushChoice::clflushopt},
                    Way{"software_clwb", Mode::software, FlushChoice::clwb},
                    Way{"software_intra_node", Mode::software, FlushChoice::automatic, true},
                    Way{"uncached", Mode::uncached, FlushChoice::automatic}),
    [](const auto& param) { return std::string(param.param.name); });

}  // namespace
}  // namespace penstock::coherence

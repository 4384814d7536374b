#include "messages/queues.hpp"

#include <gtest/gtest.h>

#include <deque>
#include <list>
#include <random>
#include <vector>

#include "base/seed_in_tests.hpp"

namespace penstock::messages {
namespace {

std::uint64_t looks = 0;  ///< comparisons of items, by either queue

struct Receive : Item<Receive> {
  Asked wants;
  int label = 0;
  Asked asked() const {
    ++looks;
    return wants;
  }
  const void* name() const {
    ++looks;
    return this;
  }
};
struct Arrived : Item<Arrived> {
  std::uint32_t from = 0;
  std::uint64_t with = 0;
  std::uint32_t sender() const {
    ++looks;
    return from;
  }
  std::uint64_t tag() const { return with; }
};

/// Tags as MPIs make them: a few contexts, some tags, and bits that belong to a protocol.
struct Draw {
  explicit Draw(std::uint64_t seed) : random(seed) {}
  std::uint64_t below(std::uint64_t bound) { return random() % bound; }
  std::uint64_t tag(std::uint64_t tags) { return below(3) << 32 | below(tags) | below(2) << 60; }
  Asked asked(std::uint64_t tags, bool many_kinds) {
    static constexpr std::uint64_t protocol = 1ull << 60, any_tag = 0xffffffff;
    Asked asked{tag(tags), protocol, static_cast<std::uint32_t>(below(4))};
    if (below(4) == 0) asked.ignore |= any_tag;
    if (below(4) == 0) asked.source = any_source;
    if (many_kinds && below(3) == 0) asked.ignore = random() | protocol;
    return asked;
  }
  std::mt19937_64 random;
};

class Queues : public testing::TestWithParam<bool> {};

TEST_P(Queues, PostedAreFoundAsAListFindsThem) {
  Draw draw(base::seed_in_tests());
  for (int round = 0; round < 6; ++round) {
    const std::uint64_t tags = round % 2 == 0 ? 8 : 200;
    std::deque<Receive> all;
    std::list<Receive*> plain;
    PostedQueue<Receive> queue;
    for (int step = 0; step < 3000; ++step) {
      const std::uint64_t act = draw.below(100);
      if (act < (step < 1500 ? 55u : 35u)) {
        Receive& receive = all.emplace_back();
        receive.wants = draw.asked(tags, GetParam());
        queue.push_back(&receive);
        plain.push_back(&receive);
        continue;
      }
      Receive* expected = nullptr;
      Receive* found = nullptr;
      if (act < 92) {
        const auto from = static_cast<std::uint32_t>(draw.below(4));
        const std::uint64_t tag = draw.tag(tags);
        for (Receive* one : plain)
          if (expected == nullptr && one->wants.fits(from, tag)) expected = one;
        found = queue.find(from, tag);
      } else if (!all.empty()) {  // one that is in the queue, or was
        Receive* const some = &all[draw.below(all.size())];
        for (Receive* one : plain)
          if (one == some) expected = one;
        found = queue.find_name(some);
      }
      ASSERT_EQ(found, expected) << "round " << round << ", step " << step;
      if (found == nullptr) continue;
      queue.remove(found);
      plain.remove(found);
    }
    ASSERT_EQ(queue.size(), plain.size());
    for (Receive* one : plain) ASSERT_EQ(queue.pop_front(), one);
    EXPECT_TRUE(queue.empty());
  }
}

TEST_P(Queues, ArrivedAreFoundAsAListFindsThem) {
  Draw draw(base::seed_in_tests() + 1);
  for (int round = 0; round < 6; ++round) {
    const std::uint64_t tags = round % 2 == 0 ? 8 : 200;
    std::deque<Arrived> all;
    std::list<Arrived*> plain;
    ArrivedQueue<Arrived> queue;
    for (int step = 0; step < 3000; ++step) {
      if (draw.below(100) < (step < 1500 ? 55u : 35u)) {
        Arrived& message = all.emplace_back();
        message.from = static_cast<std::uint32_t>(draw.below(4));
        message.with = draw.tag(tags);
        queue.push_back(&message);
        plain.push_back(&message);
        continue;
      }
      const Asked asked = draw.asked(tags, GetParam());
      Arrived* expected = nullptr;
      for (Arrived* one : plain)
        if (expected == nullptr && asked.fits(one->from, one->with)) expected = one;
      Arrived* const found = queue.find(asked);
      ASSERT_EQ(found, expected) << "round " << round << ", step " << step;
      if (found == nullptr || draw.below(4) == 0) continue;  // a probe leaves it in the queue
      queue.remove(found);
      plain.remove(found);
    }
    ASSERT_EQ(queue.size(), plain.size());
  }
}

INSTANTIATE_TEST_SUITE_P(Kinds, Queues, testing::Bool(), [](const auto& named) {
  return std::string(named.param ? "MoreThanTables" : "Few");
});

constexpr std::uint32_t many = 100'000;
/// Comparisons that one search may make, besides the one when an item enters a table.
constexpr std::uint64_t few = 3 * scanned_items;

TEST(QueueCost, ManyPostedReceivesCostNoScan) {
  std::vector<Receive> all(many);
  PostedQueue<Receive> queue;
  for (std::uint32_t i = 0; i < many; ++i) {
    all[i].wants = {i, 0, i % 7};
    queue.push_back(&all[i]);
  }
  looks = 0;
  for (std::uint32_t i = many; i-- > 0;) {
    ASSERT_EQ(queue.find(i % 7 + 1, i), nullptr);
    Receive* const found = queue.find(i % 7, i);
    ASSERT_EQ(found, &all[i]);
    queue.remove(found);
  }
  EXPECT_LE(looks, many * few);
}

TEST(QueueCost, ManyReceivesAreCancelledWithoutAScan) {
  std::vector<Receive> all(many);
  PostedQueue<Receive> queue;
  for (Receive& one : all) queue.push_back(&one);
  looks = 0;
  for (std::uint32_t i = many; i-- > 0;) {
    ASSERT_EQ(queue.find_name(&all[i]), &all[i]);
    queue.remove(&all[i]);
  }
  EXPECT_LE(looks, many * few);
}

TEST(QueueCost, ManyArrivedMessagesCostNoScan) {
  std::vector<Arrived> all(many);
  ArrivedQueue<Arrived> queue;
  for (std::uint32_t i = 0; i < many; ++i) {
    all[i].from = i % 7;
    all[i].with = i;
    queue.push_back(&all[i]);
  }
  looks = 0;
  for (std::uint32_t i = many; i-- > 0;) {
    ASSERT_EQ(queue.find({i, 0, i % 7 + 1}), nullptr);
    Arrived* const found = queue.find({i, 0, i % 2 == 0 ? any_source : i % 7});
    ASSERT_EQ(found, &all[i]);
    queue.remove(found);
  }
  EXPECT_LE(looks, many * few);
}

/// splitmix64's finalizer turns it into a number with zeros in its lower bits: under a known hash
/// all such tags meet in one bucket.
std::uint64_t tag_that_collides(std::uint64_t i) {
  const auto unshift = [](std::uint64_t x, int by) {
    std::uint64_t y = x;
    for (int done = by; done < 64; done += by) y = x ^ y >> by;
    return y;
  };
  const auto inverse = [](std::uint64_t odd) {
    std::uint64_t x = odd;
    for (int round = 0; round < 6; ++round) x *= 2 - odd * x;
    return x;
  };
  std::uint64_t x = unshift(i << 24, 31) * inverse(0x94d049bb133111ebull);
  x = unshift(x, 27) * inverse(0xbf58476d1ce4e5b9ull);
  return unshift(x, 30) - 0x9e3779b97f4a7c15ull;
}

TEST(QueueCost, TagsThatAreMadeToCollideDoNot) {
  constexpr std::uint32_t keys = 20'000;
  std::vector<Receive> all(keys);
  KeyTable table;
  for (std::uint32_t i = 0; i < keys; ++i)
    ASSERT_TRUE(table.add(&all[i], {tag_that_collides(i), 0}));
  EXPECT_LE(table.longest_chain(), 20u);
  for (std::uint32_t i = 0; i < keys; ++i)
    ASSERT_EQ(table.find({tag_that_collides(i), 0})->item, &all[i]);
  for (Receive& one : all) KeyTable::remove(&one);
  EXPECT_TRUE(table.empty());
}

TEST(FreeLists, GiveBackWhatAFloodTook) {
  struct Thing {
    std::uint64_t words[20];
  };
  FreeList<Thing> list;
  std::mt19937_64 random(base::seed_in_tests());
  std::vector<Thing*> taken;
  for (int round = 0; round < 40; ++round) {
    const std::size_t wanted = random() % 3 == 0 ? 0 : random() % 3000;
    while (taken.size() < wanted) {
      Thing* const one = list.take();
      ASSERT_NE(one, nullptr);
      std::fill(std::begin(one->words), std::end(one->words),
                reinterpret_cast<std::uintptr_t>(one));
      taken.push_back(one);
    }
    std::shuffle(taken.begin(), taken.end(), random);
    while (taken.size() > wanted) {
      for (const std::uint64_t word : taken.back()->words)
        ASSERT_EQ(word, reinterpret_cast<std::uintptr_t>(taken.back()));
      list.give(taken.back());
      taken.pop_back();
    }
    // no more chunks than are used, one empty, and one that is not full, if all goes well
    if (wanted == 0) {
      EXPECT_LE(list.chunks(), 1u);
    }
  }
  for (Thing* one : taken) list.give(one);
}

/// Finds the first of many items with the same key: each key keeps its own order.
TEST(QueueCost, OneKeyOfManyItemsHidesNoOther) {
  std::vector<Receive> all(many);
  PostedQueue<Receive> queue;
  for (std::uint32_t i = 0; i < many; ++i) {
    all[i].wants = {i < many / 2 ? 1u : i, 0, 0};
    queue.push_back(&all[i]);
  }
  looks = 0;
  for (std::uint32_t i = many; i-- > many / 2;) ASSERT_EQ(queue.find(0, i), &all[i]);
  EXPECT_LE(looks, many * few);
}

}  // namespace
}  // namespace penstock::messages

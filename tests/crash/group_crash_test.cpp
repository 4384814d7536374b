// Several processes. One dies in a barrier; or all processes of a node die at once.
#include <deque>

#include "crash_test_base.hpp"
#include "recorder.hpp"
#include "sync/sync.hpp"
#include "transport/endpoint_table.hpp"

namespace penstock::crash {
namespace {

using testing::HasSubstr;

constexpr std::uint64_t limit_ns = 20'000'000'000;

class GroupCrash : public CrashTest {
 protected:
  void SetUp() override { create(64 << 20); }
};

// ---- barrier

class BarrierCrash : public GroupCrash {
 protected:
  static constexpr std::uint32_t participants = 3, rounds = 6;
  enum Outcome : std::uint64_t { all_passed = 1, named_the_dead, anything_else };

  void SetUp() override {
    GroupCrash::SetUp();
    const Attached here = attach(spec_);
    ASSERT_TRUE(here.arena->create("barrier", sync::Barrier::bytes(participants)));
  }

  /// Passes all rounds. If that fails, tells whether the error names participant 1.
  Outcome take_part(std::uint32_t self, const std::function<void()>& armed) const {
    const Attached here = attach(spec_, {.rank = static_cast<int>(self), .emulated_node = self});
    const auto object = here.arena->open("barrier");
    if (!object) return anything_else;
    sync::Barrier barrier(here.pool->memory(), object->data, participants, self, here.pool->token(),
                          [&](std::uint64_t token) { return here.pool->alive(token); });
    for (std::uint32_t round = 0; round <= rounds; ++round) {
      // A participant that never arrived has no known name; only the deadline finds it.
      if (round == 1) armed();
      const auto passed = barrier.wait(limit_ns);
      if (passed) continue;
      const bool names = passed.error().code == ErrorCode::peer_dead &&
                         passed.error().message.find("participant 1 of 3") != std::string::npos;
      fmt::print(stderr, "{}\n", passed.error().message);
      return names ? named_the_dead : anything_else;
    }
    return all_passed;
  }
};

TEST_F(BarrierCrash, OneDiesAtEachStep) {
  const auto meet = [&](std::uint64_t at, Deed deed) {
    {
      const Attached here = attach(spec_);  // zeroes the barrier's lines before their first use
      ASSERT_TRUE(here.arena->destroy(*here.arena->open("barrier")));
      ASSERT_TRUE(here.arena->create("barrier", sync::Barrier::bytes(participants)));
    }
    std::deque<pool::Child> all;
    for (std::uint32_t self = 0; self < participants; ++self) {
      all.emplace_back([this, self, at, deed](const pool::Child::Report& report) {
        report(take_part(self, [&] {
          if (self == 1) arm(at, deed);
        }));
        return 0;
      });
    }
    if (deed == Deed::stop) {
      EXPECT_TRUE(wait_until_stopped_or_ended(all[1]));
      std::this_thread::sleep_for(std::chrono::milliseconds(50));
      all[1].kill(SIGCONT);
    }
    const std::uint64_t zero = all[0].next_report(), two = all[2].next_report();
    const int status = all[1].wait();
    EXPECT_EQ(status, deed == Deed::die ? 128 + SIGKILL : 0);
    if (deed == Deed::stop) {
      EXPECT_EQ(zero, all_passed);
      EXPECT_EQ(two, all_passed);
    } else {
      EXPECT_EQ(zero, named_the_dead);
      EXPECT_EQ(two, named_the_dead);
    }
    for (const std::uint32_t other : {0u, 2u}) EXPECT_EQ(all[other].wait(), 0);
  };
  const Standing before = collected(spec_);
  for (const Deed deed : {Deed::die, Deed::stop}) {
    CrashStatistics statistics(deed == Deed::die ? "barrier" : "barrier, stopped", rounds);
    for (std::uint64_t at = 1; at <= rounds; ++at) {
      SCOPED_TRACE(fmt::format("step {}", at));
      statistics.tried();
      meet(at, deed);
      EXPECT_EQ(collected(spec_), before);
      if (HasFailure()) return;
      statistics.survived();
    }
  }
}

// ---- a node

class NodeLoss : public GroupCrash {
 protected:
  static constexpr std::uint32_t ranks = 4, ranks_a_node = 2;
  using Address = transport::Address;

  void SetUp() override {
    GroupCrash::SetUp();
    const Attached here = attach(spec_);
    ASSERT_TRUE(here.arena->create("addresses", 64 * ranks));
    // Make the parts that are never freed before counting: the endpoint table and the first tiles.
    Recorder callbacks;
    const auto first = transport::Endpoint::open(*here.arena, callbacks, {"crash"});
    ASSERT_TRUE(first);
    const std::uint32_t slot = (*first)->address().slot;
    ASSERT_TRUE(transport::EndpointTable::open(*here.arena)->words(slot, slot));
  }

  static std::vector<Address> exchange(const Attached& here, std::uint32_t self,
                                       const Address& own) {
    const auto& memory = here.pool->memory();
    std::byte* lines = here.arena->open("addresses")->data;
    alignas(64) std::byte line[64] = {};
    std::memcpy(line, &own, sizeof own);
    memory.publish_line(lines + 64 * self, line);
    memory.store_fence();
    std::vector<Address> all(ranks);
    for (std::uint32_t i = 0; i < ranks; ++i) {
      const std::uint64_t end = base::now_ns() + limit_ns;
      while (all[i].pool_id != here.pool->info().id) {
        if (base::now_ns() > end) throw std::runtime_error("a rank is missing");
        memory.observe_line(line, lines + 64 * i);
        std::memcpy(&all[i], line, sizeof all[i]);
      }
    }
    return all;
  }

  /// The reported deaths, without peers that left: the other survivor may have finished first.
  static std::vector<std::string> died(const Recorder& callbacks) {
    std::vector<std::string> texts;
    for (const std::string& text : callbacks.dead) {
      if (text.ends_with(" died")) texts.push_back(text);
    }
    return texts;
  }

  /// Sends to all peers until two are dead. The errors must name both and their node.
  int live(std::uint32_t self, std::uint64_t bytes, const pool::Child::Report& report) const {
    const std::uint32_t node = self / ranks_a_node;
    const Attached here =
        attach(spec_, {.rank = static_cast<int>(self), .job = "crash", .emulated_node = node});
    Recorder callbacks;
    auto endpoint = *transport::Endpoint::open(*here.arena, callbacks, {"crash"});
    const auto all = exchange(here, self, endpoint->address());
    std::vector<std::unique_ptr<transport::SendOp>> ops;
    std::vector<std::uint64_t> next(ranks);
    const auto payload = [&](std::uint64_t tag) { return content(tag, bytes); };
    std::vector<std::vector<std::byte>> data;
    std::vector<transport::Peer> peers(ranks);
    for (std::uint32_t i = 0; i < ranks; ++i) {
      if (i != self) peers[i] = *endpoint->resolve(all[i]);
    }
    const std::uint64_t end = base::now_ns() + limit_ns;
    bool reported = false;
    while (died(callbacks).size() < ranks_a_node) {
      for (std::uint32_t i = 0; i < ranks; ++i) {
        if (i == self || next[i] > callbacks.arrived_from[peers[i]] + 4) continue;
        data.push_back(payload(next[i]));
        auto& op = *ops.emplace_back(std::make_unique<transport::SendOp>());
        op.header = {next[i], 0, bytes, 0};
        op.iov[0] = {data.back().data(), bytes};
        op.iov_count = 1;
        if (endpoint->send(peers[i], &op)) ++next[i];
      }
      endpoint->progress();
      if (!reported && callbacks.arrived_from.size() == ranks - 1) {
        reported = true;
        report(1);
      }
      if (base::now_ns() > end) return 4;
    }
    const auto names = died(callbacks);
    for (const std::string& text : names) {
      if (text.find("emulated node 1) died") == std::string::npos) return 5;
    }
    if ((names[0].find("rank 2 ") == 0) == (names[1].find("rank 2 ") == 0)) return 6;
    return callbacks.damaged == 0 ? 0 : 7;
  }

  void lose(std::uint64_t bytes, std::uint64_t default_samples) {
    std::mt19937_64 random(seed());
    const std::uint64_t samples = number_or("CRASH_SAMPLES", default_samples);
    CrashStatistics statistics(fmt::format("node loss, {} byte messages", bytes), samples);
    Standing before = collected(spec_);
    for (std::uint64_t sample = 0; sample < samples; ++sample) {
      SCOPED_TRACE(fmt::format("sample {}, TEST_SEED={}", sample, seed()));
      statistics.tried();
      std::deque<pool::Child> all;
      for (std::uint32_t self = 0; self < ranks; ++self) {
        all.emplace_back([this, self, bytes](const pool::Child::Report& report) {
          return live(self, bytes, report);
        });
      }
      for (const pool::Child& child : all) ASSERT_EQ(child.next_report(), 1u);
      std::this_thread::sleep_for(std::chrono::microseconds(random() % 20'000));
      all[2].kill(SIGKILL);
      all[3].kill(SIGKILL);
      EXPECT_EQ(all[0].wait(), 0);
      EXPECT_EQ(all[1].wait(), 0);
      all.clear();
      EXPECT_EQ(collected(spec_), before);
      if (HasFailure()) return;
      clear_addresses();
      statistics.survived();
    }
  }

  void clear_addresses() const {
    const Attached here = attach(spec_);
    const auto old = here.arena->open("addresses");
    ASSERT_TRUE(here.arena->destroy(*old));
    ASSERT_TRUE(here.arena->create("addresses", 64 * ranks));
  }
};

TEST_F(NodeLoss, UnderSmallMessages) {
  lose(16, 4);
}
TEST_F(NodeLoss, UnderBulk) {
  lose(1 << 20, 4);
}

}  // namespace
}  // namespace penstock::crash

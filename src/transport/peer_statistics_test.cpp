// Peer statistics of endpoints.
#include <map>

#include "transport/endpoint_table.hpp"
#include "transport/test_endpoints.hpp"

namespace penstock::transport {
namespace {

class PeerStatisticsTest : public TransportTest {
 protected:
  std::map<std::pair<Peer, Peer>, PeerCounts> published() const {
    std::map<std::pair<Peer, Peer>, PeerCounts> by_pair;
    for (const PeerCounts& counts : peer_counts(*side_b_.arena))
      by_pair[{counts.endpoint, counts.peer}] = counts;
    return by_pair;
  }
  Peer slot_a() const { return a_->address().slot; }
  Peer slot_b() const { return b_->address().slot; }
};

TEST_P(PeerStatisticsTest, CountsSentAndReceived) {
  EXPECT_TRUE(published().empty()) << "nobody has talked";
  auto small = pattern(20, 1), large = pattern(100'000, 2);
  for (int i = 0; i < 5; ++i)
    ASSERT_TRUE(*a_->try_inject(to_b_, {1, 0, small.size(), 0}, small.data()));
  SendOp op = op_of(large, 2);
  ASSERT_TRUE(a_->send(to_b_, &op));
  progress_until([&] {
    const auto rows = published();
    return rows.size() == 2 && rows.at({slot_a(), slot_b()}).counts.messages_sent == 6 &&
           rows.at({slot_b(), slot_a()}).counts.messages_received == 6;
  });
  const auto rows = published();
  const PeerCounts& at_a = rows.at({slot_a(), slot_b()});
  EXPECT_EQ(at_a.counts.bytes_sent, 5 * 20 + 100'000u);
  EXPECT_EQ(at_a.counts.messages_received, 0u);
  EXPECT_EQ(at_a.token, side_a_.pool->token());
  EXPECT_EQ(at_a.peer_token, side_b_.pool->token());
  EXPECT_EQ(rows.at({slot_b(), slot_a()}).counts.bytes_received, 5 * 20 + 100'000u);
  EXPECT_EQ(a_->stats().messages_sent, 6u);
  EXPECT_EQ(b_->stats().bytes_received, 5 * 20 + 100'000u);
}

TEST_P(PeerStatisticsTest, CountsStallsAtSender) {
  const std::byte payload[8] = {};
  bool full = false;
  for (int i = 0; i < 3000 && !full; ++i) full = !*a_->try_inject(to_b_, {0, 0, 8, 0}, payload);
  ASSERT_TRUE(full);
  EXPECT_GT(a_->stats().stalls, 0u);
  progress_until([&] {
    const auto rows = published();
    const auto found = rows.find({slot_a(), slot_b()});
    return found != rows.end() && found->second.counts.stalls == a_->stats().stalls;
  });
}

TEST_P(PeerStatisticsTest, DropsRowsWhenEndpointCloses) {
  auto data = pattern(20, 1);
  ASSERT_TRUE(*a_->try_inject(to_b_, {1, 0, 20, 0}, data.data()));
  ASSERT_TRUE(*b_->try_inject(to_a_, {1, 0, 20, 0}, data.data()));
  progress_until([&] { return published().size() == 2 && a_->drained() && b_->drained(); });
  const Peer old = slot_b();
  b_.reset();
  auto rows = published();
  ASSERT_EQ(rows.size(), 1u);
  EXPECT_EQ(rows.at({slot_a(), old}).peer_token, 0u) << "closed";
  b_ = open(side_b_, callbacks_b_);
  ASSERT_EQ(slot_b(), old);
  to_b_ = *a_->resolve(b_->address());
  ASSERT_TRUE(*a_->try_inject(to_b_, {1, 0, 20, 0}, data.data()));
  progress_until([&] {
    rows = published();
    return rows.count({slot_a(), old}) == 1 && rows.at({slot_a(), old}).peer_token != 0;
  });
  EXPECT_EQ(rows.at({slot_a(), old}).counts.messages_sent, 1u);
  EXPECT_EQ(a_->stats().messages_sent, 2u) << "all of them";
}

TEST_P(PeerStatisticsTest, SkipsDamagedRows) {
  auto data = pattern(20, 1);
  ASSERT_TRUE(*a_->try_inject(to_b_, {1, 0, 20, 0}, data.data()));
  progress_until([&] { return published().count({slot_a(), slot_b()}) == 1; });
  const auto table = EndpointTable::open(*side_b_.arena);
  ASSERT_TRUE(table);
  side_b_.pool->memory().publish_word(table->rows(slot_a()) + 8, 999);
  side_b_.pool->memory().store_fence();
  EXPECT_EQ(published().count({slot_a(), slot_b()}), 0u);
}

/// A pure receiver has rows too; they take no additional memory.
TEST_P(PeerStatisticsTest, CountsForPureReceiver) {
  auto data = pattern(20, 1);
  ASSERT_TRUE(*a_->try_inject(to_b_, {1, 0, 20, 0}, data.data()));
  progress_until([&] { return published().count({slot_b(), slot_a()}) == 1; });
  for (const auto& object : side_b_.arena->list())
    EXPECT_FALSE(object.name.starts_with("penstock.peers.")) << object.name;
}

/// More peers than the table and one object of rows hold.
TEST_P(PeerStatisticsTest, ManyPeers) {
  constexpr int many = 80;
  std::deque<Recorder> all_callbacks(many);
  std::vector<std::unique_ptr<Endpoint>> others;
  auto data = pattern(20, 1);
  for (int i = 0; i < many; ++i) {
    others.push_back(open(side_b_, all_callbacks[static_cast<std::size_t>(i)]));
    const Peer peer = *a_->resolve(others.back()->address());
    ASSERT_TRUE(*a_->try_inject(peer, {1, 0, 20, 0}, data.data()));
  }
  const auto of_a = [&] {
    int count = 0;
    for (const auto& [pair, row] : published())
      if (pair.first == slot_a()) count += row.counts.messages_sent == 1 ? 1 : 0;
    return count;
  };
  progress_until([&] { return of_a() == many; });
  for (auto& other : others) {
    while (!a_->drained() && other->progress() == 0) a_->progress();
    other.reset();
  }
}

INSTANTIATE_TEST_SUITE_P(Modes, PeerStatisticsTest,
                         testing::Values(coherence::Mode::hardware, coherence::Mode::software),
                         [](const auto& mode) { return std::string(mode_name(mode.param)); });

}  // namespace
}  // namespace penstock::transport

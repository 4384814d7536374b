// The endpoint table, read while others write it.
#include "transport/endpoint_table.hpp"

#include <atomic>
#include <thread>

#include "transport/peer_watch.hpp"
#include "transport/test_endpoints.hpp"

namespace penstock::transport {
namespace {

class EndpointTableTest : public TransportTest {
 protected:
  /// The line of an endpoint's slot, for damaging it.
  std::byte* line_of(const Endpoint& endpoint) {
    const EndpointTable table = *EndpointTable::open(*side_b_.arena);
    const auto* high_water = static_cast<const std::byte*>(table.high_water_line());
    return const_cast<std::byte*>(high_water) + 64 * (1 + endpoint.address().slot);
  }
  /// Replaces the checksum, as a torn line has it. Returns the old one.
  std::uint64_t exchange_check(const Endpoint& endpoint, std::uint64_t checksum) {
    std::byte* at = line_of(endpoint) + offsetof(EndpointLine, checksum);
    const auto& memory = side_b_.pool->memory();
    memory.invalidate(at, 8);
    memory.load_fence();
    const std::uint64_t before = memory.load_word(at);
    memory.publish_word(at, checksum);
    memory.store_fence();
    return before;
  }
};

/// A process that registers memory changes the word that its peers find in its endpoint's line.
TEST_P(EndpointTableTest, ALivingEndpointIsFoundWhileItsUserWordChanges) {
  const Address address = a_->address();
  std::atomic<bool> stop{false};
  std::thread setter([&] {
    for (std::uint64_t user_word = 1; !stop; ++user_word)
      if (!a_->set_user_word(user_word)) break;
  });
  const EndpointTable table = *EndpointTable::open(*side_b_.arena);
  PeerWatch watch(*side_b_.pool, table);
  watch.add(address.slot, address.generation, side_a_.pool->token());
  int refused = 0, ended = 0, unread = 0;
  for (int look = 0; look < 20'000; ++look) {
    refused += b_->resolve(address) ? 0 : 1;
    unread += table.read(address.slot) ? 0 : 1;
    ended += watch.fate(address.slot) == PeerFate::present ? 0 : 1;
  }
  stop = true;
  setter.join();
  EXPECT_EQ(refused, 0);
  EXPECT_EQ(unread, 0) << "the line was torn";
  EXPECT_EQ(ended, 0);
}

/// A reader of a torn line looks again; only a whole line shows that an endpoint has gone.
TEST_P(EndpointTableTest, ATornLineEndsNobody) {
  const EndpointTable table = *EndpointTable::open(*side_b_.arena);
  PeerWatch watch(*side_b_.pool, table);
  const Address address = a_->address();
  watch.add(address.slot, address.generation, side_a_.pool->token());
  const std::uint64_t checksum = exchange_check(*a_, 1);
  EXPECT_FALSE(table.read(address.slot));
  for (int look = 0; look < 10; ++look) EXPECT_EQ(watch.fate(address.slot), PeerFate::present);
  exchange_check(*a_, checksum);
  EXPECT_EQ(watch.fate(address.slot), PeerFate::present);
  EXPECT_TRUE(b_->resolve(address));
  a_.reset();
  EXPECT_EQ(watch.fate(address.slot), PeerFate::closed);
  EXPECT_EQ(b_->resolve(address).error().code, ErrorCode::not_found);
}

/// Another that waits for it in this process looks in between, and says what it has waited for.
TEST_P(EndpointTableTest, TheDeadAreReportedAtTheSecondLookThatFindsThem) {
  const EndpointTable table = *EndpointTable::open(*side_b_.arena);
  PeerWatch watch(*side_b_.pool, table);
  const Address address = a_->address();
  constexpr std::uint64_t of_nobody = 0;
  watch.add(address.slot, address.generation, of_nobody);
  std::vector<PeerFate> told;
  const auto tell = [&](Peer, std::uint32_t, PeerFate fate, const std::string&) {
    told.push_back(fate);
  };
  watch.look(tell);
  EXPECT_TRUE(told.empty());
  for (int look = 0; look < 3; ++look) watch.look(tell);
  EXPECT_EQ(told, std::vector{PeerFate::dead});
}

TEST_P(EndpointTableTest, WhoLeavesMakesNoOtherLookedAtTwice) {
  const EndpointTable table = *EndpointTable::open(*side_b_.arena);
  PeerWatch watch(*side_b_.pool, table);
  Recorder callbacks;
  const auto c = open(side_a_, callbacks), d = open(side_a_, callbacks);
  const std::uint64_t living = side_a_.pool->token();
  constexpr std::uint64_t of_nobody = 0;
  constexpr std::uint32_t never_opened = 50;  // generations on
  watch.add(a_->address().slot, a_->address().generation, living);
  watch.add(b_->address().slot, b_->address().generation, of_nobody);
  watch.add(c->address().slot, c->address().generation + never_opened, living);
  watch.add(d->address().slot, d->address().generation, living);
  std::vector<PeerFate> told;
  const auto tell = [&](Peer, std::uint32_t, PeerFate fate, const std::string&) {
    told.push_back(fate);
  };
  watch.look(tell);
  EXPECT_EQ(told, std::vector{PeerFate::closed});
  watch.look(tell);
  EXPECT_EQ(told, (std::vector{PeerFate::closed, PeerFate::dead}));
}

/// The line that leads to a sender's node may be torn when its first message comes.
TEST_P(EndpointTableTest, AMessageFromANearSenderIsHeardWhenItsLineIsWholeAgain) {
  const std::uint64_t checksum = exchange_check(*a_, 1);
  ASSERT_TRUE(*a_->try_inject(to_b_, {7, 0, 0, 0}, nullptr));
  for (int i = 0; i < 100; ++i) b_->progress();
  EXPECT_TRUE(callbacks_b_.arrived.empty());
  exchange_check(*a_, checksum);
  progress_until([&] { return callbacks_b_.arrived.size() == 1; });
  EXPECT_EQ(callbacks_b_.arrived[0].header.tag, 7u);
}

/// Opening an endpoint while many are open checks the liveness of only a few processes.
TEST_P(EndpointTableTest, SlotsOfTheClosedAreTakenBeforeNewOnes) {
  Recorder callbacks;
  std::vector<std::unique_ptr<Endpoint>> open_ones;
  for (int i = 0; i < 10; ++i) open_ones.push_back(open(side_a_, callbacks));
  const Address closed = open_ones[4]->address();
  open_ones[4].reset();
  open_ones[4] = open(side_b_, callbacks);
  EXPECT_EQ(open_ones[4]->address().slot, closed.slot);
  EXPECT_EQ(open_ones[4]->address().generation, closed.generation + 1);
  const auto last = open(side_b_, callbacks);
  EXPECT_EQ(last->address().slot, 12u);
}

INSTANTIATE_TEST_SUITE_P(Modes, EndpointTableTest,
                         testing::Values(coherence::Mode::hardware, coherence::Mode::software),
                         [](const auto& mode) { return std::string(mode_name(mode.param)); });

}  // namespace
}  // namespace penstock::transport

// The endpoint table, read while other processes write it.
#include "transport/endpoint_table.hpp"

#include <atomic>
#include <set>
#include <thread>

#include "base/format.hpp"
#include "transport/peer_watch.hpp"
#include "transport/test_endpoints.hpp"

namespace penstock::transport {
namespace {

class EndpointTableTest : public TransportTest {
 protected:
  /// The line of an endpoint's slot, to damage it.
  std::byte* line_of(const Endpoint& endpoint) {
    return EndpointTable::open(*side_b_.arena)->line_of(endpoint.address().slot);
  }
  /// Replaces the checksum, so that the line looks torn. Returns the old checksum.
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

/// Registering memory changes the user word in the endpoint's line.
TEST_P(EndpointTableTest, FindsEndpointWhileUserWordChanges) {
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

/// A reader of a torn line looks again; only a whole line shows that an endpoint has ended.
TEST_P(EndpointTableTest, KeepsPeerWithTornLine) {
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

/// In between, another wait of this process for the peer can look and report first.
TEST_P(EndpointTableTest, ReportsDeadPeerAtSecondLook) {
  const EndpointTable table = *EndpointTable::open(*side_b_.arena);
  PeerWatch watch(*side_b_.pool, table);
  const Address address = a_->address();
  constexpr std::uint64_t no_token = 0;
  watch.add(address.slot, address.generation, no_token);
  std::vector<PeerFate> fates;
  const auto record = [&](Peer, std::uint32_t, PeerFate fate, const std::string&) {
    fates.push_back(fate);
  };
  watch.look(record);
  EXPECT_TRUE(fates.empty());
  for (int look = 0; look < 3; ++look) watch.look(record);
  EXPECT_EQ(fates, std::vector{PeerFate::dead});
}

/// The slot has changed hands more than once since the last look. Endpoints that closed count as
/// closed, and one of them that died counts as dead.
TEST_P(EndpointTableTest, TellsClosedFromDeadAfterSlotReuse) {
  const EndpointTable table = *EndpointTable::open(*side_b_.arena);
  PeerWatch watch(*side_b_.pool, table);
  const Peer slot = a_->address().slot;
  const auto reopen = [&] {
    a_.reset();
    a_ = open(side_a_, callbacks_a_);
    ASSERT_EQ(a_->address().slot, slot);
  };
  const auto fate_of = [&](std::uint32_t generation) {
    constexpr std::uint64_t no_token = 0;
    watch.add(slot, generation, no_token);
    return watch.fate(slot);
  };
  const std::uint32_t first = a_->address().generation;
  for (int owners = 0; owners < 3; ++owners) reopen();
  for (std::uint32_t each = first; each < first + 3; ++each)
    EXPECT_EQ(fate_of(each), PeerFate::closed) << each;

  a_.reset();  // this side has not reported it
  auto* line = reinterpret_cast<EndpointLine*>(table.line_of(slot));
  const std::uint32_t dead = first + 3;
  side_b_.pool->memory().publish_word(&line->state, EndpointLine::pack(dead, EndpointState::open));
  side_b_.pool->memory().full_fence();
  a_ = open(side_a_, callbacks_a_);
  EXPECT_EQ(fate_of(dead), PeerFate::dead);
  EXPECT_EQ(fate_of(dead - 1), PeerFate::closed);
  for (int owners = 0; owners < 2; ++owners) reopen();
  EXPECT_EQ(fate_of(dead), PeerFate::dead);
  EXPECT_EQ(fate_of(dead + 1), PeerFate::closed);
  EXPECT_EQ(fate_of(dead + 2), PeerFate::closed);
}

TEST_P(EndpointTableTest, ChecksEachPeerOnceWhenOneLeaves) {
  const EndpointTable table = *EndpointTable::open(*side_b_.arena);
  PeerWatch watch(*side_b_.pool, table);
  Recorder callbacks;
  const auto c = open(side_a_, callbacks), d = open(side_a_, callbacks);
  const std::uint64_t living = side_a_.pool->token();
  constexpr std::uint64_t no_token = 0;
  constexpr std::uint32_t never_opened = 50;  // generations from here on
  watch.add(a_->address().slot, a_->address().generation, living);
  watch.add(b_->address().slot, b_->address().generation, no_token);
  watch.add(c->address().slot, c->address().generation + never_opened, living);
  watch.add(d->address().slot, d->address().generation, living);
  std::vector<PeerFate> fates;
  const auto record = [&](Peer, std::uint32_t, PeerFate fate, const std::string&) {
    fates.push_back(fate);
  };
  watch.look(record);
  EXPECT_EQ(fates, std::vector{PeerFate::closed});
  watch.look(record);
  EXPECT_EQ(fates, (std::vector{PeerFate::closed, PeerFate::dead}));
}

/// The line that names the sender's node may be torn when its first message arrives.
TEST_P(EndpointTableTest, ReceivesIntraNodeMessageOnceLineIsWhole) {
  const std::uint64_t checksum = exchange_check(*a_, 1);
  ASSERT_TRUE(*a_->try_inject(to_b_, {7, 0, 0, 0}, nullptr));
  for (int i = 0; i < 100; ++i) b_->progress();
  EXPECT_TRUE(callbacks_b_.arrived.empty());
  exchange_check(*a_, checksum);
  progress_until([&] { return callbacks_b_.arrived.size() == 1; });
  EXPECT_EQ(callbacks_b_.arrived[0].header.tag, 7u);
}

/// Opening an endpoint while many are open checks the liveness of only a few processes.
TEST_P(EndpointTableTest, ReusesClosedSlotsFirst) {
  Recorder callbacks;
  std::vector<std::unique_ptr<Endpoint>> open_ones;
  for (int i = 0; i < 10; ++i) open_ones.push_back(open(side_a_, callbacks));
  const Address closed = open_ones[4]->address();
  open_ones[4].reset();
  open_ones[4] = open(side_b_, callbacks);
  EXPECT_EQ(open_ones[4]->address().slot, closed.slot);
  EXPECT_EQ(open_ones[4]->address().generation, closed.generation + 1);
  const auto last = open(side_b_, callbacks);
  EXPECT_EQ(last->address().slot, processes_ + 10);
}

/// Each process has its own slot. Its first endpoint takes it, and so does the first one after that
/// endpoint closes.
TEST_P(EndpointTableTest, FirstEndpointTakesOwnSlot) {
  EXPECT_EQ(a_->address().slot, side_a_.pool->slot());
  EXPECT_EQ(b_->address().slot, side_b_.pool->slot());
  Recorder callbacks;
  const auto second = open(side_a_, callbacks);
  EXPECT_EQ(second->address().slot, processes_);
  const std::uint32_t generation = a_->address().generation;
  a_.reset();
  const auto third = open(side_a_, callbacks);
  EXPECT_EQ(third->address().slot, side_a_.pool->slot());
  EXPECT_EQ(third->address().generation, generation + 1);
}

/// If several threads open endpoints concurrently, only one gets the process's own slot.
TEST_P(EndpointTableTest, ConcurrentOpensGetDistinctSlots) {
  constexpr std::size_t threads = 4;
  for (int round = 0; round < 10; ++round) {
    a_.reset();
    std::deque<Recorder> callbacks(threads);
    std::vector<std::unique_ptr<Endpoint>> opened(threads);
    {
      std::vector<std::jthread> openers;
      for (std::size_t i = 0; i < threads; ++i)
        openers.emplace_back([&, i] { opened[i] = open(side_a_, callbacks[i]); });
    }
    std::set<Peer> slots;
    for (const auto& endpoint : opened) slots.insert(endpoint->address().slot);
    EXPECT_EQ(slots.size(), threads);
    EXPECT_TRUE(slots.contains(side_a_.pool->slot()));
    opened.clear();
    a_ = open(side_a_, callbacks_a_);
  }
}

class SmallTableTest : public EndpointTableTest {
 protected:
  SmallTableTest() { processes_ = 2; }
};

TEST_P(SmallTableTest, FullTableErrorNamesRemedy) {
  Recorder callbacks;
  std::vector<std::unique_ptr<Endpoint>> all;
  for (std::uint32_t i = processes_; i < endpoints_of_pool(processes_); ++i)
    all.push_back(open(side_a_, callbacks));
  const auto refused = Endpoint::open(*side_a_.arena, callbacks, {"test"});
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, ErrorCode::no_slots);
  const std::string& text = refused.error().message;
  EXPECT_NE(text.find("all 64 endpoints that pool"), std::string::npos) << text;
  EXPECT_NE(text.find("--ranks 4 --overwrite"), std::string::npos) << text;
  const Peer free = all[40]->address().slot;
  all[40].reset();
  EXPECT_EQ(open(side_b_, callbacks)->address().slot, free);
}

/// One table made by an older Penstock, and one with impossible contents.
TEST_P(EndpointTableTest, RefusesTableOfAnotherVersion) {
  const auto object = side_b_.arena->open(table_name);
  ASSERT_TRUE(object);
  a_.reset();
  b_.reset();
  const auto& memory = side_b_.pool->memory();
  const std::uint64_t version = memory.observe_word(object->data + 8);
  memory.publish_word(object->data + 8, version + 1);
  memory.store_fence();
  auto refused = EndpointTable::open(*side_b_.arena);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, ErrorCode::wrong_format);
  EXPECT_NE(refused.error().message.find("another version of Penstock"), std::string::npos);
  EXPECT_NE(refused.error().message.find("--overwrite"), std::string::npos);
  memory.publish_word(object->data + 8, version);
  memory.publish_word(object->data + 32, 1);
  memory.store_fence();
  refused = EndpointTable::open(*side_b_.arena);
  ASSERT_FALSE(refused);
  EXPECT_NE(refused.error().message.find("is damaged"), std::string::npos);
  ASSERT_TRUE(side_b_.arena->destroy(*object));
  ASSERT_TRUE(side_b_.arena->create(table_name, 64 + 64 * 512 + 8 * 512 * 512));
  refused = EndpointTable::open(*side_b_.arena);
  ASSERT_FALSE(refused);
  EXPECT_NE(refused.error().message.find("another version of Penstock"), std::string::npos);
}

/// More tiles than the first piece holds: pieces are added, and each tile has one receiver.
TEST_P(EndpointTableTest, GivesEveryPairItsOwnWord) {
  EndpointTable table = *EndpointTable::open(*side_b_.arena);
  constexpr std::uint32_t receivers = 40, step = 60;
  std::set<const void*> words;
  std::uint32_t pairs = 0;
  for (std::uint32_t owner = 0; owner < receivers; ++owner)
    for (Peer sender = owner; sender < table.count(); sender += step, ++pairs) {
      const auto made = table.words(owner, sender);
      ASSERT_TRUE(made) << made.error().message;
      EXPECT_EQ(made->announcement, table.find_word(owner, sender));
      words.insert(made->announcement);
    }
  EXPECT_EQ(words.size(), pairs);
  for (std::uint32_t owner = 0; owner < receivers; ++owner)
    for (Peer sender = owner; sender < table.count(); sender += step)
      EXPECT_TRUE(words.contains(table.find_word(owner, sender)));
  EXPECT_TRUE(side_b_.arena->open("penstock.endpoints.tiles.0.0"));
}

/// If a group has a power of two of receivers, its pieces have an eighth more tiles than that.
TEST_P(EndpointTableTest, TilePiecesLeaveLittleUnused) {
  EndpointTable table = *EndpointTable::open(*side_b_.arena);
  constexpr std::uint32_t receivers = 512;
  ASSERT_GE(table.count(), receivers);
  for (std::uint32_t owner = 0; owner < receivers; ++owner) ASSERT_TRUE(table.words(owner, 0));
  std::uint64_t bytes = 0;
  for (int piece = 0;; ++piece) {
    const auto made = side_b_.arena->open(fmt::format("{}0.{}", tiles_prefix, piece));
    if (!made) break;
    bytes += made->bytes;
  }
  EXPECT_EQ(bytes, receivers * tile_bytes * 9 / 8);
}

/// The state that counts the taken tiles is overwritten: no tile is given away twice.
TEST_P(EndpointTableTest, KeepsTileOwnersWhenStateIsOverwritten) {
  EndpointTable table = *EndpointTable::open(*side_b_.arena);
  const auto object = side_b_.arena->open(table_name);
  ASSERT_TRUE(object);
  const auto& memory = side_b_.pool->memory();
  std::set<const void*> words;
  std::uint32_t pairs = 0;
  for (const std::size_t overwritten : {0, 1, 2}) {
    for (std::size_t copy = 0; copy < overwritten; ++copy)
      memory.publish_word(object->data + sizeof(TableHeadLines) + 64 * copy, 12345);
    memory.store_fence();
    for (std::uint32_t i = 0; i < 100; ++i, ++pairs)
      words.insert(table.words(100 * overwritten + i, 0)->announcement);
  }
  EXPECT_EQ(words.size(), pairs);
}

INSTANTIATE_TEST_SUITE_P(Modes, SmallTableTest,
                         testing::Values(coherence::Mode::hardware, coherence::Mode::software),
                         [](const auto& mode) { return std::string(mode_name(mode.param)); });
INSTANTIATE_TEST_SUITE_P(Modes, EndpointTableTest,
                         testing::Values(coherence::Mode::hardware, coherence::Mode::software),
                         [](const auto& mode) { return std::string(mode_name(mode.param)); });

}  // namespace
}  // namespace penstock::transport

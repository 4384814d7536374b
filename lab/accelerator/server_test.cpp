// Which words a switch takes for an ask, and how ranks learn that it has let go; a leaf whose rank
// has died. On a real pool.
#include "accelerator/server.hpp"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "arena/test_pool.hpp"
#include "schedule/datatype.hpp"

namespace penstock::accelerator {
namespace {

using offload::Answer;
using offload::Ask;
using offload::Command;
using offload::Region;

class ServerTest : public testing::Test {
 protected:
  std::unique_ptr<Server> play() {
    auto server = Server::open({.attach = [this](pool::AttachOptions options) {
      options.spec = pool_.spec();
      return pool::Pool::attach(options);
    }});
    EXPECT_TRUE(server) << server.error().message;
    return *std::move(server);
  }
  Region make_region(std::uint32_t name, const offload::Shape& asked) {
    offload::Shape shape = asked;
    shape.slot_bytes = 256;
    shape.communicator = name;
    shape.owner = rank_.pool->token();
    const auto object = rank_->create(std::to_string(name), Region(0, shape).bytes());
    EXPECT_TRUE(object) << object.error().message;
    const Region region(object->offset, shape);
    offload::describe(*rank_.pool, region);
    return region;
  }
  void publish(std::uint64_t at, std::uint64_t word) const {
    memory().publish_word(rank_.pool->base() + at, word);
    memory().full_fence();
  }
  std::uint64_t ask_of(std::uint32_t word) const {
    return directory().ask_line(rank_.pool->slot()) + word * 8;
  }
  Answer answer(std::uint32_t word, Server& server) const {
    for (int looks = 0; looks < 8; ++looks) server.poll();
    return static_cast<Answer>(
        0xf & memory().observe_word(rank_.pool->base() +
                                    directory().answer_line(0, rank_.pool->slot()) + word * 8));
  }
  /// Whether ranks find that the switch serves the region.
  bool names_a_switch(const Region& region) const {
    const auto member = offload::observe_member(*rank_.pool, region, region.switch_line(0));
    return member && rank_.pool->alive(member->token);
  }
  const coherence::Memory& memory() const { return rank_.pool->memory(); }
  offload::Directory directory() const { return *offload::Directory::find_or_make(*rank_.arena); }

  arena::TestPool pool_{32 << 20};
  arena::Attached rank_ = pool_.attach({.job = "job"});
};

TEST_F(ServerTest, NamesServerInRegionUntilWithdrawn) {
  const auto server = play();
  const Region first = make_region(1, {.ranks = 2}), second = make_region(2, {.ranks = 2});
  publish(ask_of(0), Ask::of(first.offset(), 0).word);
  publish(ask_of(1), Ask::of(second.offset(), 0).word);
  EXPECT_EQ(answer(0, *server), Answer::served);
  EXPECT_EQ(answer(1, *server), Answer::served);
  EXPECT_TRUE(names_a_switch(first));
  publish(ask_of(0), Ask::of(0, 1).word);
  EXPECT_EQ(answer(0, *server), Answer::gone);
  EXPECT_FALSE(names_a_switch(first));
  EXPECT_TRUE(names_a_switch(second));
}

/// If a foreign process withdrew a region, its ranks would otherwise wait for ever.
TEST_F(ServerTest, ReportsForeignSubmissionToRanks) {
  const auto server = play();
  const Region region = make_region(1, {.ranks = 2}), other = make_region(2, {.ranks = 2});
  publish(ask_of(0), Ask::of(region.offset(), 0).word);
  publish(ask_of(1), Ask::of(other.offset(), 0).word);
  ASSERT_EQ(answer(1, *server), Answer::served);
  publish(ask_of(0), 0);  // not an ask
  EXPECT_EQ(answer(0, *server), Answer::served);
  EXPECT_TRUE(names_a_switch(region));
  publish(ask_of(0), Ask::of(rank_.pool->bytes() - 64, 7).word);
  EXPECT_EQ(answer(0, *server), Answer::refused);
  EXPECT_FALSE(names_a_switch(region));
}

/// Its rings would hold packets that were answered before.
TEST_F(ServerTest, ARegionIsServedOnce) {
  const auto server = play();
  const Region region = make_region(1, {.ranks = 2});
  publish(ask_of(0), Ask::of(region.offset(), 0).word);
  ASSERT_EQ(answer(0, *server), Answer::served);
  publish(ask_of(0), Ask::of(region.offset(), 1).word);
  EXPECT_EQ(answer(0, *server), Answer::refused);
  publish(ask_of(1), Ask::of(region.offset(), 0).word);
  EXPECT_EQ(answer(1, *server), Answer::refused);
}

/// The process that asked the dead switch may have freed the region.
TEST_F(ServerTest, IgnoresRequestsToEarlierSwitch) {
  const Region region = make_region(1, {.ranks = 2});
  publish(ask_of(0), Ask::of(region.offset(), 0).word);
  const auto server = play();
  EXPECT_EQ(answer(0, *server), Answer::none);
  EXPECT_EQ(server->communicators(), 0u);
  publish(ask_of(0), Ask::of(0, 1).word);
  EXPECT_EQ(answer(0, *server), Answer::gone);
}

/// A chunk that the spine was asked for is answered, although a rank has died before the next.
TEST_F(ServerTest, LeafForwardsAnswersBeforeReportingDeadRank) {
  const Region region = make_region(1, {.ranks = 2, .leaves = 1});
  std::uint64_t dead = 0;
  {
    const auto gone = pool_.attach({.job = "job"});
    dead = gone.pool->token();
  }
  offload::publish_member(*rank_.pool, region, region.member_line(0), {rank_.pool->token(), 0});
  offload::publish_member(*rank_.pool, region, region.member_line(1), {dead, 0});
  const auto send = [&](std::uint32_t rank, std::uint32_t chunk) {
    const auto packet = offload::seal(Command{.communicator = 1,
                                              .rank = static_cast<std::uint16_t>(rank),
                                              .ranks = 2,
                                              .chunk = chunk},
                                      region.submission_place(rank, chunk));
    memory().publish_line(rank_.pool->base() + region.submission(rank, chunk), &packet);
    memory().full_fence();
  };
  const auto answered = [&](std::uint64_t chunk) -> std::optional<offload::Status> {
    offload::Packet packet;
    memory().observe_line(&packet, rank_.pool->base() + region.completion(0, chunk));
    const auto place = region.completion_place(0, chunk);
    if (!offload::has_arrived(packet, place)) return std::nullopt;
    return offload::read_completion(packet, place)->status;
  };
  const auto leaf = serve({.number = 1, .leaves = 1}, *rank_.pool, region, 0);
  const auto spine = serve({.number = 0, .leaves = 1}, *rank_.pool, region, 0);
  send(0, 0);
  send(1, 0);
  send(0, 1);  // from rank 0 only
  for (int looks = 0; looks < 4; ++looks) leaf->poll();
  leaf->check_ranks();
  for (int looks = 0; looks < 4; ++looks) spine->poll();
  for (int looks = 0; looks < 4; ++looks) leaf->poll();
  EXPECT_EQ(answered(0), offload::Status::ok);
  leaf->check_ranks();
  EXPECT_EQ(answered(1), offload::Status::rank_dead);
}

/// The spine waits for a leaf's packet, of which only the leaf has a copy.
TEST_F(ServerTest, ALeafRestoresWhatAStrangerHasOverwritten) {
  const Region region = make_region(1, {.ranks = 1, .leaves = 1});
  offload::publish_member(*rank_.pool, region, region.member_line(0), {rank_.pool->token(), 0});
  const auto packet =
      offload::seal(Command{.communicator = 1, .ranks = 1}, region.submission_place(0, 0));
  memory().publish_line(rank_.pool->base() + region.submission(0, 0), &packet);
  memory().full_fence();
  const auto leaf = serve({.number = 1, .leaves = 1}, *rank_.pool, region, 0);
  for (int looks = 0; looks < 4; ++looks) leaf->poll();
  publish(region.submission(1, 0) + 56, 0);
  const auto spine = serve({.number = 0, .leaves = 1}, *rank_.pool, region, 0);
  EXPECT_FALSE(spine->poll());
  leaf->check_ranks();
  EXPECT_TRUE(spine->poll());
}

}  // namespace
}  // namespace penstock::accelerator

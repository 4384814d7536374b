// Channels between peers on one node, which rely on its coherent caches, and other channels.
#include "pool/members.hpp"
#include "transport/layout.hpp"
#include "transport/test_endpoints.hpp"

namespace penstock::transport {
namespace {

class IntraNodeTest : public TransportTest {
 protected:
  /// Reopens endpoint b on an emulated node of its own.
  void move_b_away() {
    b_.reset();
    side_b_.detach();
    pool::AttachOptions options;
    options.spec = spec_;
    options.rank = 1;
    options.job = "test";
    options.emulated_node = 3;
    side_b_.pool = std::move(*pool::Pool::attach(options));
    side_b_.arena = std::move(*arena::Arena::open(*side_b_.pool));
    b_ = open(side_b_, callbacks_b_);
    to_b_ = *a_->resolve(b_->address());
    to_a_ = *b_->resolve(a_->address());
  }
  /// The header of the only channel.
  std::byte* channel_at() const {
    for (const auto& object : side_a_.arena->list()) {
      if (!object.name.starts_with("penstock.tx.")) continue;
      ChannelHeader header;
      side_a_.pool->memory().observe_line(&header, object.data);
      if (header.magic == channel_magic) return object.data;
    }
    return nullptr;
  }
  ChannelHeader header() const {
    ChannelHeader found{};
    const std::byte* at = channel_at();
    EXPECT_NE(at, nullptr);
    if (at) side_a_.pool->memory().observe_line(&found, at);
    return found;
  }
  void claim_intra_node(std::uint32_t claim) const {
    ChannelHeader forged = header();
    forged.intra_node = claim;
    forged.checksum = checksum_of(forged);
    side_a_.pool->memory().publish_line(channel_at(), &forged);
    side_a_.pool->memory().store_fence();
  }
  void inject(std::uint64_t tag) { ASSERT_TRUE(*a_->try_inject(to_b_, {tag, 0, 0, 0}, nullptr)); }
};

TEST_P(IntraNodeTest, MarksChannelsWithinNode) {
  inject(1);
  EXPECT_EQ(header().intra_node, 1u);
  progress_until([&] { return callbacks_b_.arrived.size() == 1; });
}

TEST_P(IntraNodeTest, LeavesChannelsBetweenNodesUnmarked) {
  move_b_away();
  EXPECT_NE(side_a_.pool->node(), side_b_.pool->node());
  EXPECT_EQ(side_a_.pool->members().node_of(side_b_.pool->token()), side_b_.pool->node());
  inject(1);
  EXPECT_EQ(header().intra_node, 0u);
  progress_until([&] { return callbacks_b_.arrived.size() == 1; });
}

/// A receiver checks the sender's claim to be on its node.
TEST_P(IntraNodeTest, RefusesIntraNodeClaimFromAnotherNode) {
  move_b_away();
  inject(1);
  claim_intra_node(1);
  for (int i = 0; i < 1000; ++i) b_->progress();
  EXPECT_TRUE(callbacks_b_.arrived.empty());
  claim_intra_node(0);
  inject(2);
  progress_until([&] { return callbacks_b_.arrived.size() == 2; });
  EXPECT_EQ(callbacks_b_.arrived[0].header.tag, 1u);
}

INSTANTIATE_TEST_SUITE_P(Modes, IntraNodeTest,
                         testing::Values(coherence::Mode::hardware, coherence::Mode::software),
                         [](const auto& mode) { return std::string(mode_name(mode.param)); });

}  // namespace
}  // namespace penstock::transport

// Placement of channels in pools of several parts: 16 ranks on two nodes. Each rank talks with all
// others and sends long messages to some.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <map>

#include "base/format.hpp"
#include "transport/test_endpoints.hpp"

namespace penstock::transport {
namespace {

constexpr std::uint32_t ranks = 16, nodes = 2, a_node = ranks / nodes;

struct RankHere {
  std::uint32_t node = 0;
  Attachment at;
  Recorder callbacks;
  std::unique_ptr<Endpoint> endpoint;
};

class PlacementTest : public testing::TestWithParam<std::uint32_t> {
 protected:
  void SetUp() override {
    const std::string name = unique_spec();
    for (std::uint32_t part = 0; part < GetParam(); ++part)
      spec_ += fmt::format("{}{}-{}", part == 0 ? "" : ",", name, part);
    const auto made = pool::create({.spec = spec_, .bytes = GetParam() * (32ull << 20)});
    ASSERT_TRUE(made) << made.error().message;
  }
  void TearDown() override {
    for (int i = 0; i < 100'000 && !drained(); ++i) progress();
    for (auto& rank : here_) rank.endpoint.reset();
    for (auto& rank : here_) rank.at.detach();
    (void)pool::remove(spec_, true);
  }
  /// `blocks`: the first half of the ranks runs on the first node; otherwise every second rank.
  void begin(bool blocks) {
    for (std::uint32_t number = 0; number < ranks; ++number) {
      RankHere& rank = here_[number];
      rank.node = blocks ? number / a_node : number % nodes;
      const std::uint32_t seat = blocks ? number % a_node : number / nodes;
      auto pool = pool::Pool::attach({.spec = spec_,
                                      .rank = static_cast<std::int32_t>(number),
                                      .job = "test",
                                      .emulated_node = rank.node,
                                      .seat = seat});
      ASSERT_TRUE(pool) << pool.error().message;
      rank.at.pool = std::move(*pool);
      rank.at.arena = *arena::Arena::open(*rank.at.pool);
      rank.endpoint = *Endpoint::open(*rank.at.arena, rank.callbacks, {"test"});
    }
  }
  void send_all() {
    const std::array<std::uint32_t, 3> far = {1, 2, 5};
    std::uint64_t word = 1;
    for (std::uint32_t from = 0; from < ranks; ++from) {
      for (std::uint32_t by = 1; by < ranks; ++by) {
        const auto& to = *here_[(from + by) % ranks].endpoint;
        const Peer peer = *here_[from].endpoint->resolve(to.address());
        ASSERT_TRUE(here_[from].endpoint->try_inject(peer, {1, 2, sizeof word, 5}, &word));
        if (std::find(far.begin(), far.end(), by) == far.end()) continue;
        SendOp& op = *sends_.emplace_back(std::make_unique<SendOp>());
        op.header = {2, 2, payload_.size(), 5};
        op.iov[0] = {payload_.data(), payload_.size()};
        op.iov_count = 1;
        ASSERT_TRUE(here_[from].endpoint->send(peer, &op));
      }
    }
    const std::size_t wanted = ranks * (ranks - 1 + far.size());
    const std::uint64_t end = base::now_ns() + 60'000'000'000ull;
    while (arrived() < wanted) {
      progress();
      ASSERT_LT(base::now_ns(), end) << arrived() << " of " << wanted;
    }
  }
  /// Bytes of channels and cells, by node and part.
  std::map<std::uint32_t, std::vector<std::uint64_t>> bytes_by_part() {
    std::map<std::uint32_t, std::vector<std::uint64_t>> bytes;
    const auto& striping = here_[0].at.pool->info().striping;
    constexpr std::string_view prefix = "penstock.tx.";
    for (const auto& object : here_[0].at.arena->list()) {
      if (!object.name.starts_with(prefix)) continue;
      std::uint32_t slot = 0;
      std::from_chars(object.name.data() + prefix.size(), &*object.name.end(), slot);
      const auto owner = std::find_if(here_.begin(), here_.end(), [&](const RankHere& rank) {
        return rank.endpoint->address().slot == slot;
      });
      auto& parts = bytes[owner->node];
      parts.resize(striping.parts);
      const auto stripe = striping.stripe_of(object.offset);
      EXPECT_LE(object.offset + object.bytes, stripe.end) << object.name;
      parts[stripe.part] += object.bytes;
    }
    return bytes;
  }
  void expect_even() {
    for (const auto& [node, parts] : bytes_by_part()) {
      ASSERT_EQ(parts.size(), GetParam());
      const auto [least, most] = std::minmax_element(parts.begin(), parts.end());
      // 8 ranks on 3 parts: 3, 3 and 2
      const double uneven = static_cast<double>((a_node + GetParam() - 1) / GetParam()) /
                            static_cast<double>(a_node / GetParam());
      EXPECT_LE(static_cast<double>(*most), uneven * static_cast<double>(*least))
          << "node " << node;
    }
  }

 private:
  void progress() {
    for (auto& rank : here_)
      if (rank.endpoint) rank.endpoint->progress();
  }
  bool drained() const {
    return std::all_of(here_.begin(), here_.end(), [](const RankHere& rank) {
      return !rank.endpoint || rank.endpoint->drained();
    });
  }
  std::size_t arrived() const {
    std::size_t all = 0;
    for (const auto& rank : here_) all += rank.callbacks.arrived.size();
    return all;
  }

  std::string spec_;
  std::array<RankHere, ranks> here_;
  std::vector<std::byte> payload_ = std::vector<std::byte>(100'000);
  std::vector<std::unique_ptr<SendOp>> sends_;
};

TEST_P(PlacementTest, SpreadsRanksOfNodeOverParts) {
  begin(true);
  send_all();
  expect_even();
}

/// As by `--distribution=cyclic`. If only the rank decided, each node would use half of two parts.
TEST_P(PlacementTest, SpreadsCyclicRanksToo) {
  begin(false);
  send_all();
  expect_even();
}

INSTANTIATE_TEST_SUITE_P(Parts, PlacementTest, testing::Values(2u, 3u, 4u),
                         [](const auto& parts) { return std::to_string(parts.param); });

}  // namespace
}  // namespace penstock::transport

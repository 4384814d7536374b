// Guards against leaks by endpoints. Opens and closes thousands of them, and as many at once as a
// pool allows; one more is refused with an error that says what helps.
#include "crash_test_base.hpp"
#include "recorder.hpp"

namespace penstock::crash {
namespace {

class EndpointChurn : public CrashTest {};

TEST_F(EndpointChurn, FiveThousandTimesOnOnePool) {
  create(32 << 20);
  const Attached here = attach(spec_), there = attach(spec_);
  Recorder callbacks, other_callbacks;
  auto other = *transport::Endpoint::open(*there.arena, other_callbacks, {"churn"});
  const auto talk = [&](transport::Endpoint& endpoint) {
    const std::uint64_t tag = other_callbacks.arrived_from[endpoint.address().slot];
    const auto data = content(tag, 40);
    const auto peer = endpoint.resolve(other->address());
    ASSERT_TRUE(peer);
    ASSERT_TRUE(*endpoint.try_inject(*peer, {tag, 0, 40, 0}, data.data()));
    const std::uint64_t end = base::now_ns() + 20'000'000'000;
    while (!endpoint.drained()) {
      ASSERT_LT(base::now_ns(), end);
      other->progress();
      endpoint.progress();
    }
  };
  // Tiles and the first piece of the other table are never freed: make them before counting.
  talk(**transport::Endpoint::open(*here.arena, callbacks, {"churn"}));
  const auto before = here.arena->stats();
  std::set<std::uint32_t> slots;
  for (int round = 0; round < 5000; ++round) {
    auto endpoint = transport::Endpoint::open(*here.arena, callbacks, {"churn"});
    ASSERT_TRUE(endpoint) << "round " << round << ": " << endpoint.error().message;
    slots.insert((*endpoint)->address().slot);
    // Some endpoints send, which makes and frees a channel.
    if (round % 50 == 0) talk(**endpoint);
    if (HasFatalFailure()) return;
  }
  EXPECT_EQ(slots.size(), 1u) << "the slot serves again";
  EXPECT_EQ(other_callbacks.arrived, 101u);
  EXPECT_EQ(other_callbacks.damaged, 0u);
  EXPECT_THAT(other_callbacks.dead, testing::IsEmpty()) << "all left in order";
  const auto after = here.arena->stats();
  EXPECT_EQ(after.bytes_used, before.bytes_used);
  EXPECT_EQ(after.objects, before.objects);
}

/// 129 exceeds a mailbox line, 257 a byte; 1024 is the limit of one process.
TEST_F(EndpointChurn, AsManyAtOnceAsAPoolHas) {
  create(512 << 20, 1024);
  const Attached here = attach(spec_);
  const std::uint32_t processes = here.pool->info().max_processes;
  ASSERT_EQ(processes, 1024u);
  const std::uint32_t most = 1 + transport::endpoints_of_pool(processes) - processes;
  std::vector<Recorder> all_callbacks(most);
  std::vector<std::unique_ptr<transport::Endpoint>> all;
  for (std::uint32_t i = 0; i < most; ++i) {
    auto endpoint = transport::Endpoint::open(*here.arena, all_callbacks[i], {"many"});
    ASSERT_TRUE(endpoint) << "endpoint " << i << ": " << endpoint.error().message;
    all.push_back(std::move(*endpoint));
  }
  Recorder callbacks;
  const auto refused = transport::Endpoint::open(*here.arena, callbacks, {"many"});
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, ErrorCode::no_slots);
  EXPECT_THAT(refused.error().message, testing::HasSubstr("all 1024 endpoints that pool"));
  // All send to one: every word of its mailbox is rung.
  for (const std::uint32_t count : {129u, 257u, most}) {
    const std::uint64_t so_far = all_callbacks[0].arrived;
    for (std::uint32_t i = 1; i < count; ++i) {
      const auto peer = all[i]->resolve(all[0]->address());
      const std::uint64_t tag = all_callbacks[0].arrived_from[all[i]->address().slot];
      const auto data = content(tag, 24);
      const auto sent = all[i]->try_inject(*peer, {tag, 0, 24, 0}, data.data());
      ASSERT_TRUE(sent) << sent.error().message;
      EXPECT_TRUE(*sent);
    }
    const std::uint64_t end = base::now_ns() + 20'000'000'000;
    while (all_callbacks[0].arrived < so_far + count - 1) {
      ASSERT_LT(base::now_ns(), end) << all_callbacks[0].arrived - so_far << " of " << count - 1;
      all[0]->progress();
    }
  }
  EXPECT_EQ(all_callbacks[0].damaged, 0u);
  for (int i = 0; i < 200; ++i) all[0]->progress();  // returns all credits
}

}  // namespace
}  // namespace penstock::crash

#include <random>

#include "base/environment_guard.hpp"
#include "base/seed_in_tests.hpp"
#include "messages/matching_play.hpp"
#include "messages/test_messengers.hpp"

namespace penstock::messages {
namespace {

struct ByMessengers {
  using Request = messages::Request;
  void begin(const PlannedCall& call, std::byte* data, Request& request) {
    Messenger& of = *messengers[call.rank];
    call.is_send ? of.send(call.peer, call.tag, data, call.bytes, request)
                 : of.receive(call.peer, call.tag, data, call.bytes, request);
  }
  static PlayedEnd end_of(const Request& request) {
    return {request.done, request.done && !request.result, request.source, request.bytes};
  }
  void progress(std::uint32_t rank) { messengers[rank]->progress(); }
  std::vector<std::unique_ptr<Messenger>>& messengers;
};

class RandomMessages : public Messages {
 protected:
  void play_plans(std::uint32_t rounds) {
    std::mt19937_64 random(base::seed_in_tests());
    ByMessengers by{of_};
    for (const std::uint64_t tags : {1, 5}) {
      const MatchingPlan plan(random(), {.ranks = ranks, .rounds = rounds, .tags = tags});
      play(plan, ranks, by, random);
      if (HasFatalFailure()) return;
    }
  }
};

TEST_F(RandomMessages, GoWhereThePlanSays) {
  play_plans(150);
}

TEST_F(RandomMessages, GoThereWhenTheyAreAnnounced) {
  const base::EnvironmentGuard bound("PENSTOCK_UNEXPECTED_BYTES", "256K");
  TearDown();
  sides_.clear();
  SetUp();
  play_plans(60);
}

}  // namespace
}  // namespace penstock::messages

// The messages of a plan by penstock/messages.h, whose ranks are three attachments of one process.
#include <gtest/gtest.h>
#include <unistd.h>

#include <array>
#include <random>
#include <string>

#include "base/seed_in_tests.hpp"
#include "messages/matching_play.hpp"
#include "penstock/messages.h"

namespace penstock::messages {
namespace {

constexpr std::uint32_t ranks = 3;

struct ByC {
  using Request = penstock_request_t*;
  void begin(const PlannedCall& call, std::byte* data, Request& request) {
    penstock_messenger_t* const of = messengers[call.rank];
    const auto status =
        call.is_send
            ? penstock_message_send(of, call.peer, call.tag, data, call.bytes, &request)
            : penstock_message_receive(of, call.peer, call.tag, data, call.bytes, &request);
    ASSERT_EQ(status, PENSTOCK_OK) << penstock_last_error();
  }
  static PlayedEnd end_of(Request& request) {
    penstock_request_info_t info{};
    const auto status = penstock_request_test(request, &info);
    if (info.done != 0) penstock_request_free(request);
    return {info.done != 0, status != PENSTOCK_OK, info.source, info.bytes};
  }
  void progress(std::uint32_t rank) { penstock_messenger_progress(messengers[rank]); }
  std::array<penstock_messenger_t*, ranks> messengers{};
};

TEST(RandomMessagesOfC, GoWhereThePlanSays) {
  const std::string spec = "shm:penstock-capi-random-" + std::to_string(getpid());
  penstock_pool_options_t pool_options{};
  pool_options.struct_bytes = sizeof pool_options;
  pool_options.bytes = 64 << 20;
  ASSERT_EQ(penstock_pool_create(spec.c_str(), &pool_options), PENSTOCK_OK);
  std::array<penstock_pool_t*, ranks> pools{};
  std::array<penstock_address_t, ranks> addresses{};
  ByC by;
  for (std::uint32_t rank = 0; rank < ranks; ++rank) {
    ASSERT_EQ(penstock_pool_attach(spec.c_str(), nullptr, &pools[rank]), PENSTOCK_OK);
    penstock_messenger_options_t options{};
    options.struct_bytes = sizeof options;
    options.rank = rank;
    options.ranks = ranks;
    ASSERT_EQ(penstock_messenger_open(pools[rank], &options, &by.messengers[rank]), PENSTOCK_OK)
        << penstock_last_error();
    penstock_messenger_address(by.messengers[rank], &addresses[rank]);
  }
  std::mt19937_64 random(base::seed_in_tests());
  const MatchingPlan plan(base::seed_in_tests(), {.ranks = ranks, .rounds = 60});
  for (penstock_messenger_t* const messenger : by.messengers)
    for (std::uint32_t rank = 0; rank < ranks; ++rank)
      ASSERT_EQ(penstock_messenger_meet(messenger, rank, &addresses[rank]), PENSTOCK_OK);
  play(plan, ranks, by, random);
  EXPECT_EQ(penstock_messenger_expect(by.messengers[0], ranks, 1), PENSTOCK_INVALID_ARGUMENT);
  for (std::uint32_t rank = 0; rank < ranks; ++rank) by.progress(rank);
  for (penstock_messenger_t* const messenger : by.messengers) penstock_messenger_close(messenger);
  for (penstock_pool_t* const pool : pools) penstock_pool_detach(pool);
  EXPECT_EQ(penstock_pool_remove(spec.c_str(), 1), PENSTOCK_OK);
}

}  // namespace
}  // namespace penstock::messages

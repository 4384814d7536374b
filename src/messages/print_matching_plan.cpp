// print_matching_plan SEED RANKS ROUNDS TAGS ANY: for programs of several processes, a MatchingPlan
// whose receives have exactly the room that they need. ANY: 1 if some name no sender. A line for
// each call:
//
//   ROUND RANK IS_SEND PEER TAG BYTES NUMBER SENDER     PEER: -1 for any
#include <cstdint>
#include <cstdio>
#include <cstdlib>

#include "messages/matching_plan.hpp"

int main(int count, char** words) {
  using namespace penstock::messages;
  if (count != 6) return 2;
  const auto number = [words](int i) { return std::strtoull(words[i], nullptr, 0); };
  const MatchingPlan plan(number(1), {.ranks = static_cast<std::uint32_t>(number(2)),
                                      .rounds = static_cast<std::uint32_t>(number(3)),
                                      .tags = number(4),
                                      .any = number(5) != 0,
                                      .exact = true});
  std::size_t round = 0;
  for (const PlannedRound& calls : plan.rounds()) {
    for (const PlannedCall& call : calls)
      std::printf("%zu %u %d %d %ju %ju %ju %u\n", round, call.rank, call.is_send ? 1 : 0,
                  static_cast<int>(call.peer), std::uintmax_t{call.tag}, std::uintmax_t{call.bytes},
                  std::uintmax_t{call.number}, call.sender);
    ++round;
  }
  return 0;
}

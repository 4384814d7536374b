// Plays the calls of a MatchingPlan in one thread, by any interface that carries messages.
#pragma once

#include <gtest/gtest.h>

#include <deque>
#include <random>
#include <vector>

#include "base/clock.hpp"
#include "messages/matching_plan.hpp"

namespace penstock::messages {

/// How a send or receive has ended.
struct PlayedEnd {
  bool done = false, failed = false;
  std::uint32_t source = 0;
  std::uint64_t bytes = 0;  ///< of the message
};

/// `Ranks` has a type Request, which stays in place, and
///   void begin(const PlannedCall&, std::byte* data, Request&);
///   PlayedEnd end_of(Request&);
///   void progress(std::uint32_t rank);
template <class Ranks>
void play(const MatchingPlan& plan, std::uint32_t ranks, Ranks& by, std::mt19937_64& random) {
  struct Played {
    const PlannedCall& call;
    std::vector<std::byte> data;
    typename Ranks::Request request{};
  };
  for (const PlannedRound& round : plan.rounds()) {
    std::deque<Played> all;
    for (const std::size_t at : MatchingPlan::interleaved(round, random)) {
      const PlannedCall& call = round[at];
      Played& one = all.emplace_back(Played{call, std::vector<std::byte>(call.bytes)});
      for (std::uint64_t i = 0; call.is_send && i < call.bytes; ++i)
        one.data[i] = planned_byte(call.number, i);
      by.begin(call, one.data.data(), one.request);
      for (std::uint64_t polls = random() % 4; polls > 0; --polls)
        by.progress(static_cast<std::uint32_t>(random() % ranks));
    }
    const std::uint64_t limit = base::now_ns() + 20'000'000'000;
    for (Played& one : all) {
      const PlannedCall& call = one.call;
      PlayedEnd end;
      while (!(end = by.end_of(one.request)).done) {
        for (std::uint32_t rank = 0; rank < ranks; ++rank) by.progress(rank);
        ASSERT_LT(base::now_ns(), limit) << "a call of rank " << call.rank << " does not end";
      }
      const bool is_cut = !call.is_send && call.length > call.bytes;
      ASSERT_EQ(end.failed, is_cut) << "rank " << call.rank << ", message " << call.number;
      if (call.is_send) continue;
      ASSERT_EQ(end.source, call.sender);
      ASSERT_EQ(end.bytes, call.length);
      for (std::uint64_t i = 0; i < std::min(call.length, call.bytes); ++i)
        ASSERT_EQ(one.data[i], planned_byte(call.number, i))
            << "byte " << i << " of message " << call.number;
    }
  }
}

}  // namespace penstock::messages

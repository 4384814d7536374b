// Sends and receives of several ranks, drawn at random, and which message each receive must get.
// The plain matcher says which. Tests play them through each interface that carries messages.
#pragma once

#include <algorithm>
#include <cstddef>
#include <map>
#include <optional>
#include <random>
#include <utility>
#include <vector>

#include "messages/plain_matcher.hpp"

namespace penstock::messages {

struct PlannedCall {
  bool is_send;
  std::uint32_t rank;
  std::uint32_t peer;  ///< of a receive: or any_source
  std::uint64_t tag;
  std::uint64_t bytes;   ///< of the message, or the receive's room
  std::uint64_t number;  ///< of the message that is sent or must come, from 1
  std::uint32_t sender;  ///< of that message
  std::uint64_t length;  ///< ... and its bytes
};
/// Calls that all end, whatever the timing. Those of each rank are in its order.
using PlannedRound = std::vector<PlannedCall>;

/// A byte of a message.
constexpr std::byte planned_byte(std::uint64_t number, std::uint64_t at) {
  return static_cast<std::byte>(number * 31 + at * 7 + at / 251);
}

struct PlanOptions {
  std::uint32_t ranks = 3, rounds = 20;
  std::uint64_t tags = 5;
  bool any = true;     ///< some receives name no sender
  bool exact = false;  ///< receives have exactly the room that they need
};

class MatchingPlan {
 public:
  MatchingPlan(std::uint64_t seed, const PlanOptions& options) : options_(options), random_(seed) {
    for (std::uint32_t round = 0; round < options.rounds; ++round) rounds_.push_back(draw());
  }
  const std::vector<PlannedRound>& rounds() const { return rounds_; }

  /// The numbers of the messages that the plain matcher gives to the calls of a round, when the
  /// ranks make them in an order that is drawn here. 0 for sends.
  static std::vector<std::uint64_t> match(const PlannedRound& round, std::mt19937_64& random) {
    std::map<std::uint32_t, PlainMatcher> of;
    for (const std::size_t at : interleaved(round, random)) {
      const PlannedCall& call = round[at];
      if (call.is_send) {
        const Header header{call.tag, call.number, call.bytes, kind_tagged};
        of[call.peer].message({call.rank, header});
        continue;
      }
      ReceiveRequest request;
      request.tagged = true;
      request.source = call.peer;
      request.tag = call.tag;
      request.iov[0].iov_len = ~std::size_t{0};
      request.context = const_cast<PlannedCall*>(&call);  // NOLINT: it is only compared
      of[call.rank].post(request);
    }
    std::vector<std::uint64_t> numbers(round.size());
    for (const auto& [rank, matcher] : of)
      for (const Report& report : matcher.reports)
        numbers[static_cast<const PlannedCall*>(report.context) - round.data()] = report.message;
    return numbers;
  }
  /// The places of a round's calls in an order that keeps that of each rank.
  static std::vector<std::size_t> interleaved(const PlannedRound& round, std::mt19937_64& random) {
    std::map<std::uint32_t, std::vector<std::size_t>> left;  // by rank, the last call first
    for (std::size_t at = round.size(); at-- > 0;) left[round[at].rank].push_back(at);
    std::vector<std::size_t> order;
    while (!left.empty()) {
      const auto next =
          std::next(left.begin(), static_cast<std::ptrdiff_t>(random() % left.size()));
      order.push_back(next->second.back());
      next->second.pop_back();
      if (next->second.empty()) left.erase(next);
    }
    return order;
  }

 private:
  std::uint64_t below(std::uint64_t bound) { return random_() % bound; }
  std::uint64_t length() {
    static constexpr std::uint64_t lengths[] = {0,    1,     16,    56,    57,     500,
                                                4096, 16384, 20000, 65537, 300'000};
    return lengths[below(std::size(lengths))];
  }
  /// Timing cannot change who gets what, also if ranks are in different rounds: where a receive
  /// names no sender, all messages of its tag come from one.
  PlannedRound draw() {
    PlannedRound round;
    for (std::uint64_t left = 1 + below(8 * options_.ranks); left > 0; --left) {
      std::uint32_t from = static_cast<std::uint32_t>(below(options_.ranks));
      const auto to =
          static_cast<std::uint32_t>((from + 1 + below(options_.ranks - 1)) % options_.ranks);
      const std::uint64_t tag = below(options_.tags), bytes = length();
      const bool one_only = options_.any && below(2) == 0;
      const auto [found, made] = only_sender_.try_emplace({to, tag});
      if (made && one_only) found->second = from;
      if (found->second) from = *found->second;
      const bool names_none = found->second && below(2) == 0;
      round.push_back({true, from, to, tag, bytes, ++number_, from, bytes});
      round.push_back({false, to, names_none ? any_source : from, tag, 0, 0, 0, 0});
    }
    std::shuffle(round.begin(), round.end(), random_);
    std::map<std::uint64_t, const PlannedCall*> sent;
    for (const PlannedCall& call : round)
      if (call.is_send) sent[call.number] = &call;
    const std::vector<std::uint64_t> numbers = match(round, random_);
    for (std::size_t at = 0; at < round.size(); ++at) {
      PlannedCall& call = round[at];
      if (call.is_send) continue;
      const PlannedCall& message = *sent.at(numbers[at]);
      call.number = message.number;
      call.sender = message.rank;
      call.length = message.bytes;
      call.bytes = message.bytes;
      if (options_.exact) continue;
      call.bytes = below(8) == 0 ? message.bytes / 2 : message.bytes + below(100);
    }
    return round;
  }

  const PlanOptions options_;
  std::mt19937_64 random_;
  std::uint64_t number_ = 0;
  /// By receiver and tag: the only sender; nullopt: any rank may send, and receives name it.
  std::map<std::pair<std::uint32_t, std::uint64_t>, std::optional<std::uint32_t>> only_sender_;
  std::vector<PlannedRound> rounds_;
};

}  // namespace penstock::messages

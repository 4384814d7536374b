#include "pool/verdicts.hpp"

namespace penstock::pool {

std::optional<std::uint64_t> VerdictTable::place(std::uint64_t token) const {
  const std::uint64_t number = is_attaching(token) ? attaching_number_of(token) : slot_of(token);
  if (number >= (is_attaching(token) ? attaching_ : slots_)) return std::nullopt;
  const std::uint64_t line = is_attaching(token) ? slots_ + number : number;
  const std::uint64_t word = generation_of(token) % VerdictLine::generations;
  return offset_ + line * sizeof(VerdictLine) + word * sizeof(std::uint64_t);
}

void VerdictTable::publish(std::uint64_t token, std::uint64_t judge) const {
  const auto at = place(token);
  if (!at) return;
  memory_.publish_word(base_ + *at, make_token(generation_of(token), slot_of(judge)));
  memory_.full_fence();
}

std::optional<std::uint64_t> VerdictTable::judge_of(std::uint64_t token) const {
  const auto at = place(token);
  if (!at) return std::nullopt;
  const std::uint64_t verdict = memory_.observe_word(base_ + *at);
  if (verdict == 0 || generation_of(verdict) != generation_of(token)) return std::nullopt;
  return slot_of(verdict);
}

}  // namespace penstock::pool

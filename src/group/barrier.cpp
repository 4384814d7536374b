// Each rank alone writes one line:
//
//   | 0: come | 1: gathered | 2..6: steps 0 to 4 among leaders | 7: released |
//
// Each word is the number of the last barrier in which the rank has come so far, so it only grows,
// and each word is valid by itself. A rank announces others only after it has seen them, and their
// earlier publishes were at the device before they announced themselves. So a rank that learns of
// an announcement, through however many ranks, observes all that was published before it.
// before it.
#include "group/barrier.hpp"

#include <algorithm>
#include <map>
#include <utility>

#include "group/lives.hpp"

namespace penstock::group {

namespace {

/// Lines that the text of a wait reads twice a second: other waiting ranks read too.
constexpr std::size_t named_at_once = 512;

std::uint64_t power(std::uint64_t base, std::uint32_t exponent) {
  std::uint64_t product = 1;
  for (; exponent != 0; --exponent) product *= base;
  return product;
}

}  // namespace

Barrier::Barrier(Group& group, LineOf line_of, BarrierForm form)
    : group_(group), line_of_(std::move(line_of)) {
  plan(form);
}

/// In the flat form each rank is a leader, and one step is enough.
void Barrier::plan(const BarrierForm& form) {
  const std::uint32_t ranks = group_.ranks();
  flat_ = ranks <= form.flat_up_to;
  std::map<std::uint32_t, std::vector<std::uint32_t>> nodes;  // by leader's rank
  std::map<std::uint32_t, std::uint32_t> leader_of;           // by node
  std::vector<std::uint32_t> leaders;
  for (std::uint32_t rank = 0; rank < ranks; ++rank) {
    const std::uint32_t leader =
        flat_ ? rank : leader_of.emplace(group_.node(rank), rank).first->second;
    if (leader == rank) leaders.push_back(rank);
    nodes[leader].push_back(rank);
  }
  const auto count = static_cast<std::uint32_t>(leaders.size());
  std::uint32_t fan_in = flat_ ? std::max(form.fan_in, count) : form.fan_in;
  while (power(fan_in, step_limit) < count) ++fan_in;
  std::uint32_t steps = 0;
  while (power(fan_in, steps) < count) ++steps;
  std::uint32_t radix = 2;
  while (power(radix, steps) < count) ++radix;

  last_word_.assign(ranks, gathered);
  for (const std::uint32_t leader : leaders) {
    last_word_[leader] = static_cast<std::uint8_t>(nodes[leader].size() > 1 ? released
                                                   : steps != 0             ? first_step + steps - 1
                                                                            : gathered);
  }
  const std::uint32_t own_leader = flat_ ? group_.self() : leader_of[group_.node(group_.self())];
  const std::vector<std::uint32_t>& mates = nodes[own_leader];
  const auto place = [](const std::vector<std::uint32_t>& list, std::uint32_t rank) {
    return static_cast<std::uint32_t>(std::find(list.begin(), list.end(), rank) - list.begin());
  };
  plan_gathering(mates, place(mates, group_.self()), fan_in);
  if (own_leader != group_.self()) {
    rounds_.push_back({.awaited = {own_leader}, .word = released, .in_node = true, .signals = {}});
    return;
  }
  plan_steps(leaders, place(leaders, group_.self()), steps, radix);
  if (mates.size() > 1) rounds_.back().signals.push_back(released);
}

/// A heap of the node's ranks: the parent of place p is at (p - 1) / fan_in.
void Barrier::plan_gathering(const std::vector<std::uint32_t>& mates, std::uint32_t place,
                             std::uint32_t fan_in) {
  Missing below;
  for (std::uint64_t at = std::uint64_t{fan_in} * place + 1;
       at <= std::uint64_t{fan_in} * place + fan_in && at < mates.size(); ++at)
    below.push_back(mates[at]);
  arrival_ = {arrived};
  if (below.empty()) {
    arrival_.push_back(gathered);
  } else {
    rounds_.push_back(
        {.awaited = std::move(below), .word = gathered, .in_node = true, .signals = {gathered}});
  }
}

/// Before step s a leader knows of `radix`^s leaders: itself and those before it in a ring. In the
/// step it learns what others know, and it tells the others what it knows before it waits.
void Barrier::plan_steps(const std::vector<std::uint32_t>& leaders, std::uint32_t place,
                         std::uint32_t steps, std::uint32_t radix) {
  std::uint64_t known = 1;
  for (std::uint32_t step = 0; step < steps; ++step, known *= radix) {
    (rounds_.empty() ? arrival_ : rounds_.back().signals).push_back(first_step + step);
    Round round{.awaited = {}, .word = first_step + step, .in_node = false, .signals = {}};
    for (std::uint64_t far = known; far < known * radix && far < leaders.size(); far += known)
      round.awaited.push_back(leaders[(place + leaders.size() - far) % leaders.size()]);
    std::sort(round.awaited.begin(), round.awaited.end());
    rounds_.push_back(std::move(round));
  }
}

void Barrier::signal(const std::vector<std::uint32_t>& words) {
  for (const std::uint32_t word : words) words_[word] = number_ + 1;
  group_.memory.send_line(line_of_(group_.self()), words_);
  group_.memory.store_fence();  // pairs with look(): the line leaves the store buffer
}

void Barrier::arrive() {
  group_.memory.store_fence();  // publishes before the barrier reach the device before the arrival
  signal(arrival_);
}

/// One batch of invalidations; none within the node, whose caches are coherent.
void Barrier::look() {
  const Round& round = rounds_[round_];
  if (!in_round_) missing_ = round.awaited;
  in_round_ = true;
  const auto memory = round.in_node ? group_.memory.intra_node() : group_.memory;
  for (const std::uint32_t rank : missing_)
    memory.invalidate(line_of_(rank), coherence::line_bytes);
  memory.load_fence();
  std::erase_if(missing_, [&](std::uint32_t rank) {
    return reached(memory.load_word(line_of_(rank) + 8 * round.word));
  });
}

void Barrier::end_round() {
  if (!rounds_[round_].signals.empty()) signal(rounds_[round_].signals);
  ++round_;
  in_round_ = false;
}

void Barrier::pass_on() {
  while (!over() && !waiting_) {
    look();
    if (!missing_.empty()) return;
    end_round();
  }
}

Result<void> Barrier::await_others(const char* what) {
  while (!over()) {
    if (!in_round_) missing_ = rounds_[round_].awaited;
    in_round_ = true;
    // In the flat form a rank polls all ranks that it waits for.
    waiting_ = true;
    auto all = group_.wait(
        what, missing_, [this] { look(); }, flat_ ? nullptr : this);
    waiting_ = false;
    if (!all) return all;
    end_round();
  }
  ++number_;
  round_ = 0;
  return {};
}

/// A polled rank may only pass on what another has yet to do.
Missing Barrier::some(bool to_name) {
  if (behind_of_ != number_) {
    behind_of_ = number_;
    behind_.clear();
    for (const std::uint32_t rank : group_.others()) behind_.push_back({rank, false});
  }
  const std::size_t looked_at = drop_those_through(to_name ? named_at_once : lives_at_once);
  Missing found, absent;
  for (std::size_t i = 0; i < (to_name ? behind_.size() : looked_at); ++i) {
    found.push_back(behind_[i].rank);
    if (!behind_[i].has_arrived) absent.push_back(behind_[i].rank);
  }
  // The next look polls other ranks.
  std::rotate(behind_.begin(), behind_.begin() + static_cast<std::ptrdiff_t>(looked_at),
              behind_.end());
  if (!to_name) return found;
  Missing& named = absent.empty() ? found : absent;
  std::sort(named.begin(), named.end());
  return named;
}

bool Barrier::is_still(std::uint32_t rank) {
  return !reached(group_.memory.observe_word(line_of_(rank) + 8 * last_word_[rank]));
}

/// Looks at the first `most` of behind_, and returns how many of them remain.
std::size_t Barrier::drop_those_through(std::size_t most) {
  const auto end = behind_.begin() + static_cast<std::ptrdiff_t>(std::min(most, behind_.size()));
  for (auto at = behind_.begin(); at != end; ++at)
    group_.memory.invalidate(line_of_(at->rank), coherence::line_bytes);
  group_.memory.load_fence();
  const auto remain = std::remove_if(behind_.begin(), end, [this](Behind& each) {
    const std::byte* const line = line_of_(each.rank);
    each.has_arrived = reached(group_.memory.load_word(line + 8 * arrived));
    return reached(group_.memory.load_word(line + 8 * last_word_[each.rank]));
  });
  const auto count = static_cast<std::size_t>(remain - behind_.begin());
  behind_.erase(remain, end);
  return count;
}

}  // namespace penstock::group

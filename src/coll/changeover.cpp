#include "coll/changeover.hpp"

#include <algorithm>

namespace penstock::coll {

namespace {

/// A vote is `crossing << 2 | vote`, so that it only grows.
constexpr unsigned vote_bits = 2;

}  // namespace

void Changeover::publish_offer() {
  s_.group.memory.publish_word(s_.at(s_.layout.change_offer(s_.self())), first_);
}

void Changeover::offer(std::uint64_t first) {
  first_ = first;
  publish_offer();
  s_.group.memory.store_fence();
}

void Changeover::publish(std::uint64_t crossing, Vote vote) {
  s_.group.memory.publish_word(s_.at(s_.layout.change_vote(s_.self())),
                               crossing << vote_bits | static_cast<std::uint64_t>(vote));
}

void Changeover::invalidate_all() const {
  for (std::uint32_t rank = 0; rank < s_.group.ranks(); ++rank)
    s_.memory_of(rank).invalidate(s_.at(s_.layout.change_offer(rank)), line_bytes);
  s_.memory_of_all().load_fence();
}

/// Do all others vote at this crossing? Who has not said so goes the old way here.
bool Changeover::all_vote(std::uint64_t crossing) const {
  invalidate_all();
  for (std::uint32_t rank = 0; rank < s_.group.ranks(); ++rank) {
    const std::uint64_t first = s_.memory_of(rank).load_word(s_.at(s_.layout.change_offer(rank)));
    if (rank != s_.self() && (first == 0 || first > crossing)) return false;
  }
  return true;
}

/// A vote of one that has died counts for nothing: it may arrive when others have changed already.
bool Changeover::counts(std::uint32_t rank) {
  if (std::find(dead_.begin(), dead_.end(), rank) != dead_.end()) return false;
  if (!s_.group.pool.declared_dead(s_.group.token(rank))) return true;
  dead_.push_back(rank);
  return false;
}

/// False: one of them does not change. `missing`: those that are still deciding. Who has not come
/// yet will find what this rank finds.
bool Changeover::look_at_votes(std::uint64_t crossing, Missing& missing) {
  const std::size_t dead = dead_.size();
  invalidate_all();
  missing.clear();
  bool none_against = true;
  for (std::uint32_t rank = 0; rank < s_.group.ranks(); ++rank) {
    if (rank == s_.self()) continue;
    const std::uint64_t word = s_.memory_of(rank).load_word(s_.at(s_.layout.change_vote(rank)));
    const std::uint64_t at = word >> vote_bits;
    const auto vote = static_cast<Vote>(word & ((1u << vote_bits) - 1));
    const bool against = at > crossing || (at == crossing && vote == Vote::no);
    const bool deciding = at == crossing && vote == Vote::undecided;
    if ((!against && !deciding) || !counts(rank)) continue;
    if (deciding) missing.push_back(rank);
    if (against) none_against = false;
  }
  // Who followed the dead while they were not yet declared dead shows in a look after that.
  if (dead_.size() != dead) return look_at_votes(crossing, missing);
  if (!none_against) missing.clear();
  return none_against;
}

bool Changeover::all_change(const char* what, std::uint64_t crossing) {
  publish_offer();  // a stranger may have overwritten it
  publish(crossing, Vote::undecided);
  // Who finds later what this rank does not find yet must see that it is deciding.
  s_.group.memory.full_fence();
  Missing missing;
  // First whether all vote, then how: who was against has begun to decide before all had said that
  // they vote, and so before this second look.
  bool changes = all_vote(crossing) && look_at_votes(crossing, missing);
  publish(crossing, changes ? Vote::yes : Vote::no);
  s_.group.memory.store_fence();
  if (!changes || missing.empty()) return changes;
  // A rank that dies undecided has told nobody of a "no", and who waits for it may change: the new
  // way names the dead.
  const auto look = [&] { changes = look_at_votes(crossing, missing); };
  while (!s_.group.wait(what, missing, look)) {
    for (const std::uint32_t rank : missing) {
      if (!s_.group.alive(rank)) dead_.push_back(rank);
    }
  }
  return changes;
}

}  // namespace penstock::coll

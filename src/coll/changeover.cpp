#include "coll/changeover.hpp"

#include <algorithm>

#include "pool/members.hpp"

namespace penstock::coll {

namespace {

/// A vote is `crossing << 2 | vote`, so a rank's word only grows.
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

/// Whether all others vote at this crossing. A rank that has not offered to change keeps its old
/// path here.
bool Changeover::all_vote(std::uint64_t crossing) const {
  invalidate_all();
  for (std::uint32_t rank = 0; rank < s_.group.ranks(); ++rank) {
    const std::uint64_t first = s_.memory_of(rank).load_word(s_.at(s_.layout.change_offer(rank)));
    if (rank != s_.self() && (first == 0 || first > crossing)) return false;
  }
  return true;
}

/// False for a rank declared dead: its vote may arrive after others have already changed.
bool Changeover::counts(std::uint32_t rank) {
  if (std::find(dead_.begin(), dead_.end(), rank) != dead_.end()) return false;
  if (!s_.group.pool.members().declared_dead(s_.group.token(rank))) return true;
  dead_.push_back(rank);
  return false;
}

/// Returns false if any rank votes no. `missing`: the ranks that are undecided. Ranks that arrive
/// later will see the same votes.
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
  // A rank may have followed a vote of one not yet declared dead. The next look sees that rank's
  // vote.
  if (dead_.size() != dead) return look_at_votes(crossing, missing);
  if (!none_against) missing.clear();
  return none_against;
}

bool Changeover::all_change(const char* what, std::uint64_t crossing) {
  publish_offer();  // restores it if foreign stores have overwritten it
  publish(crossing, Vote::undecided);
  // A rank that sees an offer this rank does not see yet must also see that this rank is deciding.
  s_.group.memory.full_fence();
  Missing missing;
  // Check first whether all ranks vote, and then their votes. A rank that voted no began to decide
  // before all had offered to vote, so the second look sees it.
  bool changes = all_vote(crossing) && look_at_votes(crossing, missing);
  publish(crossing, changes ? Vote::yes : Vote::no);
  s_.group.memory.store_fence();
  if (!changes || missing.empty()) return changes;
  // A rank that dies undecided has published no "no", so ranks that wait for it may change. The new
  // path then reports its death.
  const auto look = [&] { changes = look_at_votes(crossing, missing); };
  while (!s_.group.wait(what, missing, look)) {
    for (const std::uint32_t rank : missing) {
      if (!s_.group.alive(rank)) dead_.push_back(rank);
    }
  }
  return changes;
}

}  // namespace penstock::coll

#include "coll/changeover.hpp"

#include <algorithm>

namespace penstock::coll {

namespace {

/// A vote is `crossing << 2 | vote`, so that it only grows.
constexpr unsigned vote_bits = 2;

}  // namespace

void Changeover::offer(std::uint64_t first) {
  s_.group.memory.publish_word(s_.at(s_.layout.change_offer(s_.self())), first);
  s_.group.memory.store_fence();
}

void Changeover::publish(std::uint64_t crossing, Vote vote) {
  s_.group.memory.publish_word(s_.at(s_.layout.change_vote(s_.self())),
                               crossing << vote_bits | static_cast<std::uint64_t>(vote));
}

/// Its line was just invalidated.
Changeover::Look Changeover::look_at(std::uint32_t rank, std::uint64_t crossing) const {
  const auto& memory = s_.memory_of(rank);
  const std::uint64_t first = memory.load_word(s_.at(s_.layout.change_offer(rank)));
  if (first == 0 || first > crossing) return Look::no;  // it goes the old way here
  const std::uint64_t vote = memory.load_word(s_.at(s_.layout.change_vote(rank)));
  const std::uint64_t at = vote >> vote_bits;
  // Who is further has not changed here. Who has not come yet will find what this rank finds.
  if (at != crossing) return at > crossing ? Look::no : Look::yes;
  switch (static_cast<Vote>(vote & ((1u << vote_bits) - 1))) {
    case Vote::undecided:
      return Look::wait;
    case Vote::yes:
      return Look::yes;
    default:
      return Look::no;
  }
}

/// `missing`: those that are still deciding.
Changeover::Look Changeover::look_at_all(std::uint64_t crossing, Missing& missing) const {
  for (std::uint32_t rank = 0; rank < s_.group.ranks(); ++rank)
    s_.memory_of(rank).invalidate(s_.at(s_.layout.change_offer(rank)), line_bytes);
  s_.memory_of_all().load_fence();
  missing.clear();
  for (std::uint32_t rank = 0; rank < s_.group.ranks(); ++rank) {
    if (rank == s_.self()) continue;
    const Look found = look_at(rank, crossing);
    if (found == Look::no) return Look::no;
    if (found == Look::wait) missing.push_back(rank);
  }
  return missing.empty() ? Look::yes : Look::wait;
}

bool Changeover::all_change(const char* what, std::uint64_t crossing) {
  publish(crossing, Vote::undecided);
  // The others see that this rank is deciding, or this rank sees what they have found.
  s_.group.memory.full_fence();
  Missing missing;
  Look found = look_at_all(crossing, missing);
  publish(crossing, found == Look::no ? Vote::no : Vote::yes);
  s_.group.memory.store_fence();
  if (found != Look::wait) return found == Look::yes;
  // A rank that dies undecided has told nobody of a "no", and who waits for it may change: the new
  // way names the dead.
  Missing dead;
  const auto look = [&] {
    found = look_at_all(crossing, missing);
    if (found == Look::no) missing.clear();
    std::erase_if(missing, [&](std::uint32_t rank) {
      return std::find(dead.begin(), dead.end(), rank) != dead.end();
    });
  };
  while (!s_.group.wait(what, missing, look)) {
    for (const std::uint32_t rank : missing) {
      if (!s_.group.alive(rank)) dead.push_back(rank);
    }
  }
  return found != Look::no;
}

}  // namespace penstock::coll

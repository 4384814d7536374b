// A rank publishes that it leaves, and then reads which ranks have left and who owns the memory
// (with a full_fence between the two). If the owner has not left, this rank does nothing: the owner
// will do the same later, and see that this rank has left. Otherwise this rank looks again under
// the pool's lock, and passes the memory to an heir that has not left at that look. So the heir
// reads the owner later, finds itself or a rank that has left, and takes the lock before it
// detaches. Hence the owner is always attached, and its memory is never reclaimed as a dead
// process's.
#include "coll/ending.hpp"

#include <algorithm>
#include <optional>

#include "base/log.hpp"
#include "coll/agreement.hpp"

namespace penstock::coll {

namespace {

class Ending {
 public:
  Ending(arena::Arena& arena, Communicator& communicator, const std::vector<std::uint64_t>& tokens)
      : arena_(arena), communicator_(communicator), tokens_(tokens) {}

  bool belongs_to_one_who_remains(std::uint64_t owner) {
    const auto& remaining = communicator_.remaining();
    return std::any_of(remaining.begin(), remaining.end(),
                       [&](std::uint32_t rank) { return tokens_[rank] == owner; });
  }

  /// Call this under the pool's lock, before the words are freed.
  std::uint64_t heir(std::uint64_t owner) {
    if (belongs_to_one_who_remains(owner)) return owner;
    const auto& remaining = communicator_.remaining();
    if (remaining.empty()) {
      difference_ = communicator_.difference_of_last();
      return 0;
    }
    const auto living = std::find_if(remaining.begin(), remaining.end(), [&](std::uint32_t rank) {
      return arena_.pool().alive(tokens_[rank]);
    });
    if (living != remaining.end()) return tokens_[*living];
    outlives_others_ = owner == arena_.pool().token();
    return owner;
  }

  /// The memory stays with this rank: the others have died or have gone without leaving.
  bool outlives_others() const { return outlives_others_; }
  const std::optional<Error>& difference() const { return difference_; }

 private:
  arena::Arena& arena_;
  Communicator& communicator_;
  const std::vector<std::uint64_t>& tokens_;
  bool outlives_others_ = false;
  std::optional<Error> difference_;
};

/// Adds the slots that were allocated late. Rank 0 has left, or is this rank, so it allocates no
/// more.
std::vector<arena::Object> with_late_slots(const arena::Arena& arena,
                                           const Communicator& communicator,
                                           std::vector<arena::Object> areas) {
  if (!communicator.shape().late_slots) return areas;
  const auto taken = communicator.taken_slots();
  // If the words are freed already, another communicator may have published its slots there.
  if (!taken || !arena.stands(areas.front())) return areas;
  if (const auto slots = find_area(arena, taken->area)) areas.push_back(*slots);
  return areas;
}

}  // namespace

void end(arena::Arena& arena, Communicator& communicator, const std::vector<std::uint64_t>& tokens,
         const std::vector<arena::Object>& made) {
  communicator.leave();
  Ending ending(arena, communicator, tokens);
  const std::uint64_t owner = arena.owner(made.front());
  if (owner == 0 || ending.belongs_to_one_who_remains(owner)) return;
  const auto areas = with_late_slots(arena, communicator, made);
  const auto destroyed = arena.pass_on(areas, [&](std::uint64_t of) { return ending.heir(of); });
  if (!destroyed || ending.outlives_others())
    for (const auto& area : areas) arena.defer_reclaim(area);
  if (destroyed && *destroyed && ending.difference())
    base::log(base::Level::error, "{}", ending.difference()->message);
}

}  // namespace penstock::coll

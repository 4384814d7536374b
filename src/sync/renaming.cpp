// A row of splitters (Moir and Anderson) whose numbers can be used again. Door k is two lines of
// one word each:
//
//   line 2k:   | X: id of the last to enter |
//   line 2k+1: | Y: id of one that shut the door, 0 while it is open |
//
// Several nodes write X and Y, which rule 1 (one writer a line) forbids for data. Here each is a
// single word in a line of its own, written by partial stores that never make the line dirty, and
// the algorithm is made for registers that any process may overwrite.
//
//   enter:  X := id;  if Y != 0: another door;  Y := id;  if X = id: through, else another door
//
// Two contenders cannot both get through while the door is not opened: each would have found X to
// be its own after it shut the door, so the later writer of X wrote it after the other's check,
// hence after the door was shut, and turned away. A contender that is alone always gets through.
// Contenders that meet at a door may all turn away, and then it stays shut; so each goes on to an
// open door chosen at random.
//
// A holder that leaves shuts the door once more and announces outside that `id` has left. A process
// that sees this, and the same id in Y, opens the door: no contender is on the way through it then.
// For one that had got through as well would have written Y before the holder's last look at X, and
// read X afterwards; and one that read an open door long ago, and has not shut it yet, will find
// another id in X.
//
// The argument needs each write to be visible before the read after it (store -> load), hence
// `full_fence`.
#include "base/checksum.hpp"
#include "base/format.hpp"
#include "sync/sync.hpp"

namespace penstock::sync {

bool Renaming::enter(std::uint32_t number, std::uint64_t id) const {
  memory_.publish_word(x_of(number), id);
  memory_.full_fence();
  if (memory_.observe_word(y_of(number)) != 0) return false;
  memory_.publish_word(y_of(number), id);
  memory_.full_fence();
  return memory_.observe_word(x_of(number)) == id;
}

Result<std::uint32_t> Renaming::claim(std::uint64_t id) const {
  if (id == 0) return fail(ErrorCode::invalid_argument, "renaming: id 0 is not an id");
  for (std::uint64_t attempt = 0;; ++attempt) {
    std::vector<std::uint32_t> open;
    const std::vector<std::uint64_t> by = shut_by();
    for (std::uint32_t number = 0; number < doors_; ++number) {
      if (by[number] == 0) open.push_back(number);
    }
    if (open.empty()) {
      return fail(ErrorCode::no_slots, "renaming: all {} doors are shut", doors_);
    }
    const std::uint32_t number = open[base::xxh64(&id, sizeof id, attempt) % open.size()];
    if (enter(number, id)) return number;
  }
}

std::vector<std::uint64_t> Renaming::shut_by() const {
  std::vector<std::uint64_t> by(doors_);
  for (std::uint32_t number = 0; number < doors_; ++number)
    memory_.invalidate(y_of(number), sizeof(std::uint64_t));
  memory_.load_fence();
  for (std::uint32_t number = 0; number < doors_; ++number)
    by[number] = memory_.load_word(y_of(number));
  return by;
}

void Renaming::leave(std::uint32_t number, std::uint64_t id) const {
  memory_.publish_word(y_of(number), id);  // another that met the holder may have written it since
  memory_.store_fence();
}

void Renaming::open(std::uint32_t number) const {
  memory_.publish_word(y_of(number), 0);  // ordered before the release of the lock that excludes
                                          // other openers
}

}  // namespace penstock::sync

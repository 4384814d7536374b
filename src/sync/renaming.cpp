// Moir and Anderson's grid of splitters. Splitter (r, c), r + c < rows, is two lines of one word
// each, numbered along the diagonals:
//
//   line 2k:   | X: id of the last to enter |         k = (r+c)(r+c+1)/2 + r
//   line 2k+1: | Y: id of one that shut the door, 0 while it is open |
//
// Several nodes write X and Y, which rule 1 (one writer a line) forbids for data. Here each is a
// single word in a line of its own, written by partial stores that never make the line dirty, and
// the algorithm is made for registers that any process may overwrite.
//
//   enter:  X := id;  if Y != 0: go right;  Y := id;  if X = id: stop here, else go down
//
// Of n processes that enter a splitter, at most one stops, at most n-1 go right (the first to read
// Y finds it open) and at most n-1 go down (the last to write X finds its own id there). Two cannot
// both stop: each would have found X to be its own after it shut the door, so the later writer of X
// wrote it after the other's check, hence after the door was shut, and went right. So every step
// away from the start loses one rival: of k <= rows contenders each stops on one of the first k
// diagonals, and gets a number below k(k+1)/2.
//
// The argument needs each write to be visible before the read after it (store -> load), hence
// `full_fence`.
#include "base/format.hpp"
#include "sync/sync.hpp"

namespace penstock::sync {

Result<std::uint32_t> Renaming::claim(std::uint64_t id) {
  if (id == 0) return fail(ErrorCode::invalid_argument, "renaming: id 0 is not an id");
  std::uint32_t row = 0, column = 0;
  while (row + column < rows_) {
    const std::uint32_t diagonal = row + column;
    const std::uint32_t number = diagonal * (diagonal + 1) / 2 + row;
    std::byte* x = grid_ + 128ull * number;
    std::byte* y = x + coherence::line_bytes;

    memory_.publish_word(x, id);
    memory_.full_fence();
    if (memory_.observe_word(y) != 0) {
      ++column;
      continue;
    }
    memory_.publish_word(y, id);
    memory_.full_fence();
    if (memory_.observe_word(x) == id) return number;
    ++row;
  }
  return fail(ErrorCode::no_slots, "renaming: more than {} contenders have claimed a number",
              rows_);
}

}  // namespace penstock::sync

// Finds pairs of ranks of which one sends another size than the other expects. Before a call in
// which ranks name their own sizes, every rank tells each other rank how much it sends to it and
// expects from it. Then all ranks learn the first pair that differs, so that all fail with the same
// message. Used only on request: it costs two short collectives.
#pragma once

#include <cstddef>
#include <vector>

#include "schedule/problem.hpp"

namespace penstock::coll {

class SizeCheck {
 public:
  SizeCheck(std::uint32_t ranks, std::uint32_t self) : ranks_(ranks), self_(self) {}

  /// Whether calls of this collective are checked; the same on all ranks.
  static bool concerns(Collective collective);

  /// The first and the second collective to run. Their buffers are input() and output().
  const Problem& exchange(const Problem& call);
  const Problem& find();
  const std::byte* input() const { return input_.data(); }
  std::byte* output() { return output_.data(); }
  /// True after exchange(), until the second collective is done.
  bool has_exchanged() const { return problem_.collective == Collective::alltoall; }
  /// Call this after the second collective. Errors, the same on all ranks: mismatch, which names
  /// two ranks and both sizes.
  Result<void> verdict(const char* what) const;

 private:
  /// The sizes of a pair of ranks.
  struct Sizes {
    std::uint64_t sent = 0, expected = 0;
  };
  /// A pair that differs, if any.
  struct Finding {
    std::uint64_t differs = 0, sender = 0, receiver = 0;
    Sizes sizes;
  };
  template <class Element>
  void make(Collective collective);
  Finding first_difference() const;

  std::uint32_t ranks_, self_;
  Problem problem_;
  std::vector<Sizes> own_;  ///< by rank: the bytes that this rank sends to it and expects from it
  std::vector<std::byte> input_, output_;
};

}  // namespace penstock::coll

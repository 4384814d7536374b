// Finds ranks that send each other other sizes than they expect. Before a call in which each rank
// names sizes of its own, every rank tells every other what it sends it and what it expects of it;
// then all hear of the first pair that differs, so that all fail with the same words. Only where it
// is asked for: two short collectives more.
#pragma once

#include <cstddef>
#include <vector>

#include "coll/problem.hpp"

namespace penstock::coll {

class SizeCheck {
 public:
  SizeCheck(std::uint32_t ranks, std::uint32_t self) : ranks_(ranks), self_(self) {}

  /// The same on all ranks of a call.
  static bool concerns(Collective collective);

  /// The first collective, then the second one. Its buffers are input() and output().
  const Problem& tell(const Problem& call);
  const Problem& find();
  const std::byte* input() const { return input_.data(); }
  std::byte* output() { return output_.data(); }
  /// After tell() the second one is still to be done.
  bool has_told() const { return problem_.collective == Collective::alltoall; }
  /// After the second one. Errors, the same on all ranks: mismatch, which names two ranks and both
  /// sizes.
  Result<void> verdict(const char* what) const;

 private:
  /// Of a pair of ranks.
  struct Sizes {
    std::uint64_t sent = 0, expected = 0;
  };
  /// A pair that differs, if there is one.
  struct Finding {
    std::uint64_t differs = 0, sender = 0, receiver = 0;
    Sizes sizes;
  };
  template <class Element>
  void make(Collective collective);
  Finding first_difference() const;

  std::uint32_t ranks_, self_;
  Problem problem_;
  std::vector<Sizes> own_;  ///< by rank: what this one sends it, and expects of it
  std::vector<std::byte> input_, output_;
};

}  // namespace penstock::coll

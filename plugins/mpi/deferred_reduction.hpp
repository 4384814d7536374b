// A reduction by the MPI in a nonblocking call. Driving the queue only moves the operands. They are
// reduced later, in the program's call that completes the request. So no other thread calls the MPI
// or a function of the user, and no rank waits for another rank's reduction: ranks exchange inputs,
// not partial results.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "schedule/arithmetic.hpp"
#include "schedule/problem.hpp"

namespace penstock::mpi {

/// The operands of one call, which may be persistent.
///
///     if (DeferredReduction::fits(sum)) reduction.emplace(sum);
///     ... a call of reduction->movement(), into reduction->operands() ...
///     reduction->reduce(arithmetic, output);
class DeferredReduction {
 public:
  /// True if the operands fit in a rank's memory, at most 64 MB. The same on all ranks.
  static bool fits(const coll::Problem& reduction);
  /// Precondition: fits(reduction).
  explicit DeferredReduction(const coll::Problem& reduction);

  /// The collective that moves the operands: from the reduction's input into operands().
  const coll::Problem& movement() const { return movement_; }
  std::byte* operands() { return operands_.data(); }
  /// After the movement: reduces the operands in rank order, and writes the result to its place in
  /// `output`.
  void reduce(const coll::Arithmetic& arithmetic, std::byte* output) const;

 private:
  coll::Problem movement_;
  std::vector<std::byte> operands_;  ///< contiguous, in rank order
  std::uint32_t count_ = 0;          ///< operands of this rank's result; 0: it gets none
  coll::Block result_;
};

}  // namespace penstock::mpi

// A reduction by the MPI in a call that does not block. Whoever drives the queue brings the
// operands only; they are reduced in the call of the program in which the MPI learns of the end. So
// no other thread calls the MPI or a function of the user, and nobody waits for a reduction of this
// rank's: what a rank must bring is there without one.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "coll/arithmetic.hpp"
#include "coll/problem.hpp"

namespace penstock::mpi {

/// The operands of one call, which may be made again and again.
///
///     if (DeferredReduction::fits(sum)) reduction.emplace(sum);
///     ... a call of reduction->movement(), into reduction->operands() ...
///     reduction->reduce(arithmetic, output);
class DeferredReduction {
 public:
  /// Whether a rank has room for the operands, 64 MB at most. The same on all ranks.
  static bool fits(const coll::Problem& reduction);
  /// Of one that fits.
  explicit DeferredReduction(const coll::Problem& reduction);

  /// What brings the operands: the reduction's own input, and operands() as output.
  const coll::Problem& movement() const { return movement_; }
  std::byte* operands() { return operands_.data(); }
  /// After the movement: puts the result at its place in `output`, in rank order.
  void reduce(const coll::Arithmetic& arithmetic, std::byte* output) const;

 private:
  coll::Problem movement_;
  std::vector<std::byte> operands_;  ///< one behind the other, by rank
  std::uint32_t count_ = 0;          ///< that make up this rank's result; 0: it gets none
  coll::Block result_;
};

}  // namespace penstock::mpi

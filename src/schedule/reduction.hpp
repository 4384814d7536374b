// The arithmetic of reductions: it adds the ranks' values in rank order. Floating-point types of 16
// and 8 bits are accumulated in float32 and rounded once at the end, and nothing is contracted or
// reassociated. So a result depends only on the values and their order: not on the size, the
// chunks, the algorithm or the CPU. Highway compiles vector code for each CPU.
#pragma once

#include <cstddef>
#include <cstdint>

#include "schedule/datatype.hpp"

namespace penstock::coll {

/// A type, an operation on it, and a number of ranks.
///
///     alignas(64) std::byte accumulator[Reduction::accumulator_bytes];
///     const auto reduction = Reduction::make(Datatype::bfloat16, Operation::sum, 3);
///     reduction->first(accumulator, of_rank_0, n);
///     reduction->add(accumulator, of_rank_1, n);
///     reduction->add(accumulator, of_rank_2, n);
///     reduction->finish(result, accumulator, n);
class Reduction {
 public:
  /// Elements that one accumulator holds.
  static constexpr std::size_t max_elements = 512;
  static constexpr std::size_t accumulator_bytes = max_elements * 8;

  /// `ranks`: the divisor of an average; not 0. Errors: invalid_argument, also if the operation is
  /// not defined for the type.
  static Result<Reduction> make(Datatype type, Operation operation, std::uint32_t ranks);

  Datatype type() const { return type_; }
  Operation operation() const { return operation_; }

  /// Whether `factor` can multiply values: integer types need a value of the type.
  Result<void> check_factor(double factor) const;

  /// `in`: `n` elements (at most max_elements) of the first rank, at any alignment. `factor`: only
  /// for premultiplied_sum; must pass check_factor().
  void first(void* accumulator, const void* in, std::size_t n, double factor = 1) const;
  /// Adds the elements of the next rank.
  void add(void* accumulator, const void* in, std::size_t n, double factor = 1) const;
  /// Writes the `n` results. `out` may be one of the inputs.
  void finish(void* out, const void* accumulator, std::size_t n) const;
  /// Does all three for two ranks, in one pass and for any `n`, with factors of 1. `out` may
  /// overlap an operand if it begins before or at it.
  void pair(void* out, const void* left, const void* right, std::size_t n) const;

 private:
  Reduction(Datatype type, Operation operation, std::uint32_t ranks)
      : type_(type), operation_(operation), ranks_(ranks) {}

  Datatype type_;
  Operation operation_;
  std::uint32_t ranks_;
};

/// The instruction set that reductions use on this CPU, as Highway names it: "AVX3", "AVX2", ...
const char* reduction_target();

}  // namespace penstock::coll

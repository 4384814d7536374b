// The reduction of one step on a GPU: the values of the ranks, wherever they lie, in rank order.
// Compiled for the GPU by combine.cu, and for the host by the stand-in GPU. It reads straight from
// the pool and reduces in registers; scratch.hpp brings long chunks to the GPU first.
#pragma once

#include <cstddef>
#include <cstdint>

#include "schedule/element.hpp"

namespace penstock::gpu {

/// The operands of a reduction. Pointers are the GPU's.
struct Values {
  void* result;
  std::uint64_t elements;
  const void* const* operand;  ///< where the values of each rank begin
  std::uint32_t operands;
  std::uint32_t ranks;  ///< for an average
};

/// Operands of one launch: its arguments have at most 4 KB.
inline constexpr std::uint32_t max_operands = 448;

/// A launch that reduces. `factor_at` points to a premultiplied sum's factor, as a value of the
/// type; null: the factor is `factor`.
struct Combine {
  static constexpr bool reduces_in_pool = true;  ///< operands may lie in the pool
  void* result = nullptr;
  std::uint64_t elements = 0;
  double factor = 1;
  const void* factor_at = nullptr;
  std::uint32_t operands = 0;
  std::uint32_t ranks = 1;
  coll::Operation operation = coll::Operation::sum;
  const void* operand[max_operands] = {};

  PENSTOCK_HOST_DEVICE Values values() const {
    return {result, elements, operand, operands, ranks};
  }
};

/// `Call` is Combine or FusedCall.
template <class Format, coll::Operation operation, class Call>
PENSTOCK_HOST_DEVICE inline double factor_of(const Call& call) {
  if constexpr (operation == coll::Operation::premultiplied_sum)
    if (call.factor_at != nullptr)
      return static_cast<double>(coll::loaded<Format>(call.factor_at, 0));
  return call.factor;
}

/// Operations that one loop serves: it costs less to choose among them for each element than to
/// compile a loop for each. Reads of the pool take longer than either.
enum class Family { sums, product, extremes, bits };

/// schedule/element.hpp for the operations of a family.
template <class Format, Family its_family>
class Arithmetic {
 public:
  using Word = typename Format::Word;
  using Accumulated = typename Format::Accumulated;
  static constexpr Family family = its_family;

  template <class Call>
  PENSTOCK_HOST_DEVICE explicit Arithmetic(const Call& call) : operation_(call.operation) {
    if (family == Family::sums && operation_ == coll::Operation::premultiplied_sum)
      factor_ = factor_of<Format, coll::Operation::premultiplied_sum>(call);
  }

  PENSTOCK_HOST_DEVICE Accumulated decoded(Word word) const {
    const Accumulated value = Format::decode(word);
    if constexpr (family == Family::sums)
      return coll::scaled<Format, coll::Operation::premultiplied_sum>(value, factor_);
    return value;
  }

  PENSTOCK_HOST_DEVICE Accumulated combined(Accumulated a, Accumulated b) const {
    using O = coll::Operation;
    if constexpr (family == Family::sums) return coll::combined<O::sum>(a, b);
    if constexpr (family == Family::product) return coll::combined<O::product>(a, b);
    if constexpr (family == Family::extremes)
      return operation_ == O::minimum ? coll::combined<O::minimum>(a, b)
                                      : coll::combined<O::maximum>(a, b);
    if constexpr (family == Family::bits) return combined_bits(a, b);
  }

  PENSTOCK_HOST_DEVICE Word encoded(Accumulated value, std::uint32_t ranks) const {
    using O = coll::Operation;
    if constexpr (family == Family::sums)
      if (operation_ == O::average) value = divided(value, ranks);
    if constexpr (family == Family::bits)
      if (is_logical()) return coll::result_of<Format, O::logical_or>(value, ranks);
    return coll::result_of<Format, O::sum>(value, ranks);
  }

 private:
  PENSTOCK_HOST_DEVICE bool is_logical() const {
    return operation_ >= coll::Operation::logical_and;
  }

  PENSTOCK_HOST_DEVICE Accumulated combined_bits(Accumulated a, Accumulated b) const {
    using O = coll::Operation;
    using Bits = std::conditional_t<std::is_integral_v<Accumulated>,
                                    typename coll::Wrapping<Accumulated>::type, unsigned>;
    const Bits x = is_logical() ? Bits{a != 0} : static_cast<Bits>(a);
    const Bits y = is_logical() ? Bits{b != 0} : static_cast<Bits>(b);
    const bool is_and = operation_ == O::bit_and || operation_ == O::logical_and;
    const bool is_or = operation_ == O::bit_or || operation_ == O::logical_or;
    return static_cast<Accumulated>(is_and ? x & y : is_or ? x | y : x ^ y);
  }

  /// A call: a division takes a hundred instructions.
  static PENSTOCK_HOST_DEVICE __attribute__((noinline)) Accumulated divided(Accumulated value,
                                                                            std::uint32_t ranks) {
    return coll::divided(value, ranks);
  }

  coll::Operation operation_;
  double factor_ = 1;
};

/// Reduces element `i`.
template <class Arithmetic>
PENSTOCK_HOST_DEVICE inline void combine_one(const Values& values, std::size_t i,
                                             const Arithmetic& arithmetic) {
  using Word = typename Arithmetic::Word;
  const auto value_of = [&](std::uint32_t rank) {
    Word word;
    std::memcpy(&word, static_cast<const unsigned char*>(values.operand[rank]) + i * sizeof word,
                sizeof word);
    return arithmetic.decoded(word);
  };
  auto value = value_of(0);
  for (std::uint32_t k = 1; k < values.operands; ++k)
    value = arithmetic.combined(value, value_of(k));
  const Word word = arithmetic.encoded(value, values.ranks);
  std::memcpy(static_cast<unsigned char*>(values.result) + i * sizeof word, &word, sizeof word);
}

/// Calls `use` with the arithmetic of the call's operation, if the format has such an operation.
template <class Format, class Call, class Use>
PENSTOCK_HOST_DEVICE inline void with_arithmetic(const Call& call, const Use& use) {
  using O = coll::Operation;
  if (call.operation >= O::bit_and) return use(Arithmetic<Format, Family::bits>(call));
  if constexpr (!std::is_same_v<Format, coll::Boolean>) {  // coll::of_booleans() leaves bits
    if (call.operation == O::product) return use(Arithmetic<Format, Family::product>(call));
    if (call.operation == O::minimum || call.operation == O::maximum)
      return use(Arithmetic<Format, Family::extremes>(call));
    use(Arithmetic<Format, Family::sums>(call));
  }
}

}  // namespace penstock::gpu

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

/// Reduces element `i`.
template <class Format, coll::Operation operation>
PENSTOCK_HOST_DEVICE inline typename Format::Word combined_element(const Values& values,
                                                                   std::size_t i, double factor) {
  auto value = coll::scaled<Format, operation>(coll::loaded<Format>(values.operand[0], i), factor);
  for (std::uint32_t k = 1; k < values.operands; ++k)
    value = coll::combined<operation>(
        value, coll::scaled<Format, operation>(coll::loaded<Format>(values.operand[k], i), factor));
  return coll::result_of<Format, operation>(value, values.ranks);
}

/// `Call` is Combine or FusedCall.
template <class Format, coll::Operation operation, class Call>
PENSTOCK_HOST_DEVICE inline double factor_of(const Call& call) {
  if constexpr (operation == coll::Operation::premultiplied_sum)
    if (call.factor_at != nullptr)
      return static_cast<double>(coll::loaded<Format>(call.factor_at, 0));
  return call.factor;
}

/// Calls `call` with the operation as a compile-time constant, if the format has such an operation.
template <class Format, class Call>
PENSTOCK_HOST_DEVICE inline void with_operation(coll::Operation operation, const Call& call) {
  using O = coll::Operation;
  using T = typename Format::Accumulated;
  if (operation == O::sum) return call(std::integral_constant<O, O::sum>());
  if (operation == O::product) return call(std::integral_constant<O, O::product>());
  if (operation == O::minimum) return call(std::integral_constant<O, O::minimum>());
  if (operation == O::maximum) return call(std::integral_constant<O, O::maximum>());
  if (operation == O::average) return call(std::integral_constant<O, O::average>());
  if (operation == O::premultiplied_sum)
    return call(std::integral_constant<O, O::premultiplied_sum>());
  if constexpr (std::is_integral_v<T>) {
    if (operation == O::bit_and) return call(std::integral_constant<O, O::bit_and>());
    if (operation == O::bit_or) return call(std::integral_constant<O, O::bit_or>());
    if (operation == O::bit_xor) return call(std::integral_constant<O, O::bit_xor>());
  }
  if (operation == O::logical_and) return call(std::integral_constant<O, O::logical_and>());
  if (operation == O::logical_or) return call(std::integral_constant<O, O::logical_or>());
  if (operation == O::logical_xor) return call(std::integral_constant<O, O::logical_xor>());
}

}  // namespace penstock::gpu

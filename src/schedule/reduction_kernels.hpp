// The loops of reductions, compiled once for each instruction set. Highway's foreach_target.h
// includes this file again for each of them, and the guard allows it.
#if defined(PENSTOCK_COLL_REDUCTION_KERNELS_HPP) == defined(HWY_TARGET_TOGGLE)
#ifdef PENSTOCK_COLL_REDUCTION_KERNELS_HPP
#undef PENSTOCK_COLL_REDUCTION_KERNELS_HPP
#else
#define PENSTOCK_COLL_REDUCTION_KERNELS_HPP
#endif

#include <hwy/highway.h>

#include <type_traits>

#include "schedule/datatype.hpp"
#include "schedule/element.hpp"

HWY_BEFORE_NAMESPACE();
namespace penstock::coll::HWY_NAMESPACE {

template <class Format, Operation operation>
struct Loops {
  using T = typename Format::Accumulated;

  static HWY_NOINLINE void first(void* to, const void* in, std::size_t n, double factor) {
    T* const accumulated = static_cast<T*>(to);
    for (std::size_t i = 0; i < n; ++i)
      accumulated[i] = scaled<Format, operation>(loaded<Format>(in, i), factor);
  }
  static HWY_NOINLINE void add(void* to, const void* in, std::size_t n, double factor) {
    T* const accumulated = static_cast<T*>(to);
    for (std::size_t i = 0; i < n; ++i)
      accumulated[i] = combined<operation, T>(
          accumulated[i], scaled<Format, operation>(loaded<Format>(in, i), factor));
  }
  static HWY_NOINLINE void finish(void* out, const void* from, std::size_t n, std::uint32_t ranks) {
    const T* const accumulated = static_cast<const T*>(from);
    for (std::size_t i = 0; i < n; ++i) stored<Format, operation>(out, i, accumulated[i], ranks);
  }
  /// Does all three for two operands. `out` may begin before or at an operand, because every
  /// element is read before its place is overwritten.
  static HWY_NOINLINE void pair(void* out, const void* left, const void* right, std::size_t n,
                                std::uint32_t ranks) {
#pragma GCC ivdep
    for (std::size_t i = 0; i < n; ++i)
      stored<Format, operation>(
          out, i, combined<operation, T>(loaded<Format>(left, i), loaded<Format>(right, i)), ranks);
  }
};

/// Unsigned, if it is an integer.
template <class Format>
struct AsUnsigned {
  using type = Format;
};
template <class T>
requires std::is_integral_v<T>
struct AsUnsigned<Native<T>> {
  using type = Native<std::make_unsigned_t<T>>;
};

constexpr bool needs_sign(Operation operation) {
  return operation == Operation::minimum || operation == Operation::maximum ||
         operation == Operation::average || operation == Operation::premultiplied_sum;
}
template <class Format, Operation operation>
using Step =
    Loops<std::conditional_t<needs_sign(operation), Format, typename AsUnsigned<Format>::type>,
          operation>;

/// Loops that give the same result are compiled once: integers wrap, so that few operations depend
/// on their sign, and each step depends on few operations.
template <class Format, Operation operation>
struct Kernel {
  static constexpr bool of_bits =
      operation >= Operation::bit_and && operation <= Operation::bit_xor;
  // Reduction::make refuses operations on bits of floating-point numbers.
  static constexpr Operation meant =
      of_bits && std::is_floating_point_v<typename Format::Accumulated> ? Operation::sum
                                                                        : operation;

  static void first(void* to, const void* in, std::size_t n, double factor) {
    constexpr Operation step =
        meant == Operation::premultiplied_sum ? Operation::premultiplied_sum : Operation::sum;
    Step<Format, step>::first(to, in, n, factor);
  }
  static void add(void* to, const void* in, std::size_t n, double factor) {
    constexpr Operation step = meant == Operation::average ? Operation::sum : meant;
    Step<Format, step>::add(to, in, n, factor);
  }
  static void finish(void* out, const void* from, std::size_t n, std::uint32_t ranks) {
    constexpr Operation step = meant == Operation::average       ? Operation::average
                               : meant >= Operation::logical_and ? Operation::logical_and
                                                                 : Operation::sum;
    Step<Format, step>::finish(out, from, n, ranks);
  }
  static void pair(void* out, const void* left, const void* right, std::size_t n,
                   std::uint32_t ranks) {
    constexpr Operation step = meant == Operation::premultiplied_sum ? Operation::sum : meant;
    Step<Format, step>::pair(out, left, right, n, ranks);
  }
};

template <class Format, class Call>
void with_operation(Operation operation, const Call& call) {
  switch (operation) {
    case Operation::sum:
      return call(Kernel<Format, Operation::sum>());
    case Operation::product:
      return call(Kernel<Format, Operation::product>());
    case Operation::minimum:
      return call(Kernel<Format, Operation::minimum>());
    case Operation::maximum:
      return call(Kernel<Format, Operation::maximum>());
    case Operation::average:
      return call(Kernel<Format, Operation::average>());
    case Operation::premultiplied_sum:
      return call(Kernel<Format, Operation::premultiplied_sum>());
    case Operation::bit_and:
      return call(Kernel<Format, Operation::bit_and>());
    case Operation::bit_or:
      return call(Kernel<Format, Operation::bit_or>());
    case Operation::bit_xor:
      return call(Kernel<Format, Operation::bit_xor>());
    case Operation::logical_and:
      return call(Kernel<Format, Operation::logical_and>());
    case Operation::logical_or:
      return call(Kernel<Format, Operation::logical_or>());
    case Operation::logical_xor:
      return call(Kernel<Format, Operation::logical_xor>());
  }
}

template <class Call>
void with_kernel(Datatype type, Operation operation, const Call& call) {
  switch (type) {
    case Datatype::int8:
      return with_operation<Native<std::int8_t>>(operation, call);
    case Datatype::uint8:
      return with_operation<Native<std::uint8_t>>(operation, call);
    case Datatype::int16:
      return with_operation<Native<std::int16_t>>(operation, call);
    case Datatype::uint16:
      return with_operation<Native<std::uint16_t>>(operation, call);
    case Datatype::int32:
      return with_operation<Native<std::int32_t>>(operation, call);
    case Datatype::uint32:
      return with_operation<Native<std::uint32_t>>(operation, call);
    case Datatype::int64:
      return with_operation<Native<std::int64_t>>(operation, call);
    case Datatype::uint64:
      return with_operation<Native<std::uint64_t>>(operation, call);
    case Datatype::float16:
      return with_operation<Small<Float16, std::uint16_t>>(operation, call);
    case Datatype::bfloat16:
      return with_operation<Small<BFloat16, std::uint16_t>>(operation, call);
    case Datatype::float32:
      return with_operation<Native<float>>(operation, call);
    case Datatype::float64:
      return with_operation<Native<double>>(operation, call);
    case Datatype::float8_e4m3:
      return with_operation<Small<Float8E4M3, std::uint8_t>>(operation, call);
    case Datatype::float8_e5m2:
      return with_operation<Small<Float8E5M2, std::uint8_t>>(operation, call);
    case Datatype::boolean:
      return with_operation<Boolean>(of_booleans(operation), call);
  }
}

void first(Datatype type, Operation operation, void* to, const void* in, std::size_t n,
           double factor) {
  with_kernel(type, operation, [&](auto kernel) { kernel.first(to, in, n, factor); });
}
void add(Datatype type, Operation operation, void* to, const void* in, std::size_t n,
         double factor) {
  with_kernel(type, operation, [&](auto kernel) { kernel.add(to, in, n, factor); });
}
void finish(Datatype type, Operation operation, void* out, const void* from, std::size_t n,
            std::uint32_t ranks) {
  with_kernel(type, operation, [&](auto kernel) { kernel.finish(out, from, n, ranks); });
}
void pair(Datatype type, Operation operation, void* out, const void* left, const void* right,
          std::size_t n, std::uint32_t ranks) {
  with_kernel(type, operation, [&](auto kernel) { kernel.pair(out, left, right, n, ranks); });
}
const char* target() {
  return hwy::TargetName(HWY_TARGET);
}

}  // namespace penstock::coll::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif

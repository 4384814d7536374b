// How a reduction treats one element of each rank. Hosts and GPUs compile the same code, so the
// result does not depend on which of them computes it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <limits>
#include <type_traits>

#include "schedule/operations.hpp"
#include "schedule/small_float.hpp"

namespace penstock::coll {

template <class T>
struct Native {
  using Word = T;
  using Accumulated = T;
  PENSTOCK_HOST_DEVICE static T decode(T word) { return word; }
  PENSTOCK_HOST_DEVICE static T encode(T value) { return value; }
};
template <class Format, class T>
struct Small {
  using Word = T;
  using Accumulated = float;
  PENSTOCK_HOST_DEVICE static float decode(T word) { return Format::decode(word); }
  PENSTOCK_HOST_DEVICE static T encode(float value) { return Format::encode(value); }
};
struct Boolean {
  using Word = std::uint8_t;
  using Accumulated = std::uint8_t;
  PENSTOCK_HOST_DEVICE static std::uint8_t decode(std::uint8_t word) { return word != 0; }
  PENSTOCK_HOST_DEVICE static std::uint8_t encode(std::uint8_t value) { return value; }
};

/// Integers wrap. They are computed as unsigned, at least as wide as int.
template <class T, bool is_integer = std::is_integral_v<T>>
struct Wrapping {
  using type = T;
};
template <class T>
struct Wrapping<T, true> {
  using type = std::common_type_t<std::make_unsigned_t<T>, unsigned>;
};

template <Operation operation, class T>
PENSTOCK_HOST_DEVICE inline T combined(T a, T b) {
  using W = typename Wrapping<T>::type;
  if constexpr (operation == Operation::product) {
    return static_cast<T>(W(a) * W(b));
  } else if constexpr (operation == Operation::minimum) {
    return a < b || a != a ? a : b;  // a NaN wins, on either side
  } else if constexpr (operation == Operation::maximum) {
    return a > b || a != a ? a : b;
  } else if constexpr (operation == Operation::logical_and) {
    return static_cast<T>((a != 0) & (b != 0));
  } else if constexpr (operation == Operation::logical_or) {
    return static_cast<T>((a != 0) | (b != 0));
  } else if constexpr (operation == Operation::logical_xor) {
    return static_cast<T>((a != 0) ^ (b != 0));
  } else if constexpr (std::is_integral_v<T> && operation == Operation::bit_and) {
    return static_cast<T>(a & b);
  } else if constexpr (std::is_integral_v<T> && operation == Operation::bit_or) {
    return static_cast<T>(a | b);
  } else if constexpr (std::is_integral_v<T> && operation == Operation::bit_xor) {
    return static_cast<T>(a ^ b);
  } else {
    return static_cast<T>(W(a) + W(b));
  }
}

template <class Format, Operation operation>
PENSTOCK_HOST_DEVICE inline typename Format::Accumulated scaled(typename Format::Accumulated value,
                                                                double factor) {
  using T = typename Format::Accumulated;
  if constexpr (operation != Operation::premultiplied_sum) {
    return value;
  } else if constexpr (std::is_integral_v<T>) {
    using W = typename Wrapping<T>::type;
    return static_cast<T>(W(value) * W(static_cast<T>(factor)));
  } else {
    return static_cast<T>(value * static_cast<T>(factor));
  }
}

template <class T>
PENSTOCK_HOST_DEVICE inline T divided(T value, std::uint32_t ranks) {
  if constexpr (std::is_floating_point_v<T>) {
    return value / static_cast<T>(ranks);
  } else if constexpr (std::is_signed_v<T>) {
    return static_cast<T>(static_cast<std::int64_t>(value) / static_cast<std::int64_t>(ranks));
  } else {
    return static_cast<T>(static_cast<std::uint64_t>(value) / ranks);
  }
}

/// Converts the accumulated value to the result.
template <class Format, Operation operation>
PENSTOCK_HOST_DEVICE inline typename Format::Word result_of(typename Format::Accumulated value,
                                                            std::uint32_t ranks) {
  using T = typename Format::Accumulated;
  if constexpr (operation == Operation::average) value = divided(value, ranks);
  if constexpr (operation >= Operation::logical_and) value = static_cast<T>(value != 0);
  if constexpr (std::is_floating_point_v<T>)
    value = value != value ? std::numeric_limits<T>::quiet_NaN() : value;
  return Format::encode(value);
}

template <class Format>
PENSTOCK_HOST_DEVICE inline typename Format::Accumulated loaded(const void* in, std::size_t i) {
  typename Format::Word word;
  std::memcpy(&word, static_cast<const unsigned char*>(in) + i * sizeof word, sizeof word);
  return Format::decode(word);
}

template <class Format, Operation operation>
PENSTOCK_HOST_DEVICE inline void stored(void* out, std::size_t i,
                                        typename Format::Accumulated value, std::uint32_t ranks) {
  const typename Format::Word word = result_of<Format, operation>(value, ranks);
  std::memcpy(static_cast<unsigned char*>(out) + i * sizeof word, &word, sizeof word);
}

}  // namespace penstock::coll

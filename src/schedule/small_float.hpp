// Conversions between float32 and floating-point types of 16 and 8 bits. No function has branches
// or intermediate denormals, so loops over them become vector code, and results are the same in a
// program that flushes denormals to zero. Rounds to nearest, ties to even.
#pragma once

#include <cstdint>
#include <cstring>

#ifdef __CUDACC__
#define PENSTOCK_HOST_DEVICE __host__ __device__
#else
#define PENSTOCK_HOST_DEVICE
#endif

namespace penstock::coll {

PENSTOCK_HOST_DEVICE inline float float_of_bits(std::uint32_t bits) {
  float value;
  std::memcpy(&value, &bits, sizeof value);
  return value;
}
PENSTOCK_HOST_DEVICE inline std::uint32_t bits_of_float(float value) {
  std::uint32_t bits;
  std::memcpy(&bits, &value, sizeof bits);
  return bits;
}

/// `Word` holds 1 sign bit, `exponent_bits` and `mantissa_bits`. Without infinity (E4M3) the
/// largest exponent is an ordinary one, and all ones mean NaN. A value too large becomes infinity,
/// or NaN if there is none, so that overflow shows (as in PyTorch; NCCL saturates).
template <class Word, std::uint32_t exponent_bits, std::uint32_t mantissa_bits, bool has_infinity>
struct SmallFloat {
  static constexpr std::uint32_t bias = (1u << (exponent_bits - 1)) - 1;
  static constexpr std::uint32_t shift = 23 - mantissa_bits;
  static constexpr std::uint32_t magnitude = (1u << (exponent_bits + mantissa_bits)) - 1;
  static constexpr std::uint32_t all_exponent = ((1u << exponent_bits) - 1) << mantissa_bits;
  static constexpr std::uint32_t nan =
      has_infinity ? all_exponent | (1u << (mantissa_bits - 1)) : magnitude;
  /// Float32 bits of the smallest normal value.
  static constexpr std::uint32_t min_normal = (128 - bias) << 23;
  /// The smallest rounded magnitude that is not finite.
  static constexpr std::uint32_t overflow = has_infinity ? all_exponent : magnitude;

  PENSTOCK_HOST_DEVICE static float decode(Word word) {
    const std::uint32_t size = word & magnitude;
    const std::uint32_t normal = (size << shift) + ((127 - bias) << 23);
    // A denormal is its mantissa times the smallest value, 2^(1 - bias - mantissa_bits).
    const float least = float_of_bits((128 - bias - mantissa_bits) << 23);
    const std::uint32_t denormal = bits_of_float(static_cast<float>(size) * least);
    std::uint32_t bits = size < (1u << mantissa_bits) ? denormal : normal;
    const std::uint32_t special = 0x7f800000u | ((size & ((1u << mantissa_bits) - 1)) << shift);
    if constexpr (has_infinity)
      bits = size >= all_exponent ? special : bits;
    else
      bits = size == magnitude ? 0x7fc00000u : bits;
    const std::uint32_t sign = static_cast<std::uint32_t>(word >> (exponent_bits + mantissa_bits))
                               << 31;
    return float_of_bits(bits | sign);
  }

  PENSTOCK_HOST_DEVICE static Word encode(float value) {
    const std::uint32_t bits = bits_of_float(value);
    const std::uint32_t size = bits & 0x7fffffffu;
    const std::uint32_t odd = (size >> shift) & 1;
    const std::uint32_t rounded = size + ((1u << (shift - 1)) - 1) + odd;
    const std::uint32_t normal = (rounded >> shift) - ((127 - bias) << mantissa_bits);
    // Adding this makes the float unit round a denormal's mantissa into the lowest bits.
    const std::uint32_t magic = (127 - bias + 1 + shift) << 23;
    const std::uint32_t denormal =
        bits_of_float(float_of_bits(size) + float_of_bits(magic)) - magic;
    std::uint32_t word = size < min_normal ? denormal : normal;
    // Values too large for the subtraction above are found by `size`.
    const bool too_large = size >= min_normal && (size >= 0x7f800000u || normal >= overflow);
    word = too_large ? (has_infinity ? all_exponent : nan) : word;
    word = size > 0x7f800000u ? nan : word;
    return static_cast<Word>(word | (bits >> 31) << (exponent_bits + mantissa_bits));
  }
};

using Float16 = SmallFloat<std::uint16_t, 5, 10, true>;
using Float8E5M2 = SmallFloat<std::uint8_t, 5, 2, true>;
using Float8E4M3 = SmallFloat<std::uint8_t, 4, 3, false>;

struct BFloat16 {
  PENSTOCK_HOST_DEVICE static float decode(std::uint16_t word) {
    return float_of_bits(static_cast<std::uint32_t>(word) << 16);
  }
  PENSTOCK_HOST_DEVICE static std::uint16_t encode(float value) {
    const std::uint32_t bits = bits_of_float(value);
    const std::uint32_t rounded = (bits + 0x7fff + ((bits >> 16) & 1)) >> 16;
    const std::uint32_t nan = (bits >> 16) | 0x40;
    return static_cast<std::uint16_t>((bits & 0x7fffffffu) > 0x7f800000u ? nan : rounded);
  }
};

}  // namespace penstock::coll

// Tests every value of the small types, and float32 values around each boundary between two of
// them.
#include "schedule/small_float.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <map>

namespace penstock::coll {
namespace {

/// The value of the bits, by the definition of the format.
template <class Word, std::uint32_t exponent_bits, std::uint32_t mantissa_bits, bool has_infinity>
double meaning(SmallFloat<Word, exponent_bits, mantissa_bits, has_infinity> /*format*/,
               std::uint32_t word) {
  const std::uint32_t mantissa = word & ((1u << mantissa_bits) - 1);
  const std::uint32_t exponent = (word >> mantissa_bits) & ((1u << exponent_bits) - 1);
  const double sign = (word >> (exponent_bits + mantissa_bits)) != 0 ? -1 : 1;
  const int bias = (1 << (exponent_bits - 1)) - 1;
  const bool last = exponent == (1u << exponent_bits) - 1;
  if (has_infinity && last)
    return mantissa == 0 ? sign * std::numeric_limits<double>::infinity() : std::nan("");
  if (!has_infinity && last && mantissa == (1u << mantissa_bits) - 1) return std::nan("");
  const double fraction = std::ldexp(mantissa, -static_cast<int>(mantissa_bits));
  if (exponent == 0) return sign * std::ldexp(fraction, 1 - bias);
  return sign * std::ldexp(1 + fraction, static_cast<int>(exponent) - bias);
}

template <class Format>
class SmallFloatTest : public testing::Test {};
using Formats = testing::Types<Float16, Float8E5M2, Float8E4M3>;
TYPED_TEST_SUITE(SmallFloatTest, Formats);

TYPED_TEST(SmallFloatTest, EachWordMeansWhatTheFormatSays) {
  for (std::uint32_t word = 0; word <= 2 * TypeParam::magnitude + 1; ++word) {
    const double wanted = meaning(TypeParam(), word);
    const float found = TypeParam::decode(word);
    if (std::isnan(wanted)) {
      EXPECT_TRUE(std::isnan(found)) << word;
      continue;
    }
    EXPECT_EQ(found, wanted) << word;
    EXPECT_EQ(std::signbit(found), std::signbit(wanted)) << word;
    EXPECT_EQ(TypeParam::encode(found), word);
  }
}

/// Tests values below, at and above the middle of two neighbours.
TYPED_TEST(SmallFloatTest, RoundsToTheNearestAndTiesToEven) {
  const std::uint32_t largest = TypeParam::overflow - 1;
  for (std::uint32_t word = 0; word <= largest; ++word) {
    const double low = meaning(TypeParam(), word);
    // The largest value has no neighbour above, so compute the value that would follow.
    const double high =
        word < largest ? meaning(TypeParam(), word + 1) : 2 * low - meaning(TypeParam(), word - 1);
    const auto middle = static_cast<float>((low + high) / 2);
    ASSERT_EQ(middle, (low + high) / 2);
    const std::uint32_t even = word % 2 == 0 ? word : word + 1;
    const auto above = [&](std::uint32_t w) {
      return w <= largest ? w : TypeParam::encode(std::numeric_limits<float>::infinity());
    };
    EXPECT_EQ(TypeParam::encode(std::nextafter(middle, 0.0f)), word);
    EXPECT_EQ(TypeParam::encode(middle), above(even)) << word;
    EXPECT_EQ(TypeParam::encode(std::nextafter(middle, 1e30f)), above(word + 1)) << word;
    const std::uint32_t sign = TypeParam::magnitude + 1;
    EXPECT_EQ(TypeParam::encode(-middle), above(even) | sign) << word;
  }
}

TYPED_TEST(SmallFloatTest, NeitherOverflowNorNanIsHidden) {
  for (const float value : {std::numeric_limits<float>::infinity(), 1e30f, 3.4e38f}) {
    const float found = TypeParam::decode(TypeParam::encode(value));
    EXPECT_TRUE(std::isinf(found) || std::isnan(found)) << found;
  }
  for (const std::uint32_t bits : {0x7fc00000u, 0x7f800001u, 0xffffffffu, 0xff800001u})
    EXPECT_TRUE(std::isnan(TypeParam::decode(TypeParam::encode(float_of_bits(bits))))) << bits;
}

TEST(BFloat16Test, IsTheUpperHalfOfAFloat) {
  for (std::uint32_t word = 0; word < 65536; ++word) {
    const float value = BFloat16::decode(static_cast<std::uint16_t>(word));
    EXPECT_EQ(bits_of_float(value), word << 16);
    if (std::isnan(value))
      EXPECT_TRUE(std::isnan(BFloat16::decode(BFloat16::encode(value))));
    else
      EXPECT_EQ(BFloat16::encode(value), word);
    if (!std::isfinite(value)) continue;
    const std::uint32_t even = word % 2 == 0 ? word : word + 1;
    EXPECT_EQ(BFloat16::encode(float_of_bits((word << 16) + 0x7fff)), word);
    EXPECT_EQ(BFloat16::encode(float_of_bits((word << 16) + 0x8000)), even);
    EXPECT_EQ(BFloat16::encode(float_of_bits((word << 16) + 0x8001)), word + 1);
  }
}

TEST(Float16Test, AgreesWithTheCompilersType) {
  for (std::uint64_t bits = 0; bits < 1ull << 32; bits += 4099) {
    const float value = float_of_bits(static_cast<std::uint32_t>(bits));
    if (std::isnan(value)) continue;
    const auto half = static_cast<_Float16>(value);
    std::uint16_t wanted;
    std::memcpy(&wanted, &half, sizeof wanted);
    ASSERT_EQ(Float16::encode(value), wanted) << value;
  }
}

}  // namespace
}  // namespace penstock::coll

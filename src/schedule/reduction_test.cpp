// Compares each type and operation with a reference that handles one element at a time, in double
// or in 64-bit integers.
#include "schedule/reduction.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <limits>
#include <random>
#include <vector>

#include "base/seed_in_tests.hpp"
#include "schedule/small_float.hpp"

namespace penstock::coll {
namespace {

using testing::Combine;
using testing::Range;

double value_at(Datatype type, const std::byte* at) {
  const auto as = [&](auto word) {
    std::memcpy(&word, at, sizeof word);
    return word;
  };
  switch (type) {
    case Datatype::float16:
      return Float16::decode(as(std::uint16_t{}));
    case Datatype::bfloat16:
      return BFloat16::decode(as(std::uint16_t{}));
    case Datatype::float8_e4m3:
      return Float8E4M3::decode(as(std::uint8_t{}));
    case Datatype::float8_e5m2:
      return Float8E5M2::decode(as(std::uint8_t{}));
    case Datatype::float32:
      return as(float{});
    default:
      return as(double{});
  }
}

/// Stores the reference's result as a word of this type.
void put(Datatype type, std::byte* at, double value) {
  const auto store = [&](auto word) { std::memcpy(at, &word, sizeof word); };
  const auto single = static_cast<float>(value);
  switch (type) {
    case Datatype::float16:
      return store(Float16::encode(single));
    case Datatype::bfloat16:
      return store(BFloat16::encode(single));
    case Datatype::float8_e4m3:
      return store(Float8E4M3::encode(single));
    case Datatype::float8_e5m2:
      return store(Float8E5M2::encode(single));
    case Datatype::float32:
      return store(single);
    default:
      return store(value);
  }
}

double combined(Datatype type, Operation operation, double a, double b) {
  const bool wide = type == Datatype::float64;
  const auto rounded = [&](double x) {
    return wide ? x : static_cast<double>(static_cast<float>(x));
  };
  switch (operation) {
    case Operation::product:
      return rounded(a * b);
    case Operation::minimum:
      return std::isnan(a) || std::isnan(b) ? NAN : std::min(a, b);
    case Operation::maximum:
      return std::isnan(a) || std::isnan(b) ? NAN : std::max(a, b);
    case Operation::logical_and:
      return a != 0 && b != 0;
    case Operation::logical_or:
      return a != 0 || b != 0;
    case Operation::logical_xor:
      return (a != 0) != (b != 0);
    default:
      return rounded(a + b);
  }
}

struct Case {
  Datatype type;
  Operation operation;
  std::uint32_t ranks;
  std::size_t elements;
  std::vector<std::vector<std::byte>> in;
};

/// Checks pair(), also when the result overlaps an operand that begins later.
void check_pair(const Case& c, const Reduction& reduction, const std::vector<std::byte>& wanted) {
  const std::size_t bytes = wanted.size(), element = bytes_of(c.type);
  for (const std::size_t behind : {std::size_t{0}, element, 5 * element, bytes + 3}) {
    for (const bool is_left : {false, true}) {
      std::vector<std::byte> memory(2 * bytes + 8 * element);
      std::memcpy(memory.data() + behind, c.in[is_left ? 0 : 1].data() + 1, bytes);
      const std::byte* const moved = memory.data() + behind;
      reduction.pair(memory.data(), is_left ? moved : c.in[0].data() + 1,
                     is_left ? c.in[1].data() + 1 : moved, c.elements);
      ASSERT_EQ(std::memcmp(memory.data(), wanted.data(), bytes), 0)
          << "overlaps by " << behind << " bytes";
    }
  }
}

std::vector<std::byte> reduced(const Case& c, double factor) {
  const auto reduction = Reduction::make(c.type, c.operation, c.ranks);
  EXPECT_TRUE(reduction);
  alignas(64) std::byte accumulator[Reduction::accumulator_bytes];
  reduction->first(accumulator, c.in[0].data() + 1, c.elements, factor);
  for (std::uint32_t rank = 1; rank < c.ranks; ++rank)
    reduction->add(accumulator, c.in[rank].data() + 1, c.elements, factor);
  std::vector<std::byte> out(c.elements * bytes_of(c.type) + 1, std::byte{0x5a});
  reduction->finish(out.data(), accumulator, c.elements);
  EXPECT_EQ(out.back(), std::byte{0x5a});
  out.pop_back();
  if (c.ranks == 2 && c.operation != Operation::premultiplied_sum) check_pair(c, *reduction, out);
  return out;
}

void check_floating(const Case& c, double factor) {
  const auto out = reduced(c, factor);
  const std::uint32_t bytes = bytes_of(c.type);
  const bool wide = c.type == Datatype::float64;
  for (std::size_t i = 0; i < c.elements; ++i) {
    const auto operand = [&](std::uint32_t rank) {
      const double value = value_at(c.type, c.in[rank].data() + 1 + i * bytes);
      if (c.operation != Operation::premultiplied_sum) return value;
      return wide ? value * factor
                  : static_cast<double>(static_cast<float>(value) * static_cast<float>(factor));
    };
    double wanted = operand(0);
    for (std::uint32_t rank = 1; rank < c.ranks; ++rank)
      wanted = combined(c.type, c.operation, wanted, operand(rank));
    if (c.operation == Operation::average)
      wanted = wide ? wanted / c.ranks
                    : static_cast<double>(static_cast<float>(wanted) / static_cast<float>(c.ranks));
    if (c.operation >= Operation::logical_and) wanted = wanted != 0;
    std::byte word[8] = {};
    put(c.type, word, wanted);
    const double found = value_at(c.type, out.data() + i * bytes),
                 expected = value_at(c.type, word);
    if (std::isnan(expected))
      ASSERT_TRUE(std::isnan(found));
    else
      ASSERT_EQ(found, expected) << "element " << i;
  }
}

/// Reads an integer as a 64-bit word, extended by sign or by zeros.
std::int64_t integer_at(Datatype type, const std::byte* at) {
  const auto as = [&](auto word) {
    std::memcpy(&word, at, sizeof word);
    return static_cast<std::int64_t>(word);
  };
  switch (type) {
    case Datatype::int8:
      return as(std::int8_t{});
    case Datatype::uint8:
      return as(std::uint8_t{});
    case Datatype::int16:
      return as(std::int16_t{});
    case Datatype::uint16:
      return as(std::uint16_t{});
    case Datatype::int32:
      return as(std::int32_t{});
    case Datatype::uint32:
      return as(std::uint32_t{});
    case Datatype::boolean:
      return as(std::uint8_t{}) != 0;
    default:
      return as(std::int64_t{});
  }
}

bool less(Datatype type, std::int64_t a, std::int64_t b) {
  return type == Datatype::uint64 ? static_cast<std::uint64_t>(a) < static_cast<std::uint64_t>(b)
                                  : a < b;
}

std::int64_t combined_integers(Datatype type, Operation operation, std::int64_t a, std::int64_t b) {
  const auto x = static_cast<std::uint64_t>(a), y = static_cast<std::uint64_t>(b);
  const bool is_boolean = type == Datatype::boolean;
  switch (operation) {
    case Operation::product:
      return static_cast<std::int64_t>(x * y);
    case Operation::minimum:
      return less(type, b, a) ? b : a;
    case Operation::maximum:
      return less(type, a, b) ? b : a;
    case Operation::bit_and:
      return a & b;
    case Operation::bit_or:
      return a | b;
    case Operation::bit_xor:
      return a ^ b;
    case Operation::logical_and:
      return a != 0 && b != 0;
    case Operation::logical_or:
      return a != 0 || b != 0;
    case Operation::logical_xor:
      return (a != 0) != (b != 0);
    default:
      return is_boolean ? a | b : static_cast<std::int64_t>(x + y);
  }
}

/// Truncates to the type's width, as a wrapping result is.
std::int64_t cut(Datatype type, std::int64_t value) {
  std::byte word[8];
  std::memcpy(word, &value, 8);
  return integer_at(type, word);
}

void check_integers(const Case& c, double factor) {
  const auto out = reduced(c, factor);
  const std::uint32_t bytes = bytes_of(c.type);
  for (std::size_t i = 0; i < c.elements; ++i) {
    const auto operand = [&](std::uint32_t rank) {
      const std::int64_t value = integer_at(c.type, c.in[rank].data() + 1 + i * bytes);
      if (c.operation != Operation::premultiplied_sum) return value;
      return cut(c.type, static_cast<std::int64_t>(static_cast<std::uint64_t>(value) *
                                                   static_cast<std::uint64_t>(factor)));
    };
    std::int64_t wanted = operand(0);
    for (std::uint32_t rank = 1; rank < c.ranks; ++rank)
      wanted = cut(c.type, combined_integers(c.type, c.operation, wanted, operand(rank)));
    if (c.operation == Operation::average)
      wanted = c.type == Datatype::uint64
                   ? static_cast<std::int64_t>(static_cast<std::uint64_t>(wanted) / c.ranks)
                   : wanted / static_cast<std::int64_t>(c.ranks);
    if (c.operation >= Operation::logical_and) wanted = wanted != 0;
    ASSERT_EQ(integer_at(c.type, out.data() + i * bytes), wanted) << "element " << i;
  }
}

class ReductionTest : public testing::TestWithParam<std::tuple<std::uint32_t, std::uint32_t>> {};

TEST_P(ReductionTest, EqualsTheReference) {
  const auto type = static_cast<Datatype>(std::get<0>(GetParam()));
  const auto operation = static_cast<Operation>(std::get<1>(GetParam()));
  if (!supports(operation, type)) {
    const auto refused = Reduction::make(type, operation, 2);
    ASSERT_FALSE(refused);
    EXPECT_EQ(refused.error().code, ErrorCode::invalid_argument);
    EXPECT_EQ(refused.error().message.find(name_of(operation)), 0u);
    return;
  }
  std::mt19937_64 random(base::seed_in_tests());
  for (const std::size_t elements : {0u, 1u, 7u, 16u, 33u, 500u, 512u}) {
    for (std::uint32_t ranks = 1; ranks <= 9; ++ranks) {
      Case c{type, operation, ranks, elements, {}};
      for (std::uint32_t rank = 0; rank < ranks; ++rank) {
        c.in.emplace_back(elements * bytes_of(type) + 1);
        for (auto& byte : c.in.back()) byte = static_cast<std::byte>(random());
      }
      if (is_floating(type))
        check_floating(c, 0.3);
      else
        check_integers(c, 3);
    }
  }
}

INSTANTIATE_TEST_SUITE_P(All, ReductionTest,
                         Combine(Range(0u, datatype_count), Range(0u, operation_count)),
                         [](const auto& param) {
                           return std::string(
                                      name_of(static_cast<Datatype>(std::get<0>(param.param)))) +
                                  "_" + name_of(static_cast<Operation>(std::get<1>(param.param)));
                         });

TEST(ReductionNames, AreParsed) {
  for (std::uint32_t i = 0; i < datatype_count; ++i) {
    const auto type = static_cast<Datatype>(i);
    EXPECT_EQ(*parse_datatype(name_of(type)), type);
  }
  const auto none = parse_datatype("float12");
  ASSERT_FALSE(none);
  EXPECT_EQ(none.error().message.find("'float12' is no type of elements; there are int8, uint8"),
            0u);
}

TEST(ReductionArguments, AreChecked) {
  EXPECT_FALSE(Reduction::make(Datatype::int32, Operation::average, 0));
  const auto of = [](Datatype type) {
    return *Reduction::make(type, Operation::premultiplied_sum, 2);
  };
  EXPECT_TRUE(of(Datatype::float16).check_factor(0.3));
  EXPECT_TRUE(of(Datatype::int8).check_factor(-128));
  EXPECT_TRUE(of(Datatype::uint64).check_factor(18446744073709549568.0));
  for (const double factor : {0.5, 128.0, -129.0, std::nan("")})
    EXPECT_FALSE(of(Datatype::int8).check_factor(factor));
  EXPECT_FALSE(of(Datatype::uint32).check_factor(-1));
  EXPECT_FALSE(of(Datatype::int64).check_factor(9223372036854775808.0));
  EXPECT_EQ(of(Datatype::int32).check_factor(3e9).error().message,
            "the factor 3000000000 is no value of int32");
}

/// Any NaN of any rank gives the same NaN.
TEST(ReductionOfNans, HasOneNan) {
  for (const std::uint32_t bits : {0x7fc00000u, 0xffc00001u, 0x7f800001u, 0xffffffffu}) {
    const float nan = float_of_bits(bits), one = 1;
    for (const bool first : {true, false}) {
      alignas(64) std::byte accumulator[Reduction::accumulator_bytes];
      const auto sum = *Reduction::make(Datatype::float32, Operation::sum, 2);
      sum.first(accumulator, first ? &nan : &one, 1);
      sum.add(accumulator, first ? &one : &nan, 1);
      float out;
      sum.finish(&out, accumulator, 1);
      EXPECT_EQ(bits_of_float(out), 0x7fc00000u);
    }
  }
}

TEST(ReductionTarget, HasAName) {
  EXPECT_STRNE(reduction_target(), "");
}

}  // namespace
}  // namespace penstock::coll

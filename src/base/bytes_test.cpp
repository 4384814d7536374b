#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/env.hpp"

namespace penstock::base {
namespace {

TEST(Bytes, ParsesSuffixes) {
  EXPECT_EQ(parse_bytes("0").value(), 0u);
  EXPECT_EQ(parse_bytes("4096").value(), 4096u);
  EXPECT_EQ(parse_bytes("3k").value(), 3072u);
  EXPECT_EQ(parse_bytes("512M").value(), 512ull << 20);
  EXPECT_EQ(parse_bytes("2G").value(), 2ull << 30);
  EXPECT_EQ(parse_bytes("2GiB").value(), 2ull << 30);
  EXPECT_EQ(parse_bytes("1T").value(), 1ull << 40);
  EXPECT_EQ(parse_bytes("18446744073709551615").value(), UINT64_MAX);
}

TEST(Bytes, RefusesWhatIsNoSize) {
  for (const char* text : {"", "G", "-1", "+1", "1.5G", "1 G", "12x", "1GB", "1GiBs", "0x10",
                           "18446744073709551616", "99999999999G"}) {
    const auto bytes = parse_bytes(text);
    ASSERT_FALSE(bytes) << text;
    EXPECT_EQ(bytes.error().code, ErrorCode::invalid_argument);
    EXPECT_THAT(bytes.error().message, testing::HasSubstr(text));
  }
}

TEST(Bytes, FormatsInTheLargestWholeUnit) {
  EXPECT_EQ(format_bytes(0), "0 B");
  EXPECT_EQ(format_bytes(1234), "1234 B");
  EXPECT_EQ(format_bytes(1024), "1 KiB");
  EXPECT_EQ(format_bytes(1536), "1536 B");
  EXPECT_EQ(format_bytes(2147483648), "2 GiB");
  EXPECT_EQ(format_bytes(3ull << 40), "3 TiB");
}

}  // namespace
}  // namespace penstock::base

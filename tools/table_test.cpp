#include "table.hpp"

#include <gtest/gtest.h>

#include <cstdlib>

#include "command.hpp"

namespace penstock::tools {
namespace {

TEST(Table, ColumnsAreAsWideAsTheirWidestEntry) {
  ::setenv("NO_COLOR", "1", 1);  // also if a person runs this test in a terminal
  Table table({{"NAME"}, {"TIME", Align::right}, {"DOES"}});
  table.add({"a", "1.25 µs", "waits"});
  table.add({"a long name", "3 s", ""});
  EXPECT_EQ(table.text(),
            "NAME            TIME  DOES\n"
            "a            1.25 µs  waits\n"
            "a long name      3 s\n");
}

TEST(Table, WithoutRowsHasTitles) {
  EXPECT_EQ(Table({{"POOL"}, {"SIZE", Align::right}}).text(), "POOL  SIZE\n");
}

TEST(Terminal, EscapesTakeNoColumns) {
  const std::string red = "\x1b[31mfail\x1b[0m µ";
  EXPECT_EQ(columns_of(red), 6u);
  EXPECT_EQ(cut_to(red, 2), "\x1b[31mfa\x1b[0m");
  EXPECT_EQ(cut_to("µµµ", 2), "µµ");
  EXPECT_EQ(cut_to("ab", 5), "ab");
  EXPECT_EQ(cut_to("ab\x1b[3", 1), "a\x1b[3");
}

TEST(Terminal, AFileHasNoColour) {
  std::FILE* file = std::tmpfile();
  ASSERT_NE(file, nullptr);
  EXPECT_EQ(coloured(Colour::red, "fail", file), "fail");
  std::fclose(file);
}

TEST(Units, AsPeopleReadThem) {
  EXPECT_EQ(about(1023), "1023 B");
  EXPECT_EQ(about(1536), "1.5 KiB");
  EXPECT_EQ(about(64ull << 20), "64 MiB");
  EXPECT_EQ(about_ns(1), "1.00 ns");
  EXPECT_EQ(about_ns(1250), "1.25 µs");
  EXPECT_EQ(about_ns(12'345), "12.3 µs");
  EXPECT_EQ(about_ns(999'600), "1.00 ms");
  EXPECT_EQ(about_ns(2e9), "2.00 s");
  EXPECT_EQ(about_ns(120e9), "120 s");
}

}  // namespace
}  // namespace penstock::tools

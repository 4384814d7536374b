#include "base/status.hpp"

#include <gtest/gtest.h>

#include <set>
#include <string>

#include "base/format.hpp"

namespace penstock {
namespace {

TEST(Status, EveryCodeHasANameOfItsOwn) {
  std::set<std::string> names;
  const int last = static_cast<int>(ErrorCode::internal);
  for (int code = 0; code <= last; ++code) names.insert(code_name(static_cast<ErrorCode>(code)));
  EXPECT_EQ(names.size(), static_cast<std::size_t>(last + 1));
  EXPECT_EQ(names.count("unknown"), 0u);
}

TEST(Status, CodeBeyondTheLastIsUnknown) {
  EXPECT_STREQ(code_name(static_cast<ErrorCode>(1000)), "unknown");
}

TEST(Status, FailFormatsItsMessage) {
  const Result<int> result = fail(ErrorCode::no_space, "{} of {} bytes are free", 3, 8);
  ASSERT_FALSE(result);
  EXPECT_EQ(result.error().code, ErrorCode::no_space);
  EXPECT_EQ(result.error().message, "3 of 8 bytes are free");
  EXPECT_STREQ(code_name(result.error().code), "no_space");
}

TEST(Printable, ControlCharactersDoNotReachATerminal) {
  EXPECT_EQ(base::printable("halo\x1b[2J\n\x7f"
                            "x"),
            "halo?[2J??x");
  EXPECT_EQ(base::printable("grüße"), "grüße");
}

}  // namespace
}  // namespace penstock

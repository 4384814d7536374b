#include "base/log.hpp"

#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdlib>
#include <string>

namespace penstock::base {
namespace {

// A process reads the threshold once, so each case runs in a process of its own.
class LogDeathTest : public testing::Test {
 protected:
  LogDeathTest() { GTEST_FLAG_SET(death_test_style, "threadsafe"); }

  [[noreturn]] static void log_at(const char* threshold, Level level) {
    if (threshold != nullptr) {
      setenv("PENSTOCK_LOG", threshold, 1);
    } else {
      unsetenv("PENSTOCK_LOG");
    }
    log(level, "value {}", 7);
    _exit(0);
  }
};

TEST_F(LogDeathTest, WarningsAppearByDefault) {
  EXPECT_EXIT(log_at(nullptr, Level::warn), testing::ExitedWithCode(0),
              "^penstock: warn: value 7\n$");
}

TEST_F(LogDeathTest, InformationDoesNotAppearByDefault) {
  EXPECT_EXIT(log_at(nullptr, Level::info), testing::ExitedWithCode(0), "^$");
}

TEST_F(LogDeathTest, DebugAppearsWhenAskedFor) {
  EXPECT_EXIT(log_at("debug", Level::debug), testing::ExitedWithCode(0),
              "^penstock: debug: value 7\n$");
}

TEST_F(LogDeathTest, ErrorThresholdHidesWarnings) {
  EXPECT_EXIT(log_at("error", Level::warn), testing::ExitedWithCode(0), "^$");
}

TEST_F(LogDeathTest, UnknownThresholdIsNamed) {
  EXPECT_EXIT(log_at("loud", Level::error), testing::ExitedWithCode(0),
              "PENSTOCK_LOG is 'loud'.*\npenstock: error: value 7");
}

TEST(Log, LineIsWrittenWhole) {
  testing::internal::CaptureStderr();
  log_line(Level::error, "text with {braces}");
  EXPECT_EQ(testing::internal::GetCapturedStderr(), "penstock: error: text with {braces}\n");
}

std::string taken;
const LogHost info_host = {
    [](Level level) { return level <= Level::info; },
    [](Level, std::string_view text, const SourcePlace& where) {
      taken = fmt::format("{}:{}", where.function, text);
    },
};

TEST(Log, HostTakesWhatItWants) {
  set_log_host(&info_host);
  testing::internal::CaptureStderr();
  log(Level::info, "value {}", 7);
  set_log_host(nullptr);
  EXPECT_EQ(testing::internal::GetCapturedStderr(), "");
  EXPECT_NE(taken.find("TestBody"), std::string::npos) << taken;
  EXPECT_EQ(taken.substr(taken.rfind(':')), ":value 7");
}

TEST_F(LogDeathTest, FallsBackToStandardError) {
  static constexpr LogHost none = {[](Level) { return false; },
                                   [](Level, std::string_view, const SourcePlace&) {}};
  EXPECT_EXIT(
      {
        set_log_host(&none);
        log_at("info", Level::info);
      },
      testing::ExitedWithCode(0), "^penstock: info: value 7\n$");
}

}  // namespace
}  // namespace penstock::base

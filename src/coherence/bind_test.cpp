#include <fmt/core.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>

#include "arch/arch.hpp"
#include "base/environment_guard.hpp"
#include "coherence/coherence.hpp"

namespace penstock::coherence {
namespace {

using base::EnvironmentGuard;
using testing::HasSubstr;

TEST(Mode, NamesRoundTrip) {
  for (Mode mode : {Mode::hardware, Mode::software, Mode::uncached, Mode::simulated}) {
    EXPECT_EQ(parse_mode(mode_name(mode)).value(), mode);
  }
  EXPECT_STREQ(mode_name(static_cast<Mode>(77)), "unknown");
}

TEST(Mode, RefusesOtherTextsAndNamesThem) {
  for (const char* text : {"", "Hardware", "soft", "unknown"}) {
    const auto mode = parse_mode(text);
    ASSERT_FALSE(mode) << text;
    EXPECT_EQ(mode.error().code, ErrorCode::invalid_argument);
    EXPECT_THAT(mode.error().message, HasSubstr(fmt::format("'{}'", text)));
  }
}

TEST(Mode, ComesFromTheEnvironmentIfItIsSet) {
  const EnvironmentGuard unset("PENSTOCK_MODE", nullptr);
  EXPECT_EQ(mode_from_environment().value(), std::nullopt);
  ::setenv("PENSTOCK_MODE", "uncached", 1);
  EXPECT_EQ(mode_from_environment().value(), Mode::uncached);
  ::setenv("PENSTOCK_MODE", "fast", 1);
  EXPECT_FALSE(mode_from_environment());
}

TEST(Bind, GivesTheModeAskedFor) {
  const auto hardware = bind(Mode::hardware);
  ASSERT_TRUE(hardware);
  EXPECT_EQ(hardware->mode(), Mode::hardware);
  EXPECT_FALSE(hardware->loads_may_be_stale());
  const auto uncached = bind(Mode::uncached);
  ASSERT_TRUE(uncached);
  EXPECT_EQ(uncached->mode(), Mode::uncached);
  EXPECT_FALSE(uncached->loads_may_be_stale());
}

TEST(Bind, SimulatedIsTheSimulatorsAffair) {
  const auto memory = bind(Mode::simulated);
  ASSERT_FALSE(memory);
  EXPECT_EQ(memory.error().code, ErrorCode::invalid_argument);
  EXPECT_THAT(memory.error().message, HasSubstr("simulator"));
}

TEST(Bind, UnknownModeFromAPoolIsAnError) {
  const auto memory = bind(static_cast<Mode>(99));
  ASSERT_FALSE(memory);
  EXPECT_EQ(memory.error().code, ErrorCode::wrong_format);
  EXPECT_THAT(memory.error().message, HasSubstr("99"));
}

class BindSoftware : public testing::Test {
 protected:
  void SetUp() override {
    if (!arch::features().partial_nt_store || !arch::features().clflush) {
      GTEST_SKIP() << "this CPU cannot run software mode";
    }
  }
};

TEST_F(BindSoftware, LoadsMayBeStale) {
  const auto memory = bind(Mode::software);
  ASSERT_TRUE(memory);
  EXPECT_EQ(memory->mode(), Mode::software);
  EXPECT_TRUE(memory->loads_may_be_stale());
}

TEST_F(BindSoftware, InstructionOfTheEnvironmentIsTaken) {
  const EnvironmentGuard guard("PENSTOCK_FLUSH", "clflush");
  EXPECT_TRUE(bind(Mode::software));
}

TEST_F(BindSoftware, BadInstructionOfTheEnvironmentIsNamed) {
  const EnvironmentGuard guard("PENSTOCK_FLUSH", "flush");
  const auto memory = bind(Mode::software);
  ASSERT_FALSE(memory);
  EXPECT_EQ(memory.error().code, ErrorCode::invalid_argument);
  EXPECT_THAT(memory.error().message, HasSubstr("PENSTOCK_FLUSH is 'flush'"));
  EXPECT_TRUE(bind(Mode::software, FlushChoice::clflush)) << "an explicit choice does not read it";
  EXPECT_TRUE(bind(Mode::hardware)) << "hardware mode does not flush";
}

TEST_F(BindSoftware, InstructionThatTheCpuLacksIsAnError) {
  const auto memory = bind(Mode::software, FlushChoice::clwb);
  ASSERT_EQ(memory.has_value(), arch::features().clwb);
  if (!memory) {
    EXPECT_THAT(memory.error().message, HasSubstr("clwb"));
  }
}

TEST(BindDeathTest, SoftwareNeedsFlushInstructions) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  EXPECT_EXIT(
      {
        setenv("PENSTOCK_ISA", "generic", 1);
        const auto memory = bind(Mode::software);
        std::fprintf(stderr, "%s", memory ? "bound" : memory.error().message.c_str());
        _exit(bind(Mode::hardware) ? 0 : 1);
      },
      testing::ExitedWithCode(0), "'generic' has not all of them.*penstock pool create SPEC");
}

}  // namespace
}  // namespace penstock::coherence

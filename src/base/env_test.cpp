#include "base/env.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <set>

#include "base/environment_guard.hpp"

namespace penstock::base {
namespace {

using testing::HasSubstr;

TEST(Env, TableNamesAreUniqueAndComplete) {
  std::set<std::string> names;
  for (const Variable& variable : variables()) {
    EXPECT_TRUE(std::string(variable.name).starts_with("PENSTOCK_")) << variable.name;
    EXPECT_TRUE(names.insert(variable.name).second) << variable.name << " stands twice";
    EXPECT_STRNE(variable.values, "") << variable.name;
    EXPECT_TRUE(std::string(variable.meaning).ends_with(".")) << variable.name;
  }
  EXPECT_GE(names.size(), 15u);
}

TEST(Env, GivesTheDefaultUnlessSet) {
  const EnvironmentGuard unset("PENSTOCK_TIMEOUT_MS", nullptr);
  EXPECT_EQ(env_text("PENSTOCK_TIMEOUT_MS"), "60000");
  EXPECT_FALSE(env_is_set("PENSTOCK_TIMEOUT_MS"));
  const EnvironmentGuard set("PENSTOCK_TIMEOUT_MS", "5");
  EXPECT_EQ(env_text("PENSTOCK_TIMEOUT_MS"), "5");
  EXPECT_EQ(env_number("PENSTOCK_TIMEOUT_MS").value(), 5u);
  EXPECT_TRUE(env_is_set("PENSTOCK_TIMEOUT_MS"));
}

TEST(Env, OnlyTestsHaveThePrefixOfTests) {
  Audience last = Audience::user;
  for (const Variable& variable : variables()) {
    EXPECT_EQ(std::string(variable.name).starts_with("PENSTOCK_SIM_"),
              variable.audience == Audience::tests)
        << variable.name;
    EXPECT_GE(variable.audience, last) << variable.name << ": the table is sorted by audience";
    last = variable.audience;
  }
}

TEST(Env, EmptyValueCountsAsUnset) {
  const EnvironmentGuard empty("PENSTOCK_LEASE_MS", "");
  EXPECT_FALSE(env_is_set("PENSTOCK_LEASE_MS"));
  EXPECT_EQ(env_number("PENSTOCK_LEASE_MS").value(), 10'000u);
}

TEST(Env, NumberTakesSuffixes) {
  const EnvironmentGuard size("PENSTOCK_SIZE", "64M");
  EXPECT_EQ(env_number("PENSTOCK_SIZE").value(), 64u << 20);
}

TEST(Env, BadNumberNamesVariableAndValue) {
  const EnvironmentGuard nodes("PENSTOCK_NODES", "many");
  const auto number = env_number("PENSTOCK_NODES");
  ASSERT_FALSE(number);
  EXPECT_EQ(number.error().code, ErrorCode::invalid_argument);
  EXPECT_THAT(number.error().message, HasSubstr("PENSTOCK_NODES"));
  EXPECT_THAT(number.error().message, HasSubstr("'many'"));
}

TEST(Env, NumberWithoutValueAndDefaultIsAnError) {
  const EnvironmentGuard unset("PENSTOCK_NODES", nullptr);
  const auto number = env_number("PENSTOCK_NODES");
  ASSERT_FALSE(number);
  EXPECT_THAT(number.error().message, HasSubstr("PENSTOCK_NODES is not set"));
}

TEST(Env, NumbersOfAnotherFormAreRefused) {
  for (const Variable& variable : variables()) {
    const std::string values = variable.values;
    if (values != "count" && values != "ms" && values != "bytes" && values != "index") continue;
    for (const char* wrong : {"nan", "inf", "-inf", "1e999", "-1", "1.5", "0x10", " 1",
                              "99999999999999999999999", "20000000T"}) {
      const EnvironmentGuard guard(variable.name, wrong);
      ASSERT_FALSE(env_number(variable.name)) << variable.name << "=" << wrong;
      const auto checked = check_variables();
      ASSERT_FALSE(checked) << variable.name << "=" << wrong;
      EXPECT_THAT(checked.error().message, HasSubstr(variable.name));
    }
  }
  EXPECT_TRUE(check_variables());
}

TEST(Env, NumbersHaveBounds) {
  for (const Variable& variable : variables()) {
    if (variable.most == UINT64_MAX) continue;
    const EnvironmentGuard most(variable.name, std::to_string(variable.most).c_str());
    EXPECT_EQ(env_number(variable.name).value_or(0), variable.most) << variable.name;
    const EnvironmentGuard more(variable.name, std::to_string(variable.most + 1).c_str());
    EXPECT_FALSE(env_number(variable.name)) << variable.name;
  }
  // In nanoseconds they fit into 64 bits.
  for (const char* name : {"PENSTOCK_LEASE_MS", "PENSTOCK_TIMEOUT_MS"}) {
    const auto found = std::ranges::find_if(
        variables(), [&](const Variable& variable) { return variable.name == std::string(name); });
    EXPECT_LE(found->most, UINT64_MAX / 1'000'000) << name;
  }
}

TEST(Env, LastItemOfANameCounts) {
  const EnvironmentGuard items("PENSTOCK_CHANNELS", "cell=64K,get=1M,cell=8K,get=");
  EXPECT_EQ(env_item("PENSTOCK_CHANNELS", "cell").value(), 8192u);
  EXPECT_EQ(env_item("PENSTOCK_CHANNELS", "get").value(), std::nullopt);
  EXPECT_EQ(env_item("PENSTOCK_CHANNELS", "put").value(), std::nullopt);
  EXPECT_TRUE(check_variables());
}

TEST(Env, ItemsOfAnotherFormAreRefused) {
  for (const auto& [wrong, says] : std::initializer_list<std::pair<const char*, const char*>>{
           {"cell", "'cell'; it must be NAME=NUMBER,... with the names cell, cells"},
           {"speed=9", "'speed=9'"},
           {"cell=1K", "cell=1K; cell is a multiple of 64 from 4096 to 16777216"},
           {"cell=5000", "cell=5000"},
           {"cells=many", "cells=many; cells is a multiple of 8 from 8 to 1024"},
           {"put=1,first_lines=48", "first_lines=48; first_lines is a power of two from 16"},
           {"get=32", "get=32; get is a number of at least 33"}}) {
    const EnvironmentGuard items("PENSTOCK_CHANNELS", wrong);
    EXPECT_FALSE(env_item("PENSTOCK_CHANNELS", "put")) << wrong;
    const auto checked = check_variables();
    ASSERT_FALSE(checked) << wrong;
    EXPECT_THAT(checked.error().message, HasSubstr("PENSTOCK_CHANNELS has "));
    EXPECT_THAT(checked.error().message, HasSubstr(says));
  }
}

TEST(Env, FlagsOtherThan0And1AreRefused) {
  for (const char* right : {"0", "1", "no", "ON"}) {
    const EnvironmentGuard guard("PENSTOCK_REQUIRE", right);
    EXPECT_TRUE(check_variables()) << right;
  }
  for (const char* wrong : {"2", "nan", "maybe"}) {
    const EnvironmentGuard guard("PENSTOCK_REQUIRE", wrong);
    ASSERT_FALSE(check_variables()) << wrong;
    EXPECT_THAT(check_variables().error().message, HasSubstr("it must be 0 or 1"));
  }
}

TEST(Env, CheckFindsWordsThatAreNoChoice) {
  for (const char* right : {"auto", "always", "never", ""}) {
    const EnvironmentGuard guard("PENSTOCK_COLL_SWITCH", right);
    EXPECT_TRUE(check_variables()) << right;
  }
  {
    const EnvironmentGuard wrong("PENSTOCK_COLL_SWITCH", "alway");
    ASSERT_FALSE(check_variables());
    EXPECT_EQ(check_variables().error().message,
              "PENSTOCK_COLL_SWITCH is 'alway'; it must be one of auto, always, never: export "
              "PENSTOCK_COLL_SWITCH=always, or unset it");
  }
  const EnvironmentGuard any_words("PENSTOCK_COLL_TUNING", "whatever");
  EXPECT_TRUE(check_variables());
}

TEST(Env, IndexHasARange) {
  {
    const EnvironmentGuard unset("PENSTOCK_NODE", nullptr);
    EXPECT_EQ(*env_index("PENSTOCK_NODE"), std::nullopt);
  }
  {
    const EnvironmentGuard last("PENSTOCK_NODE", "65535");
    EXPECT_EQ(*env_index("PENSTOCK_NODE"), 65535u);
  }
  for (const char* wrong : {"65536", "4294967296", "one", "-1"}) {
    const EnvironmentGuard guard("PENSTOCK_NODE", wrong);
    const auto index = env_index("PENSTOCK_NODE");
    ASSERT_FALSE(index) << wrong;
    EXPECT_THAT(index.error().message, HasSubstr("PENSTOCK_NODE is"));
  }
}

TEST(Env, FlagKnowsTheUsualWords) {
  for (const char* yes : {"1", "true", "yes", "on", "ON", "True"}) {
    const EnvironmentGuard guard("PENSTOCK_REQUIRE", yes);
    EXPECT_TRUE(env_flag("PENSTOCK_REQUIRE")) << yes;
  }
  for (const char* no : {"0", "false", "no", "off", "", "2"}) {
    const EnvironmentGuard guard("PENSTOCK_REQUIRE", no);
    EXPECT_FALSE(env_flag("PENSTOCK_REQUIRE")) << no;
  }
}

std::string nearest_to(const char* name) {
  const EnvironmentGuard guard(name, "1");
  for (const UnknownVariable& unknown : unknown_variables()) {
    if (unknown.name == name) return unknown.nearest;
  }
  return "not reported";
}

TEST(Env, UnknownVariablesComeWithTheNearestName) {
  EXPECT_EQ(nearest_to("PENSTOCK_POOOL"), "PENSTOCK_POOL");
  EXPECT_EQ(nearest_to("PENSTOCK_TIMEOUT"), "PENSTOCK_TIMEOUT_MS");
  EXPECT_EQ(nearest_to("PENSTOCK_SUMARY"), "PENSTOCK_SUMMARY");
  EXPECT_EQ(nearest_to("PENSTOCK_SOMETHING_ELSE_ENTIRELY"), "");
  EXPECT_EQ(nearest_to("PENSTOCK_"), "");
  EXPECT_EQ(nearest_to("PENSTOCK_POOL"), "not reported");
  EXPECT_EQ(nearest_to("OTHER_POOL"), "not reported");
}

TEST(Env, WarnsAboutUnknownVariablesOnce) {
  const EnvironmentGuard guard("PENSTOCK_POOOL", "shm:x");
  testing::internal::CaptureStderr();
  warn_unknown_variables();
  warn_unknown_variables();
  const std::string text = testing::internal::GetCapturedStderr();
  EXPECT_THAT(text, HasSubstr("PENSTOCK_POOOL is not a variable of Penstock; did you mean "
                              "PENSTOCK_POOL?"));
  EXPECT_EQ(text.find("PENSTOCK_POOOL"), text.rfind("PENSTOCK_POOOL")) << text;
}

}  // namespace
}  // namespace penstock::base

#include "base/nearest.hpp"

#include <gtest/gtest.h>

#include <vector>

namespace penstock::base {
namespace {

TEST(Nearest, WhatAWordMayHaveMeant) {
  const std::vector<std::string> known = {"pool", "doctor", "run", "env", "ps", "bench"};
  EXPECT_EQ(nearest("docter", known), "doctor");
  EXPECT_EQ(nearest("evn", known), "env");
  EXPECT_EQ(nearest("benchmark", known), "bench");
  EXPECT_EQ(nearest("run", known), "run");
  EXPECT_EQ(nearest("top", known), "") << "another word";
  EXPECT_EQ(nearest("x", known), "");
  EXPECT_EQ(nearest("", known), "");
}

}  // namespace
}  // namespace penstock::base

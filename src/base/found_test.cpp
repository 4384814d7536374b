#include "base/found.hpp"

#include <gtest/gtest.h>

namespace penstock::base {
namespace {

TEST(Found, IsFoundOnce) {
  Found<int> found;
  int searches = 0;
  const auto find = [&] { return ++searches; };
  const int* const first = &found.get(find);
  EXPECT_EQ(*first, 1);
  EXPECT_EQ(&found.get(find), first);
  EXPECT_EQ(searches, 1);
}

/// As by the constructor of a library that the search loads.
TEST(Found, MayBeAskedForDuringTheSearch) {
  Found<int> found;
  const auto search = [&] { return found.get([] { return 1; }) + 1; };
  EXPECT_EQ(found.get(search), 1);
  EXPECT_EQ(found.get(search), 1);
}

}  // namespace
}  // namespace penstock::base

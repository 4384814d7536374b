#include "device/owner.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

namespace penstock::device {
namespace {

using ::testing::HasSubstr;

constexpr std::uint32_t stranger = 4'000'000;  // a uid without name on every host

std::string why(const Owner& owner, std::string_view trusted = "") {
  return reason_to_distrust(owner, Part{.path = "/pools/one"}, trusted).value_or("");
}

TEST(Owner, TrustsOwnPoolsAndRoots) {
  EXPECT_EQ(why({.uid = ::geteuid(), .permissions = 0600}), "");
  EXPECT_EQ(why({.uid = ::geteuid(), .permissions = 0660}), "")
      << "the group was chosen by this user";
  EXPECT_EQ(why({.uid = 0, .permissions = 0660}), "");
  EXPECT_EQ(why({.uid = 0, .permissions = 0664}), "") << "to read is their loss";
}

TEST(Owner, TrustsOthersOnlyWhenNamed) {
  const Owner theirs{.uid = stranger, .gid = stranger, .permissions = 0660};
  const std::string refusal = why(theirs);
  EXPECT_THAT(refusal, HasSubstr("/pools/one belongs to uid 4000000:gid 4000000 0660"));
  EXPECT_THAT(refusal, HasSubstr("--trust-owner 4000000 (or :4000000"));
  EXPECT_EQ(why(theirs, "somebody,4000000"), "");
  EXPECT_EQ(why(theirs, ":4000000"), "") << "the pool is its group's";
  EXPECT_NE(why(theirs, "4000001"), "") << "a group is no user";
  EXPECT_NE(why({.uid = stranger, .gid = stranger, .permissions = 0600}, ":4000000"), "");
  EXPECT_NE(why(theirs, "40000000"), "");
  EXPECT_EQ(why(theirs, "everybody"), "");
}

TEST(Owner, DistrustsWorldWritablePools) {
  for (const std::uint32_t uid : {0u, ::geteuid(), stranger}) {
    EXPECT_THAT(why({.uid = uid, .permissions = 0666}, user_name(uid)), HasSubstr("chmod o-rw"));
    EXPECT_EQ(why({.uid = uid, .permissions = 0666}, "everybody"), "");
  }
}

}  // namespace
}  // namespace penstock::device

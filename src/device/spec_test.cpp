#include <gmock/gmock.h>

#include <filesystem>

#include "device/spec.hpp"

namespace penstock::device {
namespace {

using testing::HasSubstr;

std::string error_of(std::string_view spec) {
  auto parts = parse_spec(spec);
  return parts ? "parsed" : parts.error().message;
}

TEST(Spec, ParsesAllKinds) {
  auto parts = parse_spec("/dev/dax0.0,/tmp/pool,shm:demo-1,./here");
  ASSERT_TRUE(parts);
  ASSERT_EQ(parts->size(), 4u);
  EXPECT_EQ((*parts)[0].kind, Part::Kind::devdax);
  EXPECT_EQ((*parts)[0].path, "/dev/dax0.0");
  EXPECT_EQ((*parts)[1].kind, Part::Kind::file);
  EXPECT_EQ((*parts)[2].kind, Part::Kind::shm);
  EXPECT_EQ((*parts)[2].text, "shm:demo-1");
  EXPECT_EQ((*parts)[2].path, "/dev/shm/penstock.demo-1");
  EXPECT_EQ((*parts)[3].path, "./here");
}

TEST(Spec, TreatsPathsUnderDevAsDevices) {
  auto parts = parse_spec("/dev/penstock/0x1,/dev/shm/pool,/dev/hugepages/pool");
  ASSERT_TRUE(parts);
  EXPECT_EQ((*parts)[0].kind, Part::Kind::devdax);
  EXPECT_EQ((*parts)[1].kind, Part::Kind::file);
  EXPECT_EQ((*parts)[2].kind, Part::Kind::file);
}

TEST(Spec, RefusesUnusableSpecs) {
  EXPECT_THAT(error_of(""), HasSubstr("no pool was named"));
  EXPECT_THAT(error_of(""), HasSubstr("PENSTOCK_POOL"));
  EXPECT_THAT(error_of("demo"), HasSubstr("write shm:demo or ./demo"));
  EXPECT_THAT(error_of("shm:"), HasSubstr("such as shm:demo"));
  EXPECT_THAT(error_of("shm:a/b"), HasSubstr("\"shm:a/b\""));
  EXPECT_THAT(error_of("shm:a b"), HasSubstr("letters, digits"));
  EXPECT_THAT(error_of("shm:" + std::string(300, 'x')), HasSubstr("1 to 200"));
  EXPECT_THAT(error_of("/tmp/a,,/tmp/b"), HasSubstr("empty part"));
  EXPECT_THAT(error_of("/tmp/a,"), HasSubstr("empty part"));
  EXPECT_THAT(error_of("/tmp/a,/tmp/b,/tmp/a"), HasSubstr("names \"/tmp/a\" twice"));
}

TEST(Spec, AbsoluteSpecNamesSamePool) {
  const std::string here = std::filesystem::current_path().string();
  EXPECT_EQ(absolute_spec("./a,b/../c/d,/e").value(), here + "/a," + here + "/c/d,/e");
  EXPECT_EQ(absolute_spec("shm:a,/dev/dax0.0").value(), "shm:a,/dev/dax0.0");
  EXPECT_FALSE(absolute_spec("a"));
}

TEST(Spec, TooManyParts) {
  std::string spec = "/tmp/p0";
  for (int i = 1; i <= 64; ++i) spec += ",/tmp/p" + std::to_string(i);
  EXPECT_THAT(error_of(spec), HasSubstr("has 65 parts, at most 64"));
}

}  // namespace
}  // namespace penstock::device

#include "device/devdax.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>

#include "device/part.hpp"
#include "device/test_folder.hpp"

namespace penstock::device {
namespace {

using testing::HasSubstr;

/// A fake sysfs with one dax device.
class FakeSysfs {
 public:
  explicit FakeSysfs(const std::string& driver) {
    std::filesystem::create_directories(device());
    std::filesystem::create_directories(folder_.file("bus/dax/drivers/" + driver));
    std::filesystem::create_directory_symlink(folder_.file("bus/dax/drivers/" + driver),
                                              device() + "/driver");
  }
  void set(const std::string& attribute, std::uint64_t value) const {
    std::ofstream(device() + "/" + attribute) << value << "\n";
  }
  const std::string& root() const { return folder_.path(); }

 private:
  std::string device() const { return folder_.file("bus/dax/devices/dax0.0"); }
  TestFolder folder_;
};

TEST(Devdax, ReadsSizeAndAlignmentFromSysfs) {
  FakeSysfs sysfs("device_dax");
  sysfs.set("size", 4ull << 30);
  sysfs.set("align", 1ull << 30);
  auto geometry = devdax_geometry_of("dax0.0", sysfs.root());
  ASSERT_TRUE(geometry) << geometry.error().message;
  EXPECT_EQ(geometry->bytes, 4ull << 30);
  EXPECT_EQ(geometry->alignment, 1ull << 30);
}

TEST(Devdax, AssumesAlignmentOnOldKernels) {
  FakeSysfs sysfs("device_dax");
  sysfs.set("size", 4ull << 30);
  EXPECT_EQ(devdax_geometry_of("dax0.0", sysfs.root())->alignment, 2ull << 20);
}

TEST(Devdax, SystemRamModeErrorNamesCommand) {
  FakeSysfs sysfs("kmem");
  sysfs.set("size", 4ull << 30);
  auto geometry = devdax_geometry_of("dax0.0", sysfs.root());
  ASSERT_FALSE(geometry);
  EXPECT_EQ(geometry.error().code, ErrorCode::mismatch);
  EXPECT_THAT(geometry.error().message,
              HasSubstr("daxctl reconfigure-device --mode=devdax --force dax0.0"));
  // the node in /dev disappears while the device serves as system memory
  const Error absent = devdax_absent("/dev/dax0.0", sysfs.root());
  EXPECT_EQ(absent.code, ErrorCode::mismatch);
  EXPECT_THAT(absent.message, HasSubstr("system-ram mode; run: daxctl reconfigure-device"));
}

TEST(Devdax, NamesOtherReasonsForAbsence) {
  FakeSysfs sysfs("device_dax");
  EXPECT_THAT(devdax_absent("/dev/dax0.0", sysfs.root()).message,
              HasSubstr("the kernel has dax0.0"));
  EXPECT_THAT(devdax_absent("/dev/dax9.9", sysfs.root()).message,
              HasSubstr("there is no device /dev/dax9.9"));
  EXPECT_EQ(devdax_absent("/dev/dax9.9", sysfs.root()).code, ErrorCode::not_found);
}

TEST(Devdax, RefusesImpossibleNumbers) {
  FakeSysfs sysfs("device_dax");
  EXPECT_EQ(devdax_geometry_of("dax0.0", sysfs.root()).error().code, ErrorCode::not_found);
  sysfs.set("size", 4ull << 30);
  sysfs.set("align", 3000);
  EXPECT_THAT(devdax_geometry_of("dax0.0", sysfs.root()).error().message,
              HasSubstr("alignment 3000"));
}

TEST(Devdax, RefusesOtherCharacterDevices) {
  auto parts = open_parts("/dev/null", Access::read);
  ASSERT_FALSE(parts);
  EXPECT_EQ(parts.error().code, ErrorCode::wrong_format);
  EXPECT_THAT(parts.error().message, HasSubstr("not a devdax"));
}

TEST(Devdax, RefusesNameWithoutDevice) {
  auto parts = open_parts("/dev/dax987.65", Access::read);
  ASSERT_FALSE(parts);
  EXPECT_EQ(parts.error().code, ErrorCode::not_found);
  EXPECT_THAT(parts.error().message, HasSubstr("penstock doctor"));
}

}  // namespace
}  // namespace penstock::device

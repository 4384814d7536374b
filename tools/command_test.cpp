#include "command.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <string>

namespace penstock::tools {
namespace {

using ::testing::HasSubstr;

void expect_mode(coherence::Mode mode, const std::string& reason, const std::string& spec) {
  const auto choice = choose_mode("auto", spec);
  ASSERT_TRUE(choice) << choice.error().message;
  EXPECT_EQ(choice->mode, mode) << spec;
  EXPECT_THAT(choice->reason, HasSubstr(reason)) << spec;
}

TEST(ChooseMode, MemoryOfThisHostIsCoherent) {
  expect_mode(coherence::Mode::hardware, "this host's own memory", "shm:pool");
  expect_mode(coherence::Mode::hardware, "this host's own memory", "/dev/shm/pool,shm:pool");
}

TEST(ChooseMode, DevicesMayBelongToSeveralHosts) {
  const char* reason = "may be mapped by several hosts";
  expect_mode(coherence::Mode::software, reason, "/dev/dax0.0");
  expect_mode(coherence::Mode::software, reason, "/dev/penstock/0x1");
  expect_mode(coherence::Mode::software, reason, "shm:pool,/dev/dax0.0");
}

/// The file system of a device's name says nothing about the device.
TEST(ChooseMode, LinksToDevicesAreDevices) {
  const std::string link = "/dev/shm/penstock-link-" + std::to_string(::getpid());
  std::filesystem::create_symlink("/dev/null", link);
  expect_mode(coherence::Mode::software, "may be mapped by several hosts", link);
  std::filesystem::remove(link);
}

TEST(ChooseMode, WhatIsAskedForIsTaken) {
  const auto choice = choose_mode("hardware", "/dev/dax0.0");
  ASSERT_TRUE(choice);
  EXPECT_EQ(choice->mode, coherence::Mode::hardware);
  EXPECT_THAT(choose_mode("fast", "shm:pool").error().message, HasSubstr("or --mode auto"));
}

}  // namespace
}  // namespace penstock::tools

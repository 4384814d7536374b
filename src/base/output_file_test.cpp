#include "base/output_file.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

#include "base/file.hpp"

namespace penstock::base {
namespace {

using testing::HasSubstr;

class OutputFileTest : public testing::Test {
 protected:
  void SetUp() override {
    path_ = testing::TempDir() + "penstock-output-" + std::to_string(::getpid());
  }
  void TearDown() override { std::filesystem::remove(path_); }

  std::string path_;
};

TEST_F(OutputFileTest, RefusesAnUnwritablePathWhenOpened) {
  for (const char* path : {"/proc/none", "/nowhere/a.json", "/tmp"}) {
    const auto file = OutputFile::open(path);
    ASSERT_FALSE(file) << path;
    EXPECT_EQ(file.error().code, ErrorCode::permission);
    EXPECT_THAT(file.error().message, HasSubstr(std::string("cannot write ") + path));
  }
}

TEST_F(OutputFileTest, KeepsTheOldContentsUntilItIsWritten) {
  std::ofstream(path_) << "an older and longer result";
  auto file = OutputFile::open(path_);
  ASSERT_TRUE(file);
  EXPECT_EQ(read_file(path_), "an older and longer result");
  ASSERT_TRUE(file->write("new"));
  EXPECT_EQ(read_file(path_), "new");
}

TEST_F(OutputFileTest, LeavesNoEmptyFileBehind) {
  ASSERT_TRUE(OutputFile::open(path_));
  EXPECT_FALSE(std::filesystem::exists(path_));
}

TEST_F(OutputFileTest, KeepsWhatWasWrittenWhenItIsMoved) {
  auto opened = OutputFile::open(path_);
  ASSERT_TRUE(opened);
  OutputFile file = std::move(*opened);
  ASSERT_TRUE(file.write("kept"));
  opened = OutputFile::open("");
  EXPECT_EQ(read_file(path_), "kept");
}

TEST_F(OutputFileTest, ReportsAFullDevice) {
  auto file = OutputFile::open("/dev/full");
  ASSERT_TRUE(file);
  EXPECT_THAT(file->write("text").error().message, HasSubstr("No space left on device"));
}

TEST_F(OutputFileTest, WritesNothingWithoutAPath) {
  auto file = OutputFile::open("");
  ASSERT_TRUE(file);
  EXPECT_TRUE(file->write("text"));
}

}  // namespace
}  // namespace penstock::base

#include "base/output_file.hpp"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
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

TEST_F(OutputFileTest, RefusesAPipeThatNobodyReads) {
  ASSERT_EQ(::mkfifo(path_.c_str(), 0600), 0);
  const auto file = OutputFile::open(path_);
  ASSERT_FALSE(file);
  EXPECT_EQ(file.error().code, ErrorCode::permission);
  EXPECT_THAT(file.error().message, HasSubstr(path_ + ": it is a pipe that no process reads"));
  EXPECT_TRUE(std::filesystem::is_fifo(path_));
}

TEST_F(OutputFileTest, WritesIntoAPipeThatIsRead) {
  ASSERT_EQ(::mkfifo(path_.c_str(), 0600), 0);
  const UniqueFd reader(::open(path_.c_str(), O_RDONLY | O_NONBLOCK | O_CLOEXEC));
  auto file = OutputFile::open(path_);
  ASSERT_TRUE(file) << file.error().message;
  ASSERT_TRUE(file->write("text"));
  char text[8] = {};
  EXPECT_EQ(::read(reader.get(), text, sizeof text), 4);
  EXPECT_STREQ(text, "text");
}

/// The reader may be gone when the result is written.
TEST_F(OutputFileTest, ReportsAPipeWhoseReaderHasGone) {
  ASSERT_EQ(::mkfifo(path_.c_str(), 0600), 0);
  UniqueFd reader(::open(path_.c_str(), O_RDONLY | O_NONBLOCK | O_CLOEXEC));
  auto file = OutputFile::open(path_);
  ASSERT_TRUE(file) << file.error().message;
  reader = UniqueFd();
  EXPECT_THAT(file->write("text").error().message, HasSubstr("Broken pipe"));
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

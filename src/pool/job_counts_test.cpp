#include "pool/job_counts.hpp"

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <filesystem>

namespace penstock::pool {
namespace {

class JobCountsTest : public testing::Test {
 protected:
  void SetUp() override {
    folder_ = testing::TempDir() + "penstock-counts-" + std::to_string(::getpid());
    std::filesystem::create_directory(folder_);
  }
  void TearDown() override { std::filesystem::remove_all(folder_); }

  std::string folder_;
};

TEST_F(JobCountsTest, SumsAllProcesses) {
  static JobCounter puts("test puts"), unused("test calls that nobody makes");
  puts.add(8);
  puts.add(100);
  const pid_t child = ::fork();
  if (child == 0) {
    puts.add(1);
    write_job_counts(folder_);
    ::_exit(0);
  }
  ::waitpid(child, nullptr, 0);
  write_job_counts(folder_);
  write_job_counts(folder_);  // replaces its file
  auto sums = read_job_counts(folder_);
  EXPECT_EQ(sums["test puts"], (JobCount{5, 217}));
  EXPECT_FALSE(sums.contains("test calls that nobody makes"));
}

TEST_F(JobCountsTest, NeedsNoFolder) {
  static JobCounter calls("test calls");
  calls.add(1);
  write_job_counts(folder_ + "/absent");
  EXPECT_TRUE(read_job_counts(folder_ + "/absent").empty());
}

}  // namespace
}  // namespace penstock::pool

#include "base/file.hpp"

#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>

namespace penstock::base {
namespace {

TEST(ReadFile, GivesAllOfAFile) {
  const std::string path = testing::TempDir() + "penstock-read-" + std::to_string(getpid());
  std::string text(10000, 'x');
  text[4096] = '\0';
  std::FILE* file = std::fopen(path.c_str(), "wb");
  ASSERT_NE(file, nullptr);
  std::fwrite(text.data(), 1, text.size(), file);
  std::fclose(file);
  EXPECT_EQ(read_file(path), text);
  std::remove(path.c_str());
  EXPECT_EQ(read_file(path), "");
}

TEST(ReadFile, AProcessThatIsBeingReapedIsNoError) {
  for (int i = 0; i < 20; ++i) {
    const pid_t child = fork();
    if (child == 0) _exit(0);
    const std::string path = "/proc/" + std::to_string(child) + "/environ";
    (void)read_file(path);
    waitpid(child, nullptr, 0);
    EXPECT_EQ(read_file(path), "");
  }
  EXPECT_EQ(read_file("/proc/self/mem"), "") << "unreadable at 0: EIO, not an exception";
}

}  // namespace
}  // namespace penstock::base

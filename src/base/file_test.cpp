#include "base/file.hpp"

#include <gtest/gtest.h>
#include <signal.h>
#include <sys/stat.h>
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

TEST(ReadFile, ParsesKernelValuesNumbersAndFolders) {
  const std::string folder = testing::TempDir() + "penstock-values-" + std::to_string(getpid());
  ASSERT_EQ(mkdir(folder.c_str(), 0700), 0);
  const auto write = [&](const char* name, const char* text) {
    std::FILE* file = std::fopen((folder + "/" + name).c_str(), "wb");
    ASSERT_NE(file, nullptr);
    std::fputs(text, file);
    std::fclose(file);
  };
  write("text", "two words \n");
  write("number", "18446744073709551615\n");
  write("hex", "0x1f\n");
  write("minus", "-1\n");
  write(".hidden", "0");
  EXPECT_EQ(read_value(folder + "/text"), "two words");
  EXPECT_EQ(read_number(folder + "/number"), 18446744073709551615u);
  EXPECT_EQ(read_number(folder + "/hex"), 31u);
  for (const char* none : {"/text", "/minus", "/absent"})
    EXPECT_EQ(read_number(folder + none), std::nullopt) << none;
  EXPECT_EQ(folder_entries(folder), (std::vector<std::string>{"hex", "minus", "number", "text"}));
  EXPECT_TRUE(folder_entries(folder + "/absent").empty());
  for (const char* name : {"/text", "/number", "/hex", "/minus", "/.hidden"})
    std::remove((folder + name).c_str());
  rmdir(folder.c_str());
}

TEST(ReadFile, AcceptsProcessBeingReaped) {
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

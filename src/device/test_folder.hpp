// A folder for pools, for tests.
#pragma once

#include <signal.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstdio>
#include <filesystem>
#include <mutex>
#include <string>

#include "base/format.hpp"

namespace penstock::device {

inline std::string unique_name() {
  static std::atomic<int> count{0};
  return fmt::format("pooltest-{}-{}", ::getpid(), count++);
}

/// Removes folders of test programs that were killed.
inline void remove_folders_of_the_killed() {
  std::error_code ignored;
  for (const auto& entry : std::filesystem::directory_iterator("/dev/shm", ignored)) {
    int pid = 0, number = 0;
    const std::string name = entry.path().filename();
    if (std::sscanf(name.c_str(), "pooltest-%d-%d", &pid, &number) != 2 || pid <= 0) continue;
    if (::kill(pid, 0) != 0 && errno == ESRCH) std::filesystem::remove_all(entry.path(), ignored);
  }
}

/// A temporary folder; the destructor removes it with all its files.
class TestFolder {
 public:
  TestFolder() : path_(fmt::format("/dev/shm/{}", unique_name())), owner_(::getpid()) {
    static std::once_flag once;
    std::call_once(once, remove_folders_of_the_killed);
    std::filesystem::create_directory(path_);
  }
  ~TestFolder() {
    if (owner_ != ::getpid()) return;
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }
  TestFolder(const TestFolder&) = delete;
  TestFolder& operator=(const TestFolder&) = delete;
  std::string file(const std::string& name) const { return path_ + "/" + name; }
  const std::string& path() const { return path_; }
  std::size_t entries() const {
    return static_cast<std::size_t>(std::distance(std::filesystem::directory_iterator(path_), {}));
  }

 private:
  std::string path_;
  pid_t owner_;
};

}  // namespace penstock::device

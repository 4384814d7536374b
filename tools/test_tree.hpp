// Files of /sys, /proc, /dev and /etc as a test needs them, and the doctor's findings in them.
#pragma once

#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

#include "doctor.hpp"

namespace penstock::tools {

class TestTree {
 public:
  TestTree() {
    std::string name = (std::filesystem::temp_directory_path() / "penstock-tools-XXXXXX").string();
    folder_ = ::mkdtemp(name.data());
    roots = {.sys = folder_ + "/sys", .proc = folder_ + "/proc", .dev = folder_ + "/dev"};
    roots.system = folder_;
    for (const char* each : {"/sys", "/proc", "/dev"}) {
      std::filesystem::create_directories(folder_ + each);
    }
  }
  ~TestTree() { std::filesystem::remove_all(folder_); }
  TestTree(const TestTree&) = delete;
  TestTree& operator=(const TestTree&) = delete;

  const std::string& folder() const { return folder_; }
  void write(const std::string& path, const std::string& text) const {
    std::filesystem::create_directories(std::filesystem::path(folder_ + path).parent_path());
    std::ofstream(folder_ + path) << text;
  }
  /// Makes a link; `to` exists from then on.
  void link(const std::string& path, const std::string& to) const {
    std::filesystem::create_directories(std::filesystem::path(folder_ + path).parent_path());
    std::filesystem::create_directories(folder_ + to);
    std::filesystem::create_symlink(folder_ + to, folder_ + path);
  }

  Roots roots;

 private:
  std::string folder_;
};

/// Returns the only finding; if there is not exactly one, prints them all.
inline Finding only(const Findings& findings) {
  std::string all;
  for (const Finding& finding : findings.all()) all += finding.what + "\n";
  EXPECT_EQ(findings.all().size(), 1u) << all;
  return findings.all().empty() ? Finding{} : findings.all().front();
}

inline ::testing::AssertionResult says(const Finding& finding, Verdict verdict,
                                       std::initializer_list<const char*> parts) {
  const std::string text = finding.what + "  -> " + finding.fix;
  if (finding.verdict != verdict) {
    return ::testing::AssertionFailure()
           << "verdict " << static_cast<int>(finding.verdict) << ": " << text;
  }
  for (const char* part : parts) {
    if (text.find(part) == std::string::npos) {
      return ::testing::AssertionFailure() << "no \"" << part << "\" in: " << text;
    }
  }
  return ::testing::AssertionSuccess();
}

}  // namespace penstock::tools

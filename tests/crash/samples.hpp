// The steps at which victims die: all steps if they are few, else a sample.
//   CRASH_SAMPLES=N  steps of each protocol (default: by test; all where there are no more)
//   TEST_SEED=N      of the sample: another than the usual
#pragma once

#include <fmt/core.h>

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <numeric>
#include <random>
#include <string>
#include <vector>

#include "base/seed_in_tests.hpp"

namespace penstock::crash {

inline std::uint64_t number_or(const char* name, std::uint64_t otherwise) {
  const char* text = std::getenv(name);
  return text != nullptr ? std::strtoull(text, nullptr, 0) : otherwise;
}

inline std::uint64_t seed() {
  return base::seed_in_tests();
}

/// Steps in [1, total], ascending; the first and the last are always among them.
inline std::vector<std::uint64_t> sample(std::uint64_t total, std::uint64_t default_samples) {
  const std::uint64_t wanted = number_or("CRASH_SAMPLES", default_samples);
  std::vector<std::uint64_t> steps(total);
  std::iota(steps.begin(), steps.end(), 1);
  if (total <= wanted || total < 3) return steps;
  std::mt19937_64 random(seed());
  std::shuffle(steps.begin() + 1, steps.end() - 1, random);
  std::swap(steps[1], steps.back());  // the last step
  steps.resize(std::max<std::uint64_t>(wanted, 2));
  std::sort(steps.begin(), steps.end());
  return steps;
}

/// One line of the report: how many victims died at how many steps, and how often the others
/// survived.
class CrashStatistics {
 public:
  CrashStatistics(std::string protocol, std::uint64_t total)
      : protocol_(std::move(protocol)), total_(total) {}
  void survived() { ++survived_; }
  void tried() { ++tried_; }
  ~CrashStatistics() {
    fmt::print("crash points: {}: survived {} of {} tried, {} in all, seed {}\n", protocol_,
               survived_, tried_, total_, seed());
  }
  CrashStatistics(const CrashStatistics&) = delete;
  CrashStatistics& operator=(const CrashStatistics&) = delete;

 private:
  std::string protocol_;
  std::uint64_t total_, tried_ = 0, survived_ = 0;
};

}  // namespace penstock::crash

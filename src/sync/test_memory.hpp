// Shared by the tests of this folder: zeroed lines, and each test in both coherent-host modes.
#pragma once

#include <gtest/gtest.h>

#include <cstddef>
#include <cstdlib>
#include <cstring>
#include <memory>

#include "coherence/coherence.hpp"

namespace penstock::sync {

class Lines {
 public:
  explicit Lines(std::size_t bytes)
      : at_(static_cast<std::byte*>(std::aligned_alloc(64, (bytes + 63) / 64 * 64))) {
    std::memset(at_.get(), 0, (bytes + 63) / 64 * 64);
  }
  std::byte* get() const { return at_.get(); }
  std::byte* line(std::size_t i) const { return at_.get() + 64 * i; }

 private:
  struct Free {
    void operator()(std::byte* at) const { std::free(at); }
  };
  std::unique_ptr<std::byte, Free> at_;
};

class EachMode : public testing::TestWithParam<coherence::Mode> {
 protected:
  void SetUp() override {
    auto bound = coherence::bind(GetParam());
    if (!bound) GTEST_SKIP() << bound.error().message;
    memory_ = *bound;
  }
  coherence::Memory memory_;
};

inline auto both_modes() {
  return testing::Values(coherence::Mode::hardware, coherence::Mode::software);
}
inline std::string mode_suffix(const testing::TestParamInfo<coherence::Mode>& info) {
  return coherence::mode_name(info.param);
}

inline constexpr std::uint64_t ms = 1'000'000;

}  // namespace penstock::sync

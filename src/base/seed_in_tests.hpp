// The seed of tests that draw at random: the same every time, so that a test that passed passes
// again. TEST_SEED=N sets another, as `make prove` does.
#pragma once

#include <cstdint>
#include <cstdlib>

namespace penstock::base {

inline std::uint64_t seed_in_tests() {
  constexpr std::uint64_t usual = 1;
  const char* text = std::getenv("TEST_SEED");
  return text != nullptr ? std::strtoull(text, nullptr, 0) : usual;
}

}  // namespace penstock::base

// What a scenario's runs came to, as a test's verdict and a row of the proof's table.
#pragma once

#include <gtest/gtest.h>

#include "sim/world/explore.hpp"

namespace penstock::sim {

inline void expect_held(const char* protocol, const char* method, const Tally& tally) {
  report(protocol, method, tally);
  EXPECT_TRUE(tally.held()) << tally.first_failure;
}

}  // namespace penstock::sim

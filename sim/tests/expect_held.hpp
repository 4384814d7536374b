// Turns the outcome of a scenario's runs into a test's verdict and a row of the proof's table.
#pragma once

#include <gtest/gtest.h>

#include "sim/world/explore.hpp"

namespace penstock::sim {

inline void expect_held(const char* protocol, const char* method, const RunStatistics& statistics) {
  report(protocol, method, statistics);
  EXPECT_TRUE(statistics.held()) << statistics.first_failure;
}

}  // namespace penstock::sim

// Kills or stops a process between two stores of a protocol.
//
// Every change of a pool goes through coherence::Memory, and production code gets every Memory from
// coherence::bind. The linker replaces that function (--wrap) by ours, which returns the same
// operations with counters. So a test names the exact step at which its victim dies, in unmodified
// protocol code and with real processes.
#pragma once

#include <cstdint>
#include <functional>

namespace penstock::crash {

enum class Deed { none, die, stop };

/// Starts to count the publishing steps of the calling thread. Before step `at` (from 1), `deed`
/// happens to the whole process. A publish of several lines is two steps: before it, and when half
/// of it has been stored.
void arm(std::uint64_t at, Deed deed);

/// Stops counting. Returns the number of steps.
std::uint64_t disarm();

/// Sets a hook that is called with the address of each line that the calling thread has loaded; {}
/// removes it.
void after_line_load(std::function<void(const void* from)> hook);

/// Operations of all kinds by the calling thread since it started.
struct Operations {
  std::uint64_t publishes = 0;      ///< calls
  std::uint64_t lines = 0;          ///< lines covered by publishes and write-backs
  std::uint64_t invalidations = 0;  ///< lines
};
Operations operations();

}  // namespace penstock::crash

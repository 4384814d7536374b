// Processes that die, or stop, between two stores of a protocol.
//
// Every operation that changes a pool goes through coherence::Memory, and every Memory of the
// production code comes from coherence::bind. The linker puts ours in its place (--wrap): the same
// operations, counted. So a test names the exact step at which its victim dies, in unmodified
// protocol code and with real processes.
#pragma once

#include <cstdint>
#include <functional>

namespace penstock::crash {

enum class Deed { none, die, stop };

/// Counts the publishing steps of the calling thread from now on; before step `at` (from 1) it
/// does `deed` to the whole process. A publish of several lines is two steps: before it, and when
/// half of it has been stored.
void arm(std::uint64_t at, Deed deed);

/// Counts no more. Gives the steps counted.
std::uint64_t disarm();

/// Called when the calling thread has loaded a line, with its address; {} for none.
void after_line_load(std::function<void(const void* from)> hook);

/// Operations of all kinds that the calling thread has made since it began.
struct Operations {
  std::uint64_t publishes = 0;      ///< calls
  std::uint64_t lines = 0;          ///< that the publishes and write-backs covered
  std::uint64_t invalidations = 0;  ///< lines
};
Operations operations();

}  // namespace penstock::crash

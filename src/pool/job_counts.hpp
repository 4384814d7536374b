// Counts of a process's calls that are not messages, for the totals of `penstock run`.
#pragma once

#include <atomic>
#include <cstdint>
#include <map>
#include <string>

namespace penstock::pool {

struct JobCount {
  std::uint64_t calls = 0, bytes = 0;
  bool operator==(const JobCount&) const = default;
};

/// Counts calls of one kind since the start of the process. One static object per kind; add()
/// neither allocates nor locks. Concurrent calls of add() may lose a count.
class JobCounter {
 public:
  /// `what`: printed name, such as "one-sided operations"; a one-line literal.
  explicit JobCounter(const char* what);
  JobCounter(const JobCounter&) = delete;
  JobCounter& operator=(const JobCounter&) = delete;

  void add(std::uint64_t bytes) {
    calls_.store(calls_.load(std::memory_order_relaxed) + 1, std::memory_order_relaxed);
    bytes_.store(bytes_.load(std::memory_order_relaxed) + bytes, std::memory_order_relaxed);
  }

 private:
  friend void write_job_counts(const std::string& folder);
  const char* what_;
  std::atomic<std::uint64_t> calls_{0}, bytes_{0};
  JobCounter* next_;
};

/// Writes the counts of this library in this process to their own file, replacing it. Does nothing
/// if the folder is not writable.
void write_job_counts(const std::string& folder);
/// The sums over all processes that have written into the folder, by `what`.
std::map<std::string, JobCount> read_job_counts(const std::string& folder);

}  // namespace penstock::pool

// A team of threads, by OpenMP if the compiler has it.
#pragma once

#include <functional>
#include <vector>

namespace penstock::bench::stream {

/// False in a build without OpenMP: a team then has one thread.
bool has_openmp();

/// Runs `work(index)` on `threads` threads at once and returns when all have ended. Thread 0 is the
/// caller. The others wait for the next call, as OpenMP's threads do. `work` must not throw.
void run_team(unsigned threads, const std::function<void(unsigned index)>& work);

/// While it lives, thread `index` of teams of this size runs on CPU `cpus[index]`; afterwards the
/// caller runs where it did before.
class PinnedTeam {
 public:
  explicit PinnedTeam(const std::vector<int>& cpus);
  PinnedTeam(const PinnedTeam&) = delete;
  PinnedTeam& operator=(const PinnedTeam&) = delete;
  ~PinnedTeam();

 private:
  std::vector<int> before_;
};

}  // namespace penstock::bench::stream

// The device accesses of a job with many ranks, phase by phase: the product's sources on simulated
// nodes. `penstock bench run ranks` prints them.
#include <fmt/core.h>
#include <sys/resource.h>

#include <cstdlib>
#include <cstring>

#include "base/clock.hpp"
#include "sim/tests/large_job.hpp"

namespace penstock::sim {
namespace {

struct Size {
  std::uint32_t ranks = 64, nodes = 4, windows = 1;
};

bool parse(int count, char** words, Size& size) {
  for (int i = 1; i + 1 < count; i += 2) {
    char* end = nullptr;
    const unsigned long value = std::strtoul(words[i + 1], &end, 10);
    if (*end != 0 || value == 0 || value > 16384) return false;
    if (std::strcmp(words[i], "--ranks") == 0) {
      size.ranks = static_cast<std::uint32_t>(value);
    } else if (std::strcmp(words[i], "--nodes") == 0) {
      size.nodes = static_cast<std::uint32_t>(value);
    } else if (std::strcmp(words[i], "--windows") == 0) {
      size.windows = static_cast<std::uint32_t>(value);
    } else {
      return false;
    }
  }
  return count % 2 == 1 && size.ranks % size.nodes == 0;
}

int measure(const Size& size) {
  open_files_for(size.ranks);
  SimulatedPool pool(pool_for(size.ranks, size.windows));
  prepare_endpoints(pool);
  Scenario scenario = large_scenario(pool, "job", size.ranks, size.nodes);
  scenario.faults = quiet_faults(scenario.faults);
  scenario.body = [&](World& world) {
    auto job = std::make_shared<LargeJob>(
        LargeJob{.ranks = size.ranks, .nodes = size.nodes, .windows = size.windows});
    spawn_job(world, pool, job);
    world.spawn(0, [&world, job] {
      world.until([&] { return job->is_counted(); });
      print_counts(*job);
    });
  };
  const RunStatistics statistics = explore(scenario, 1);
  if (!statistics.held()) {
    fmt::print(stderr, "simulated_ranks: {}\n", statistics.first_failure);
    return 1;
  }
  rusage used{};
  getrusage(RUSAGE_CHILDREN, &used);
  fmt::print("peak\t{}\n", static_cast<std::uint64_t>(used.ru_maxrss) << 10);
  return 0;
}

}  // namespace
}  // namespace penstock::sim

int main(int count, char** words) {
  penstock::sim::Size size;
  if (!penstock::sim::parse(count, words, size)) {
    fmt::print(
        stderr,
        "usage: simulated_ranks [--ranks N] [--nodes N] [--windows N], as many ranks on each "
        "node\n");
    return 2;
  }
  return penstock::sim::measure(size);
}

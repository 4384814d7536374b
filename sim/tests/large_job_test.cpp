// Whole jobs of many ranks on many nodes: messages, a barrier, a window, and the loss of a node.
#include <gtest/gtest.h>

#include "sim/tests/expect_held.hpp"
#include "sim/tests/large_job.hpp"
#include "sim/tests/ranks.hpp"

namespace penstock::sim {
namespace {

constexpr std::uint32_t next_ranks_a_node = 2;

struct Size {
  std::uint32_t ranks, nodes;
};
void PrintTo(const Size& size, std::ostream* out) {
  *out << size.ranks << " on " << size.nodes;
}

class LargeJobs : public testing::TestWithParam<Size> {};

/// Messages, a barrier and a window; then a node is lost, every survivor gets an error that names a
/// dead rank, and the next job runs on the other nodes. When the lost node is back, all memory is
/// free.
TEST_P(LargeJobs, LoseANode) {
  const auto [ranks, nodes] = GetParam();
  if (ranks > transport::max_endpoints) GTEST_SKIP() << "more ranks than endpoints";
  if (!open_files_for(ranks)) GTEST_SKIP() << "ulimit -Hn allows too few open files";
  SimulatedPool pool(pool_for(ranks));
  prepare_endpoints(pool);
  Scenario scenario = large_scenario(pool, "a node is lost", ranks, nodes);
  scenario.body = [&pool, ranks = ranks, nodes = nodes](World& world) {
    auto job = std::make_shared<LargeJob>(
        LargeJob{.ranks = ranks, .nodes = nodes, .lost_node = nodes - 1});
    auto next = std::make_shared<LargeJob>(
        LargeJob{.ranks = next_ranks_a_node * (nodes - 1), .nodes = nodes - 1, .name = "next"});
    spawn_job(world, pool, job);
    spawn_job(world, pool, next, [job] { return job->is_over(); });
    world.spawn(0, [&world, job, next] {
      world.until([&] { return next->is_over() && job->is_counted(); });
      world.require(job->notified == job->survivors(), "not all survivors were told");
      print_counts(*job);
    });
  };
  scenario.after = [&pool, nodes = nodes](World& world) {
    pool.visit_nodes(world, nodes);
    const auto attached = pool.attach(world);
    const auto arena = SimulatedPool::open_arena(world, *attached);
    const auto left = objects_besides_the_table(*arena);
    world.require(left == 0, fmt::format("{} objects are left behind", left));
  };
  expect_held("job", "random schedules", explore(scenario, 1));
}

INSTANTIATE_TEST_SUITE_P(Sizes, LargeJobs, testing::Values(Size{64, 4}, Size{256, 16}));
INSTANTIATE_TEST_SUITE_P(Long, LargeJobs, testing::Values(Size{512, 32}, Size{1024, 64}));
/// Six CPU-minutes and 11 GB: part of make large.
INSTANTIATE_TEST_SUITE_P(DISABLED_Thousands, LargeJobs, testing::Values(Size{4096, 64}));

}  // namespace
}  // namespace penstock::sim

// CCCL's own schedules move the right bytes, and grow as the paper says.
#include "model/published.hpp"

#include <gtest/gtest.h>

#include "model/collectives.hpp"
#include "model/growth.hpp"
#include "schedule/test_calls.hpp"
#include "schedule/test_model.hpp"

namespace penstock::model {
namespace {

using coll::Collective;

class PublishedTest : public testing::TestWithParam<Collective> {};

/// Runs on the same model of slots and doorbells as the engine's schedules
/// (src/schedule/schedule_test.cpp).
TEST_P(PublishedTest, GivesWhatTheCollectivePromises) {
  for (const std::uint32_t ranks : {2u, 3u, 6u}) {
    for (const std::uint32_t chunks : {1u, 2u, 5u}) {
      for (const ReadOrder order : {ReadOrder::after, ReadOrder::before}) {
        const std::uint64_t bytes = 64 * ranks * chunks;
        const bool shares = GetParam() == Collective::alltoall;
        coll::TestCall call{GetParam(), ranks, 0, false, true, {}};
        call.bytes.assign(ranks, std::vector<std::uint64_t>(ranks, shares ? bytes / ranks : bytes));
        const auto schedules = published(GetParam(), ranks, bytes, chunks, order);
        ASSERT_TRUE(schedules);
        std::vector<coll::Made> made;
        std::vector<coll::ModelRank> model;
        for (std::uint32_t r = 0; r < ranks; ++r) {
          made.push_back(coll::make(call, r));
          // Blocks lie one after the other, without the gaps that make() leaves between them.
          for (auto* blocks : {&made[r].problem.input, &made[r].problem.output})
            for (std::size_t b = 0; b < blocks->size(); ++b)
              (*blocks)[b].offset = b * (*blocks)[b].bytes;
          coll::fill(call, &made[r], r);
          model.push_back({(*schedules)[r], made[r].input, made[r].output, false});
        }
        ASSERT_EQ(coll::ScheduleModel(model, chunks * ranks, bytes, 7).run(true), "");
        for (std::uint32_t r = 0; r < ranks; ++r)
          EXPECT_EQ(coll::check_result(call, made, r, model[r].output), "");
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(All, PublishedTest,
                         testing::Values(Collective::allreduce, Collective::alltoall,
                                         Collective::broadcast),
                         [](const auto& param) { return name_of(param.param); });

/// Figure 10: the time on 6 and 12 nodes over that on 3, within 5 % of the paper's prose.
TEST(Growth, IsThePublishedOne) {
  const auto growth = published_growth();
  ASSERT_TRUE(growth);
  EXPECT_EQ(growth->size(), 6u);
  for (const Growth& each : *growth)
    EXPECT_TRUE(each.within(0.05))
        << name_of(each.collective) << ", " << each.nodes << " nodes: " << each.least << " to "
        << each.greatest << ", published " << each.published_least << " to "
        << each.published_greatest;
}

/// Derived by hand for K chunks: 3 nodes write a chunk and then read 2 S at the rate of their
/// engines; 6 have a device each, which carries 6 S; 12 have half a device each, which carries 12 S
/// a rank.
TEST(Growth, OfAnAllReduceIsTheFormula) {
  const PlatformSet& set = **find_platform("cccl");
  const std::uint64_t bytes = 960 << 20;
  const double s = static_cast<double>(bytes) / 20e9;
  for (const std::uint32_t chunks : {1u, 4u, 12u}) {
    const auto seconds = [&](std::uint32_t nodes) {
      const auto schedules =
          published(Collective::allreduce, nodes, bytes, chunks, ReadOrder::after);
      return run_schedules(set, {Collective::allreduce, nodes, 1, bytes}, *schedules)->seconds;
    };
    EXPECT_NEAR(seconds(3), s / chunks + 2 * s, 1e-6 * s);
    EXPECT_NEAR(seconds(6), 6 * s, 0.01 * s);
    EXPECT_NEAR(seconds(12), 24 * s, 0.01 * s);
  }
}

}  // namespace
}  // namespace penstock::model

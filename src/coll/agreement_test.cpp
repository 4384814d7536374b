// Facts that ranks learn from each other's offers. sim/tests/agreement_test.cpp has the rest.
#include "coll/agreement.hpp"

#include <gtest/gtest.h>

#include "pool/test_pool.hpp"

namespace penstock::coll {
namespace {

constexpr std::uint32_t ranks = 2;

/// The plan that each rank chooses for an allreduce of 1 MB.
std::vector<Plan> plans_where(const std::vector<bool>& has_gpu) {
  const pool::TestFolder folder;
  const std::string spec = folder.file("pool");
  EXPECT_TRUE(pool::create({.spec = spec, .bytes = 48 << 20, .max_processes = 16}));
  std::vector<std::unique_ptr<pool::Pool>> pools;
  std::vector<std::unique_ptr<arena::Arena>> arenas;
  std::vector<Agreement> agreements;
  std::vector<Offer> offers;
  for (std::uint32_t r = 0; r < ranks; ++r) {
    pools.push_back(
        *pool::Pool::attach({.spec = spec, .rank = static_cast<int>(r), .job = "plans"}));
    arenas.push_back(*arena::Arena::open(*pools[r]));
    agreements.emplace_back(ranks, r);
    EXPECT_TRUE(agreements[r].offer(space_in(*arenas[r], "communicator"), {.by_gpu = has_gpu[r]}));
    offers.push_back(agreements[r].own());
  }
  std::vector<Plan> plans;
  for (std::uint32_t r = 0; r < ranks; ++r) {
    const auto comm = Communicator::open(*pools[r], agreements[r].options(*pools[r], offers));
    EXPECT_TRUE(comm) << comm.error().message;
    plans.push_back((*comm)->plan({.collective = Collective::allreduce,
                                   .ranks = ranks,
                                   .rank = r,
                                   .element_bytes = 4,
                                   .max_block_bytes = 1 << 20}));
  }
  return plans;
}

TEST(Agreement, TakesPlansOfGpusIfOneHasGpu) {
  for (const auto& has_gpu : {std::vector{true, true}, std::vector{false, true}}) {
    const auto plans = plans_where(has_gpu);
    EXPECT_EQ(plans[0], plans[1]);
    EXPECT_EQ(plans[0].algorithm, Algorithm::one_shot);
    EXPECT_EQ(plans[0].chunks, 8u);
  }
}

TEST(Agreement, TakesPlansOfHostsWithoutGpus) {
  const auto plans = plans_where({false, false});
  EXPECT_EQ(plans[0], plans[1]);
  EXPECT_EQ(plans[0].algorithm, Algorithm::two_shot);
  EXPECT_EQ(plans[0].chunks, 0u);
}

}  // namespace
}  // namespace penstock::coll

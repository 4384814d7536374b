// Facts that ranks learn from each other's offers. sim/tests/agreement_test.cpp has the rest.
#include "coll/agreement.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>

#include "coll/prepared.hpp"
#include "coll/switch_interface.hpp"
#include "pool/test_pool.hpp"
#include "schedule/uniform.hpp"

namespace penstock::coll {
namespace {

/// A switch that every communicator has, if it is asked. It does no call.
class OwnSwitch : public SwitchPort {
 public:
  bool is_wanted(arena::Arena&) const override { return true; }
  bool does_all(arena::Arena&) const override { return false; }
  std::optional<arena::Object> ask(const Agreement::Space&, std::uint32_t, std::uint64_t,
                                   Offer& offer) override {
    offer.switch_region = 0;
    return std::nullopt;
  }
  bool withdraw() override { return true; }
  void complete(Options& options, const Offer& first) const override {
    options.always_in_switch = first.switch_region != Offer::none;
  }
};

/// Visits the communicator of each rank, by rank. `ports`: by rank; empty: no rank has one.
void for_agreed(const std::vector<Agreement::Wishes>& wishes,
                const std::function<void(Communicator& comm)>& visit,
                std::vector<std::shared_ptr<SwitchPort>> ports = {},
                coherence::Mode mode = coherence::Mode::software) {
  ports.resize(wishes.size());
  const pool::TestFolder folder;
  const std::string spec = folder.file("pool");
  EXPECT_TRUE(pool::create({.spec = spec, .bytes = 48 << 20, .mode = mode, .max_processes = 16}));
  const auto ranks = static_cast<std::uint32_t>(wishes.size());
  std::vector<std::unique_ptr<pool::Pool>> pools;
  std::vector<std::unique_ptr<arena::Arena>> arenas;
  std::vector<Agreement> agreements;
  std::vector<Offer> offers;
  for (std::uint32_t r = 0; r < ranks; ++r) {
    pools.push_back(
        *pool::Pool::attach({.spec = spec, .rank = static_cast<int>(r), .job = "plans"}));
    arenas.push_back(*arena::Arena::open(*pools[r]));
    agreements.emplace_back(ranks, r, ports[r]);
    EXPECT_TRUE(agreements[r].offer(space_in(*arenas[r], "communicator"), wishes[r]));
    offers.push_back(agreements[r].own());
  }
  for (std::uint32_t r = 0; r < ranks; ++r) {
    const auto comm = Communicator::open(*pools[r], agreements[r].options(*pools[r], offers));
    EXPECT_TRUE(comm) << comm.error().message;
    visit(**comm);
  }
}

/// The plan that each rank chooses for an allreduce of 1 MB.
std::vector<Plan> plans_where(const std::vector<bool>& has_gpu) {
  std::vector<Agreement::Wishes> wishes;
  for (const bool has : has_gpu) wishes.push_back({.by_gpu = has});
  std::vector<Plan> plans;
  for_agreed(wishes, [&](Communicator& comm) {
    plans.push_back(comm.plan({.collective = Collective::allreduce,
                               .ranks = comm.ranks(),
                               .rank = comm.self(),
                               .element_bytes = 4,
                               .max_block_bytes = 1 << 20}));
  });
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

/// Whichever form they have. A GPU that a rank cannot name may be anybody's.
TEST(Agreement, KnowsWhichRanksShareTheirGpu) {
  const auto shares = [](const std::vector<Agreement::Wishes>& wishes) {
    std::vector<bool> found;
    for_agreed(wishes, [&](Communicator& comm) { found.push_back(comm.shares_gpu()); });
    return found;
  };
  const Agreement::Wishes one{.by_gpu = true, .gpu = 11}, other{.by_gpu = true, .gpu = 12};
  const Agreement::Wishes direct{.direct = 11, .by_gpu = true, .gpu = 11};
  const Agreement::Wishes unknown{.by_gpu = true}, none{};
  using testing::ElementsAre;
  EXPECT_THAT(shares({one, other}), ElementsAre(false, false));
  EXPECT_THAT(shares({one, other, one}), ElementsAre(true, false, true));
  EXPECT_THAT(shares({direct, one}), ElementsAre(true, true));
  EXPECT_THAT(shares({unknown, unknown, one}), ElementsAre(true, true, false));
  EXPECT_THAT(shares({one, none}), ElementsAre(false, false));
}

TEST(Agreement, UsesSwitchOnlyIfAllRanksKnowSwitches) {
  const auto uses = [](bool first_knows, bool second_knows) {
    const auto port = [](bool knows) { return knows ? std::make_shared<OwnSwitch>() : nullptr; };
    std::vector<bool> found;
    const auto visit = [&](Communicator& comm) {
      found.push_back(comm.plan({.ranks = 2, .rank = comm.self()}).in_switch);
    };
    for_agreed({{}, {}}, visit, {port(first_knows), port(second_knows)});
    return found;
  };
  using testing::ElementsAre;
  EXPECT_THAT(uses(true, true), ElementsAre(true, true));
  EXPECT_THAT(uses(true, false), ElementsAre(false, false));
  EXPECT_THAT(uses(false, true), ElementsAre(false, false));
}

/// The longest block of a flagged allreduce on each rank: 0, or a number of KB.
std::vector<std::uint64_t> flagged_kb_of(const std::vector<Agreement::Wishes>& wishes,
                                         coherence::Mode mode = coherence::Mode::hardware) {
  std::vector<std::uint64_t> found;
  const auto longest_of = [&](Communicator& comm) {
    constexpr std::uint64_t kb = 1 << 10;
    std::uint64_t longest = 0;
    for (std::uint64_t bytes = kb; comm.is_direct() && bytes <= 64 * kb; bytes += kb) {
      const Problem problem =
          uniform_problem(Collective::allreduce, comm.ranks(), comm.self(), 0, bytes);
      const auto prepared = comm.prepare_direct({.problem = &problem, .plan = comm.plan(problem)});
      EXPECT_TRUE(prepared);
      if ((*prepared)->flagged) longest = bytes / kb;
    }
    EXPECT_EQ(comm.has_flagged_calls(), longest != 0);
    found.push_back(longest);
  };
  for_agreed(wishes, longest_of, {}, mode);
  return found;
}

/// A rank cannot take by lanes what another has flagged.
TEST(Agreement, FlagsWhatAllRanksCanFlag) {
  const auto offers = [](std::uint64_t gpu, std::uint32_t bytes, bool anyhow = false) {
    return Agreement::Wishes{.direct = gpu,
                             .flagged_bytes = bytes,
                             .flagged_anyhow = anyhow,
                             .by_gpu = true,
                             .gpu = gpu};
  };
  using testing::ElementsAre;
  EXPECT_THAT(flagged_kb_of({offers(11, 16 << 10), offers(12, 16 << 10)}), ElementsAre(16, 16));
  EXPECT_THAT(flagged_kb_of({offers(11, 16 << 10), offers(12, 3 << 10)}), ElementsAre(3, 3));
  EXPECT_THAT(flagged_kb_of({offers(11, 3 << 10), offers(12, 16 << 10)}), ElementsAre(3, 3));
  EXPECT_THAT(flagged_kb_of({offers(11, 0), offers(12, 16 << 10)}), ElementsAre(0, 0));
  EXPECT_THAT(flagged_kb_of({offers(11, 16 << 10), offers(12, 0)}), ElementsAre(0, 0));
  // Ranks that share a GPU.
  EXPECT_THAT(flagged_kb_of({offers(11, 16 << 10), offers(11, 16 << 10)}), ElementsAre(0, 0));
  EXPECT_THAT(flagged_kb_of({offers(11, 16 << 10, true), offers(11, 16 << 10)}), ElementsAre(0, 0));
  EXPECT_THAT(flagged_kb_of({offers(11, 16 << 10, true), offers(11, 16 << 10, true)}),
              ElementsAre(16, 16));
  EXPECT_THAT(flagged_kb_of({offers(11, ~0u), offers(12, ~0u)}), ElementsAre(32, 32));
  EXPECT_THAT(flagged_kb_of({offers(11, 16 << 10), {.by_gpu = true, .gpu = 12}}),
              ElementsAre(0, 0));
  EXPECT_THAT(
      flagged_kb_of({offers(11, 16 << 10), offers(12, 16 << 10)}, coherence::Mode::software),
      ElementsAre(0, 0));
}

}  // namespace
}  // namespace penstock::coll

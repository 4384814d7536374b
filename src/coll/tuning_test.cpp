// Tuning tables as text, as bytes and in a pool, and the plans that they choose.
#include "coll/tuning.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <cstring>
#include <fstream>
#include <random>

#include "base/checksum.hpp"
#include "base/environment_guard.hpp"
#include "base/seed_in_tests.hpp"
#include "coll/plan_override.hpp"
#include "coll/planning.hpp"
#include "coll/tuning_store.hpp"
#include "pool/test_pool.hpp"
#include "schedule/builder.hpp"

namespace penstock::coll {
namespace {

using testing::HasSubstr;

/// The rule that the built-in table implements.
Plan rule(const Problem& problem, const Shape& shape) {
  Plan plan;
  plan.slot_bytes = shape.slot_bytes;
  plan.eager = problem.collective == Collective::barrier;
  if (problem.max_block_bytes && !plan.eager) {
    const bool split = problem.ranks > 1 && spreads(problem.collective);
    const std::uint64_t stride = shape.eager_bytes / (split ? problem.ranks - 1 : 1) / 56 * 56;
    const std::uint64_t unit = is_reduction(problem.collective) ? problem.element_bytes : 1;
    plan.eager = *problem.max_block_bytes <= stride / unit * unit;
  }
  const bool worth_it =
      problem.ranks > 2 || problem.max_block_bytes.value_or(0) >= std::uint64_t{64} << 10;
  if (!plan.eager && problem.collective == Collective::allreduce && worth_it)
    plan.algorithm = Algorithm::two_shot;
  return plan;
}

TEST(Planning, TheBuiltInTableIsTheRule) {
  for (std::size_t collective = 0; collective < collective_count; ++collective) {
    for (const std::uint32_t ranks : {1u, 2u, 3u, 4u, 7u, 64u, 200u}) {
      for (const std::uint32_t element : {1u, 4u, 8u, 24u}) {
        for (const Shape& shape : {Shape{}, shape_for(ranks, 64 << 20)}) {
          Problem problem{.collective = static_cast<Collective>(collective),
                          .ranks = ranks,
                          .element_bytes = element};
          EXPECT_EQ(default_plan(problem, shape), rule(problem, shape));
          for (const std::uint64_t bytes :
               {0, 8, 56, 64, 1000, 4136, 4144, 4145, 4152, 65'535, 65'536, 1 << 20, 100 << 20}) {
            problem.max_block_bytes = bytes;
            EXPECT_EQ(default_plan(problem, shape), rule(problem, shape))
                << name_of(problem.collective) << ", " << ranks << " ranks, " << bytes << " bytes";
          }
        }
      }
    }
  }
}

Plan plan_by(const std::string& text, const Problem& problem, const Shape& shape = {},
             bool by_gpus = false) {
  const auto tuning = parse_tuning(text);
  EXPECT_TRUE(tuning) << tuning.error().message;
  return PlanTable(*tuning, by_gpus).plan(problem, shape);
}

TEST(Planning, ChunksOfGpusFollowTheSize) {
  constexpr std::uint64_t kb = 1 << 10, mb = 1 << 20;
  const Shape long_slots{.slot_bytes = 8 * mb};
  const auto chunk_of = [](const Problem& problem, const Shape& shape) {
    return cut_of(problem, plan_by("", problem, shape, true)).bytes;
  };
  Problem problem{.collective = Collective::allgather, .ranks = 4, .element_bytes = 4};
  const std::pair<std::uint64_t, std::uint64_t> wanted[] = {
      {64 * kb, 64 * kb}, {128 * kb, 128 * kb}, {mb, 128 * kb},     {4 * mb, 256 * kb},
      {16 * mb, mb},      {64 * mb, 2 * mb},    {1024 * mb, 2 * mb}};
  for (const auto& [block, chunk] : wanted) {
    problem.max_block_bytes = block;
    EXPECT_EQ(chunk_of(problem, long_slots), chunk) << block;
    EXPECT_EQ(chunk_of(problem, {.slot_bytes = 96 * kb}), std::min(chunk, 96 * kb)) << block;
  }
  problem.max_block_bytes = 3'000'003;  // not a whole number of lines
  EXPECT_EQ(chunk_of(problem, long_slots) % 64, 0u);
  problem.max_block_bytes.reset();
  EXPECT_EQ(plan_by("", problem, long_slots, true).chunks, 0u) << "not all ranks know the size";
  problem.collective = Collective::allreduce;
  problem.max_block_bytes = 64 * mb;
  EXPECT_EQ(chunk_of(problem, long_slots), mb) << "a share of 16 MB";
}

TEST(Planning, TwoRanksOfGpusReduceInOneShot) {
  Problem problem{.collective = Collective::allreduce, .ranks = 2, .element_bytes = 4};
  problem.max_block_bytes = 1 << 20;
  EXPECT_EQ(plan_by("", problem).algorithm, Algorithm::two_shot);
  EXPECT_EQ(plan_by("", problem, {}, true).algorithm, Algorithm::one_shot);
  problem.ranks = 3;
  EXPECT_EQ(plan_by("", problem, {}, true).algorithm, Algorithm::two_shot);
}

TEST(Planning, TablesAndOverridesPrecedePlansOfGpus) {
  Problem problem{.collective = Collective::allreduce, .ranks = 2, .element_bytes = 4};
  problem.max_block_bytes = 64 << 20;
  const Shape shape{.slot_bytes = 8 << 20};
  const Plan by_table = plan_by("allreduce two_shot chunk=4M", problem, shape, true);
  EXPECT_EQ(by_table.algorithm, Algorithm::two_shot);
  EXPECT_EQ(cut_of(problem, by_table).bytes, 4u << 20);
  const Plan built_in = plan_by("", problem, shape, true);
  const auto asked = *parse_plan_override("algorithm=two_shot,chunk=8M");
  const Plan by_user = asked.applied_to(built_in, problem, false);
  EXPECT_EQ(by_user.algorithm, Algorithm::two_shot);
  EXPECT_EQ(cut_of(problem, by_user).bytes, 8u << 20);
}

TEST(Planning, TakesTheFirstPossibleEntryThatMatches) {
  Problem problem{.collective = Collective::allreduce, .ranks = 2, .element_bytes = 4};
  problem.max_block_bytes = 1000;
  EXPECT_TRUE(plan_by("", problem).eager);
  EXPECT_FALSE(plan_by("allreduce bytes=600- one_shot", problem).eager);
  EXPECT_TRUE(plan_by("allreduce bytes=1001- one_shot", problem).eager);
  EXPECT_TRUE(plan_by("allreduce ranks=3- one_shot", problem).eager);
  EXPECT_TRUE(plan_by("reduce one_shot; all eager", problem).eager);
  EXPECT_EQ(plan_by("all two_shot; all one_shot", problem).algorithm, Algorithm::two_shot);
  EXPECT_EQ(plan_by("all one_shot chunk=4K", problem).slot_bytes, 4096u);
  EXPECT_EQ(plan_by("all one_shot chunk=1G", problem).slot_bytes, Shape{}.slot_bytes);
  EXPECT_EQ(plan_by("all one_shot variant=aggregate", problem).variant, Variant::aggregate);
}

const NodeMap two_nodes{{7, 7, 9, 9}};

TEST(Planning, EntriesMayBeForNodesOfSomeRanks) {
  Problem problem{.collective = Collective::allgather, .ranks = 4, .element_bytes = 4};
  problem.max_block_bytes = 1 << 20;
  const auto algorithm = [&](const std::string& text, const NodeMap& nodes) {
    return PlanTable(*parse_tuning(text)).plan(problem, Shape{}, nodes).algorithm;
  };
  const std::string two = "allgather per-node=2-3 two_level; allgather per-node=4- leaders";
  EXPECT_EQ(algorithm(two, two_nodes), Algorithm::two_level);
  EXPECT_EQ(algorithm(two, NodeMap{{1, 1, 1, 1}}), Algorithm::leaders);
  EXPECT_EQ(algorithm(two, NodeMap{{1, 2, 3, 4}}), Algorithm::one_shot);
  EXPECT_EQ(algorithm(two, {}), Algorithm::one_shot) << "the nodes are not told";
  EXPECT_EQ(algorithm("allgather two_level", {}), Algorithm::one_shot);
  EXPECT_EQ(algorithm("allgather two_level", two_nodes), Algorithm::two_level);
  problem.collective = Collective::alltoall;
  EXPECT_EQ(algorithm("all two_level", two_nodes), Algorithm::one_shot);
}

TEST(Planning, EntriesMayAskForTurnsChunksAndNaive) {
  Problem problem{.collective = Collective::broadcast, .ranks = 4};
  problem.max_block_bytes = 1 << 20;
  EXPECT_TRUE(plan_by("broadcast one_shot turns=1", problem).turns);
  EXPECT_EQ(plan_by("broadcast one_shot chunks=16", problem).chunks, 16u);
  EXPECT_EQ(plan_by("broadcast one_shot variant=naive", problem).variant, Variant::naive);
  Shape devices{.devices = 2};
  EXPECT_EQ(plan_by("broadcast one_shot variant=naive", problem, devices).variant, Variant::all)
      << "its slots were not asked for";
  devices.sequential = true;
  EXPECT_EQ(plan_by("broadcast one_shot variant=naive", problem, devices).variant, Variant::naive);
}

/// An entry that is impossible for a call is skipped, and the call gets a plan that runs.
TEST(Planning, WhatCannotBeIsPassedOver) {
  Problem problem{.collective = Collective::broadcast, .ranks = 2, .output = {{0, 1 << 20}}};
  problem.rank = 1;
  problem.max_block_bytes = 1 << 20;
  EXPECT_EQ(plan_by("all two_shot", problem).algorithm, Algorithm::one_shot);
  EXPECT_FALSE(plan_by("all eager", problem).eager);
  EXPECT_EQ(plan_by("reduce one_shot variant=aggregate", problem).variant, Variant::all);
  problem.max_block_bytes.reset();
  EXPECT_EQ(plan_by("all bytes=0-1G one_shot chunk=1K", problem).slot_bytes, Shape{}.slot_bytes);
  Problem many{.collective = Collective::alltoall, .ranks = 100, .max_block_bytes = 100};
  EXPECT_EQ(plan_by("all one_shot chunk=1K", many).slot_bytes, Shape{}.slot_bytes);
}

TEST(Planning, UsesAsManyDevicesAsSlotsFit) {
  const auto shape_on = [](std::uint32_t devices, std::uint32_t ranks, std::uint64_t bytes) {
    return shape_for(ranks, bytes, {.count = devices, .stripe_bytes = 4 << 20});
  };
  const Shape alone = shape_for(4, 1 << 30);
  EXPECT_EQ(alone, shape_on(1, 4, 1 << 30));
  EXPECT_EQ(alone.devices, 1u);
  const Shape three = shape_on(3, 4, 1 << 30);
  EXPECT_EQ(three.devices, 3u);
  EXPECT_EQ(three.slot_bytes, 256u << 10);
  EXPECT_EQ(three.area_slots, 15u) << "a page less than a stripe";
  EXPECT_EQ(shape_on(64, 4, 1ull << 40).devices, 16u);
  EXPECT_EQ(shape_on(16, 64, 1 << 30).devices, 8u) << "slots of 16K at least";
  EXPECT_EQ(shape_on(16, 64, 64 << 20).devices, 1u);
}

/// Every plan that is chosen can be built.
TEST(Planning, NoTableMakesAnError) {
  std::mt19937_64 random(base::seed_in_tests());
  std::array<int, all_algorithms.size()> used{};
  for (int turn = 0; turn < 2000; ++turn) {
    TuningEntry entry;
    if (random() % 2 == 0) entry.collective = static_cast<Collective>(random() % collective_count);
    entry.eager = random() % 4 == 0;
    if (!entry.eager) {
      entry.algorithm = all_algorithms[random() % all_algorithms.size()];
      entry.variant = all_variants[random() % all_variants.size()];
      entry.turns = random() % 2 == 0;
      entry.chunks = static_cast<std::uint32_t>(random() % 2 == 0 ? 0 : random() % 50);
      entry.chunk_bytes = random() % 2 == 0 ? 0 : 1024u << random() % 8;
    }
    const std::uint64_t bytes = (random() % 5000) << random() % 8 << 3;
    Problem problem{.collective = static_cast<Collective>(random() % collective_count),
                    .ranks = static_cast<std::uint32_t>(2 + random() % 6),
                    .element_bytes = 8};
    problem.max_block_bytes = bytes;
    const bool all_in = problem.collective == Collective::scatter ||
                        problem.collective == Collective::alltoall ||
                        problem.collective == Collective::reduce_scatter;
    const bool all_out = problem.collective == Collective::gather ||
                         problem.collective == Collective::allgather ||
                         problem.collective == Collective::alltoall;
    const Block block{0, bytes};
    const bool none = problem.collective == Collective::barrier;
    if (!none) problem.input.assign(all_in ? problem.ranks : 1, block);
    if (!none && problem.collective != Collective::broadcast &&
        problem.collective != Collective::barrier)
      problem.output.assign(all_out ? problem.ranks : 1, block);
    Tuning tuning;
    tuning.entries = {entry};
    std::vector<std::uint64_t> of_ranks;
    for (std::uint32_t rank = 0; rank < problem.ranks; ++rank) of_ranks.push_back(random() % 3);
    const NodeMap nodes = random() % 4 == 0 ? NodeMap() : NodeMap(of_ranks);
    Plan plan = PlanTable(tuning).plan(problem, Shape{}, nodes);
    used[static_cast<std::size_t>(plan.algorithm)] += 1;
    if (plan.eager) plan.slot_bytes = Shape{}.eager_bytes;
    const auto built = build(problem, plan, nodes);
    EXPECT_TRUE(built) << print(entry) << " for " << name_of(problem.collective) << " of "
                       << problem.ranks << " ranks: " << built.error().message;
  }
  EXPECT_THAT(used, testing::Each(testing::Gt(0)));
}

// ---- text

TEST(TuningText, IsReadAsItIsPrinted) {
  const std::string text =
      "allreduce ranks=2-4 bytes=0-4144 eager\n"
      "allreduce ranks=3- bytes=4145- two_shot chunk=65536\n"
      "all ranks=7 bytes=any one_shot variant=aggregate\n"
      "allgather ranks=any bytes=any per-node=2-4 two_level chunks=16\n"
      "broadcast ranks=any bytes=any one_shot turns=1\n"
      "reduce ranks=any bytes=any one_shot scratch=65536\n";
  const auto tuning = parse_tuning(text);
  ASSERT_TRUE(tuning) << tuning.error().message;
  EXPECT_EQ(print(*tuning), text);
  EXPECT_EQ(parse_tuning(print(default_tuning()))->entries, default_tuning().entries);
  EXPECT_EQ(parse_tuning("# all; of it\n\n all  eager ;all one_shot # more\n")->entries.size(), 2u);
  EXPECT_EQ(parse_tuning("all chunk=64K one_shot")->entries[0].chunk_bytes, 65'536u);
  EXPECT_TRUE(parse_tuning("")->entries.empty());
}

TEST(TuningText, ErrorsNameTheLineAndWhatIsNeeded) {
  const auto message = [](const std::string& text) {
    const auto tuning = parse_tuning(text);
    return tuning ? "" : tuning.error().message;
  };
  EXPECT_THAT(message("\nalreduce eager"),
              HasSubstr("line 2: \"alreduce\" is no collective (did you mean allreduce?); needed: "
                        "one of barrier, broadcast"));
  EXPECT_THAT(message("all eagre"), HasSubstr("\"eagre\" is no plan (did you mean eager?)"));
  EXPECT_THAT(message("all rank=2 eager"), HasSubstr("\"rank\" is no key (did you mean ranks?)"));
  EXPECT_THAT(message("all ranks=two eager"), HasSubstr("\"two\" is no number; needed: as 4"));
  EXPECT_THAT(message("all ranks=0 eager"), HasSubstr("ranks 0 to 0: the first must be 1"));
  EXPECT_THAT(message("all ranks=4-2 eager"), HasSubstr("ranks 4 to 2"));
  EXPECT_THAT(message("all bytes=4-2 eager"), HasSubstr("bytes 4 to 2"));
  EXPECT_THAT(message("all ranks=5G eager"), HasSubstr("never so many"));
  EXPECT_THAT(message("all ranks=2"), HasSubstr("no plan is named; needed: eager"));
  EXPECT_THAT(message("all eager one_shot"), HasSubstr("a second plan"));
  EXPECT_THAT(message("all ranks=2 ranks=3 eager"), HasSubstr("ranks= stands twice"));
  EXPECT_THAT(message("all one_shot chunk=65"), HasSubstr("a multiple of 64"));
  EXPECT_THAT(message("all one_shot chunk=0"), HasSubstr("leave it out"));
  EXPECT_THAT(message("all eager chunk=64K"), HasSubstr("eager goes with no"));
  EXPECT_THAT(message("all one_shot variant=agregate"), HasSubstr("did you mean aggregate?"));
  EXPECT_THAT(message("all per-node=0 one_shot"), HasSubstr("0 to 0 ranks per node"));
  EXPECT_THAT(message("all per-node=5G one_shot"), HasSubstr("per-node=5G: there are never"));
  EXPECT_THAT(message("all one_shot turns=yes"), HasSubstr("turns=yes: 0 or 1 is needed"));
  EXPECT_THAT(message("all one_shot chunks=0"), HasSubstr("leave it out"));
  EXPECT_THAT(message("all one_shot scratch=0"), HasSubstr("leave it out"));
  EXPECT_THAT(message("all eager scratch=64K"), HasSubstr("eager goes with no"));
  EXPECT_THAT(message("all one_shot chunks=2M"), HasSubstr("at most 1048576"));
  EXPECT_THAT(message("allreduce two_shot variant=naive"), HasSubstr("the variant all only"));
  std::string many;
  for (std::size_t i = 0; i <= Tuning::max_entries; ++i) many += "all eager\n";
  EXPECT_THAT(message(many), HasSubstr("line 129: more than 128 entries"));
}

// ---- bytes

Tuning sample() {
  Tuning tuning = *parse_tuning(
      "allreduce ranks=2 bytes=5000-9000 per-node=1-3 two_shot chunk=16K chunks=9 "
      "scratch=1M\nall eager");
  tuning.origin = "a test";
  return tuning;
}

TEST(TuningBytes, AreReadAsTheyWereWritten) {
  EXPECT_EQ(*decode(encode(sample())), sample());
  EXPECT_EQ(*decode(encode(Tuning{})), Tuning{});
  Tuning full;
  full.entries.resize(Tuning::max_entries);
  full.origin = std::string(Tuning::max_origin_bytes, 'x');
  EXPECT_EQ(encode(full).size(), max_tuning_bytes);
  EXPECT_EQ(*decode(encode(full)), full);
}

TEST(TuningBytes, EveryDamageIsFound) {
  const auto bytes = encode(sample());
  for (std::size_t bit = 0; bit < bytes.size() * 8; ++bit) {
    auto damaged = bytes;
    damaged[bit / 8] ^= static_cast<std::byte>(1u << bit % 8);
    EXPECT_FALSE(decode(damaged)) << "bit " << bit;
  }
  for (std::size_t count = 0; count < bytes.size(); ++count)
    EXPECT_FALSE(decode({bytes.data(), count})) << count << " bytes";
}

/// Anyone can compute a checksum, so fields are checked too.
TEST(TuningBytes, FieldsAreCheckedBehindARightChecksum) {
  constexpr std::size_t checksum_at = 16;
  const auto bytes = encode(sample());
  const auto forged = [&](std::size_t at, std::uint8_t value) {
    auto other = bytes;
    other[at] = std::byte{value};
    std::memset(other.data() + checksum_at, 0, 8);
    std::uint64_t magic;
    std::memcpy(&magic, other.data(), 8);
    const std::uint64_t checksum = base::xxh64(other.data(), other.size(), magic);
    std::memcpy(other.data() + checksum_at, &checksum, 8);
    return decode(other);
  };
  EXPECT_TRUE(forged(128, 1));
  EXPECT_THAT(forged(8, 1).error().message, HasSubstr("of version 1"));
  EXPECT_THAT(forged(12, 3).error().message, HasSubstr("3 entries in 256 bytes"));
  for (const std::size_t at : {128u, 129u, 130u, 131u, 140u, 191u})
    EXPECT_FALSE(forged(at, 0x7f)) << "byte " << at;
  EXPECT_THAT(forged(132, 9).error().message, HasSubstr("ranks 9 to 2"));
  EXPECT_FALSE(forged(160, 1));    // a chunk that is not a whole number of lines
  EXPECT_FALSE(forged(32, 0x1b));  // an origin with a terminal's control character
  std::mt19937_64 random(base::seed_in_tests());
  for (int turn = 0; turn < 20'000; ++turn) {
    const auto tuning = forged(random() % bytes.size(), static_cast<std::uint8_t>(random()));
    EXPECT_TRUE(!tuning || check(*tuning));
  }
}

// ---- the pool

class TuningStoreTest : public testing::Test {
 protected:
  TuningStoreTest() {
    EXPECT_TRUE(
        pool::create({.spec = spec_, .bytes = 16 << 20, .mode = coherence::Mode::software}));
    pool_ = *pool::Pool::attach({.spec = spec_});
    arena_ = *arena::Arena::open(*pool_);
  }
  std::string origin() {
    const auto tuning = tuning_in_force(*arena_);
    return tuning != nullptr ? tuning->origin : "built in";
  }

  base::EnvironmentGuard guard_{"PENSTOCK_COLL_TUNING", nullptr};
  pool::TestFolder folder_;
  std::string spec_ = folder_.file("pool");
  std::unique_ptr<pool::Pool> pool_;
  std::unique_ptr<arena::Arena> arena_;
};

TEST_F(TuningStoreTest, ATableIsKeptReplacedAndRemoved) {
  EXPECT_EQ(*load_tuning(*arena_), std::nullopt);
  EXPECT_EQ(*remove_tuning(*arena_), false);
  const auto used = arena_->stats().bytes_used;
  ASSERT_TRUE(store_tuning(*arena_, sample()));
  EXPECT_EQ(**load_tuning(*arena_), sample());
  EXPECT_EQ(origin(), "a test");
  ASSERT_TRUE(store_tuning(*arena_, default_tuning()));
  EXPECT_EQ(**load_tuning(*arena_), default_tuning());
  EXPECT_EQ(*remove_tuning(*arena_), true);
  EXPECT_EQ(arena_->stats().bytes_used, used);
  Tuning bad;
  bad.entries.resize(Tuning::max_entries + 1);
  EXPECT_FALSE(store_tuning(*arena_, bad));
}

TEST_F(TuningStoreTest, IgnoresADamagedTableAndNamesTheFix) {
  auto bytes = encode(sample());
  bytes[130] ^= std::byte{1};
  ASSERT_TRUE(arena_->create(tuning_name, bytes.size(), {.contents = bytes.data()}));
  EXPECT_EQ(load_tuning(*arena_).error().code, ErrorCode::wrong_format);
  EXPECT_THAT(load_tuning(*arena_).error().message, HasSubstr("penstock bench tune --pool"));
  EXPECT_EQ(origin(), "built in");
  ASSERT_TRUE(store_tuning(*arena_, sample()));
  EXPECT_EQ(origin(), "a test");
}

TEST_F(TuningStoreTest, TheEnvironmentComesFirst) {
  ASSERT_TRUE(store_tuning(*arena_, sample()));
  const auto with = [&](const std::string& value) {
    ::setenv("PENSTOCK_COLL_TUNING", value.c_str(), 1);
    return origin();
  };
  EXPECT_EQ(with("default"), "built in");
  EXPECT_EQ(with("allreduce one_shot"), "PENSTOCK_COLL_TUNING");
  EXPECT_EQ(with("allreduce one_sho"), "built in");
  const std::string path = folder_.file("table");
  EXPECT_EQ(with(path), "built in");
  std::ofstream(path) << "all eager\n";
  EXPECT_EQ(with(path), "PENSTOCK_COLL_TUNING");
  std::ofstream(path) << "all eagr\n";
  EXPECT_EQ(with(path), "built in");
}

}  // namespace
}  // namespace penstock::coll

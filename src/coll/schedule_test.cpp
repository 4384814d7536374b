// Every collective, by each algorithm, with 1 to 9 ranks and sizes that are odd, uneven or zero,
// against what MPI says that it gives; in the order of the list, and with both lanes side by side.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/seed_in_tests.hpp"
#include "coll/problem.hpp"
#include "coll/test_model.hpp"

namespace penstock::coll {
namespace {

constexpr std::uint32_t word = ScheduleModel::word_bytes;

/// A collective call of all ranks. Block sizes: bytes[p][c], or bytes[p][0] where each has one.
struct World {
  Collective collective;
  std::uint32_t ranks, root;
  bool in_place, known;  ///< `known`: all ranks know the longest block
  std::vector<std::vector<std::uint64_t>> bytes;

  bool rooted_in() const {
    return collective == Collective::broadcast || collective == Collective::scatter;
  }
  bool spreads() const {
    return collective == Collective::scatter || collective == Collective::alltoall ||
           collective == Collective::reduce_scatter;
  }
  bool gathers() const {
    return collective == Collective::gather || collective == Collective::allgather ||
           collective == Collective::alltoall;
  }
  bool has_input(std::uint32_t r) const {
    return collective != Collective::barrier && (!rooted_in() || r == root);
  }
  bool has_output(std::uint32_t r) const {
    if (collective == Collective::barrier) return false;
    if (collective == Collective::broadcast) return r != root;
    return (collective != Collective::gather && collective != Collective::reduce) || r == root;
  }
  std::uint64_t size(std::uint32_t producer, std::uint32_t consumer) const {
    return bytes[rooted_in() ? root : producer][spreads() ? consumer : 0];
  }
  bool in_place_at(std::uint32_t r) const {
    if (!in_place) return false;
    const bool one = collective == Collective::gather || collective == Collective::reduce ||
                     collective == Collective::scatter;
    return one ? r == root
               : collective != Collective::broadcast && collective != Collective::barrier;
  }
};

struct Made {
  Problem problem;
  ModelRank rank;
  std::uint64_t output_bytes = 0;
};

std::uint32_t value_of(std::uint32_t rank, std::uint64_t at) {
  return (rank + 1) * 1000003u + static_cast<std::uint32_t>(at) * 7919u;
}

/// Blocks one after the other, with a gap of a word between two.
std::uint64_t lay_out(std::vector<Block>* blocks, const std::vector<std::uint64_t>& sizes) {
  std::uint64_t end = 0;
  for (const std::uint64_t size : sizes) {
    blocks->push_back({end, size});
    end += size + word;
  }
  return end;
}

std::vector<std::uint64_t> sizes_in(const World& w, std::uint32_t r) {
  std::vector<std::uint64_t> sizes;
  if (!w.has_input(r)) return sizes;
  for (std::uint32_t c = 0; c < (w.spreads() ? w.ranks : 1); ++c) sizes.push_back(w.size(r, c));
  return sizes;
}
std::vector<std::uint64_t> sizes_out(const World& w, std::uint32_t r) {
  std::vector<std::uint64_t> sizes;
  if (!w.has_output(r)) return sizes;
  for (std::uint32_t p = 0; p < (w.gathers() ? w.ranks : 1); ++p) sizes.push_back(w.size(p, r));
  return sizes;
}

void fill(Made* made, std::uint32_t r) {
  for (const Block& block : made->problem.input) {
    for (std::uint64_t at = 0; at < block.bytes; at += word) {
      const std::uint32_t value = value_of(r, block.offset * (made->problem.in_place ? 0 : 1) + at);
      std::memcpy(made->rank.input.data() + block.offset + at, &value, word);
    }
  }
}

Made make(const World& w, std::uint32_t r) {
  Made made;
  Problem& p = made.problem;
  p = {.collective = w.collective,
       .ranks = w.ranks,
       .rank = r,
       .root = w.root,
       .element_bytes = word};
  std::uint64_t in = lay_out(&p.input, sizes_in(w, r));
  std::uint64_t out = lay_out(&p.output, sizes_out(w, r));
  p.in_place = made.rank.in_place = w.in_place_at(r);
  if (w.known)
    for (const auto& row : w.bytes)
      for (const std::uint64_t size : row)
        p.max_block_bytes = std::max(p.max_block_bytes.value_or(0), size);
  if (p.in_place && w.gathers() && !w.spreads()) p.input = {p.output[r]};
  if (p.in_place && w.collective == Collective::scatter) p.output = {p.input[r]};
  if (p.in_place) in = out = std::max(in, out);
  made.output_bytes = out;
  made.rank.input.assign(in, std::byte{0x11});
  made.rank.output.assign(p.in_place ? 0 : out, std::byte{0x22});
  fill(&made, r);
  return made;
}

/// What the rank `producer` brought, at byte `at` of its block for `consumer`.
std::uint32_t brought(const World& w, const std::vector<Made>& made, std::uint32_t producer,
                      std::uint32_t consumer, std::uint64_t at) {
  const Problem& p = made[producer].problem;
  const Block& block = p.input[w.spreads() ? consumer : 0];
  return value_of(producer, block.offset * (p.in_place ? 0 : 1) + at);
}

std::uint32_t expected(const World& w, const std::vector<Made>& made, std::uint32_t r,
                       std::uint32_t block, std::uint64_t at) {
  if (w.rooted_in()) return brought(w, made, w.root, r, at);
  if (w.gathers()) return brought(w, made, block, r, at);
  std::uint32_t end = w.ranks, value = 0;
  if (w.collective == Collective::scan) end = r + 1;
  if (w.collective == Collective::exscan) end = r;
  for (std::uint32_t p = 0; p < end; ++p)
    value = p == 0 ? brought(w, made, p, r, at)
                   : ScheduleModel::combined(value, brought(w, made, p, r, at));
  return value;
}

std::string check_results(const World& w, const std::vector<Made>& made,
                          const std::vector<ModelRank>& done) {
  for (std::uint32_t r = 0; r < w.ranks; ++r) {
    if (w.collective == Collective::exscan && r == 0) continue;
    const auto& memory = done[r].in_place ? done[r].input : done[r].output;
    for (std::uint32_t b = 0; b < made[r].problem.output.size(); ++b) {
      const Block& block = made[r].problem.output[b];
      for (std::uint64_t at = 0; at < block.bytes; at += word) {
        std::uint32_t found;
        std::memcpy(&found, memory.data() + block.offset + at, word);
        if (found != expected(w, made, r, b, at))
          return fmt::format("rank {}, block {}, byte {}: {} instead of {}", r, b, at, found,
                             expected(w, made, r, b, at));
      }
    }
  }
  return "";
}

std::string run(const World& w, const Plan& plan, bool two_lanes, std::uint64_t seed) {
  std::vector<Made> made;
  std::vector<ModelRank> ranks;
  for (std::uint32_t r = 0; r < w.ranks; ++r) {
    made.push_back(make(w, r));
    auto schedule = build(made[r].problem, plan);
    if (!schedule) return schedule.error().message;
    made[r].rank.schedule = *std::move(schedule);
    ranks.push_back(made[r].rank);
  }
  std::string fault = ScheduleModel(ranks, plan.slots, plan.slot_bytes, seed).run(two_lanes);
  return fault.empty() ? check_results(w, made, ranks) : fault;
}

World world(Collective collective, std::uint32_t ranks, std::mt19937_64& random) {
  World w{collective,        ranks, static_cast<std::uint32_t>(random() % ranks),
          random() % 2 == 0, true,  {}};
  const bool uneven = random() % 2 == 0 && (w.spreads() || w.gathers());
  constexpr std::uint64_t words[] = {0, 1, 2, 15, 16, 17, 33, 100, 257};
  const std::uint64_t all = word * words[random() % std::size(words)];
  for (std::uint32_t p = 0; p < ranks; ++p) {
    w.bytes.emplace_back();
    for (std::uint32_t c = 0; c < ranks; ++c)
      w.bytes[p].push_back(uneven ? word * words[random() % std::size(words)] : all);
    // All ranks of a reduce_scatter name the same blocks.
    if (collective == Collective::reduce_scatter) w.bytes[p] = w.bytes[0];
    // MPI_IN_PLACE: two ranks of an alltoall send each other equally much.
    for (std::uint32_t c = 0; collective == Collective::alltoall && w.in_place && c < p; ++c)
      w.bytes[p][c] = w.bytes[c][p];
  }
  w.known = !uneven || random() % 2 == 0;
  return w;
}

class ScheduleTest : public testing::TestWithParam<std::tuple<int, std::uint32_t>> {};

TEST_P(ScheduleTest, GivesWhatTheCollectivePromises) {
  const auto collective = static_cast<Collective>(std::get<0>(GetParam()));
  const std::uint32_t ranks = std::get<1>(GetParam());
  std::mt19937_64 random(base::seed_in_tests() + ranks);
  for (int i = 0; i < 120; ++i) {
    const World w = world(collective, ranks, random);
    Plan plan;
    const bool two = random() % 2 == 0 &&
                     (collective == Collective::allreduce || collective == Collective::reduce);
    plan.algorithm = two ? Algorithm::two_shot : Algorithm::one_shot;
    plan.slots = static_cast<std::uint32_t>((two ? 4 : 2) + random() % 4);
    plan.slot_bytes = 64 * std::max(1u, ranks - 1) * (1 + random() % 3) + random() % 64;
    if (!two && w.known && random() % 3 == 0) {
      plan.variant = Variant::aggregate;
      plan.slots = 20;
    }
    const std::uint64_t seed = random();
    const bool two_lanes = i % 2 == 0;
    ASSERT_EQ(run(w, plan, two_lanes, seed), "")
        << "call " << i << ": " << name_of(collective) << ", " << ranks << " ranks, root " << w.root
        << (w.in_place ? ", in place" : "") << (two_lanes ? ", two lanes" : "") << ", "
        << name_of(plan.algorithm) << ", " << plan.slots << " slots of " << plan.slot_bytes;
  }
}

INSTANTIATE_TEST_SUITE_P(All, ScheduleTest,
                         testing::Combine(testing::Range(0, 11), testing::Range(1u, 10u)),
                         [](const auto& param) {
                           return std::string(
                                      name_of(static_cast<Collective>(std::get<0>(param.param)))) +
                                  "_" + std::to_string(std::get<1>(param.param));
                         });

Schedule schedule_of(Collective collective, std::uint32_t ranks, std::uint32_t rank,
                     std::uint64_t bytes, Algorithm algorithm) {
  World w{collective, ranks, 0, false, true, {}};
  w.bytes.assign(ranks, std::vector<std::uint64_t>(ranks, bytes));
  const Made made = make(w, rank);
  auto schedule = build(made.problem, {.algorithm = algorithm, .slot_bytes = 1 << 16, .slots = 8});
  EXPECT_TRUE(schedule);
  return *std::move(schedule);
}

/// The table in docs/protocols/collectives.md.
TEST(ScheduleCounts, AreTheFormulas) {
  for (std::uint32_t n : {2u, 3u, 4u, 8u, 16u, 64u}) {
    const std::uint64_t s = word * n * 4096;
    const std::uint32_t last = n - 1;
    const auto traffic = [&](Collective collective, Algorithm algorithm = Algorithm::one_shot) {
      return traffic_of(schedule_of(collective, n, last, s, algorithm));
    };
    EXPECT_EQ(traffic(Collective::allgather).written_bytes, s);
    EXPECT_EQ(traffic(Collective::allgather).read_bytes, (n - 1) * s);
    EXPECT_EQ(traffic(Collective::alltoall).written_bytes, (n - 1) * s);
    EXPECT_EQ(traffic(Collective::alltoall).read_bytes, (n - 1) * s);
    EXPECT_EQ(traffic(Collective::broadcast).written_bytes, 0u);
    EXPECT_EQ(traffic(Collective::broadcast).read_bytes, s);
    EXPECT_EQ(traffic(Collective::allreduce).written_bytes, s);
    EXPECT_EQ(traffic(Collective::allreduce).read_bytes, (n - 1) * s);
    EXPECT_EQ(traffic(Collective::reduce_scatter).written_bytes, (n - 1) * s);
    EXPECT_EQ(traffic(Collective::reduce_scatter).read_bytes, (n - 1) * s);
    EXPECT_EQ(traffic(Collective::scan).read_bytes, (n - 1) * s);
    // Flat: neither grows with the number of ranks.
    EXPECT_EQ(traffic(Collective::allreduce, Algorithm::two_shot).written_bytes, s);
    EXPECT_EQ(traffic(Collective::allreduce, Algorithm::two_shot).read_bytes, 2 * s / n * (n - 1));
    EXPECT_EQ(traffic(Collective::barrier).rings, 1u);
    EXPECT_EQ(traffic(Collective::barrier).waits, n - 1);
  }
}

/// A struct at the root, its members elsewhere: MPI compares signatures, not types.
TEST(ScheduleOfMovements, DoesNotDependOnElements) {
  World w{Collective::broadcast, 2, 0, false, true, {}};
  w.bytes.assign(2, std::vector<std::uint64_t>(2, 24 * 50));
  std::vector<ModelRank> ranks;
  for (std::uint32_t r = 0; r < 2; ++r) {
    Made made = make(w, r);
    made.problem.element_bytes = r == 0 ? 24 : 8;
    made.rank.schedule = *build(made.problem, {.slot_bytes = 500});
    ranks.push_back(made.rank);
  }
  EXPECT_EQ(ScheduleModel(ranks, 4, 500, 1).run(false), "");
}

TEST(SchedulePlans, AreRefusedInWords) {
  World w{Collective::alltoall, 4, 0, false, true, {}};
  w.bytes.assign(4, std::vector<std::uint64_t>(4, 400));
  const Problem problem = make(w, 1).problem;
  const auto message = [&](const Problem& p, const Plan& plan) {
    const auto schedule = build(p, plan);
    return schedule ? "" : schedule.error().message;
  };
  using testing::HasSubstr;
  EXPECT_THAT(message(problem, {.slots = 1}),
              HasSubstr("1 slots for each rank; one_shot needs at least 2"));
  EXPECT_THAT(message(problem, {.slot_bytes = 100}),
              HasSubstr("a slot of 100 bytes holds no line of 64 bytes for each of 4"));
  EXPECT_THAT(message(problem, {.algorithm = Algorithm::two_shot}),
              HasSubstr("alltoall has no algorithm two_shot"));
  EXPECT_THAT(message(problem, {.variant = Variant::aggregate, .slot_bytes = 192, .slots = 4}),
              HasSubstr("a slot for each of 7 chunks, and there are 4"));
  Problem unknown = problem;
  unknown.max_block_bytes.reset();
  EXPECT_THAT(message(unknown, {.variant = Variant::aggregate}),
              HasSubstr("not all ranks know it"));
  Problem wrong = problem;
  wrong.max_block_bytes = 399;
  EXPECT_THAT(message(wrong, {}),
              HasSubstr("a block of 400 bytes, and 399 are said to be the most"));
  wrong = {.collective = Collective::allreduce,
           .ranks = 2,
           .element_bytes = 8,
           .input = {{0, 20}},
           .output = {{0, 20}}};
  EXPECT_THAT(message(wrong, {}), HasSubstr("a block of 20 bytes, elements have 8"));
  wrong = problem;
  wrong.rank = 4;
  EXPECT_THAT(message(wrong, {}), HasSubstr("ranks count from 0"));
  wrong = problem;
  wrong.output.pop_back();
  EXPECT_THAT(message(wrong, {}),
              HasSubstr("needs 4 blocks of input and 4 of output, and got 4 and 3"));
}

}  // namespace
}  // namespace penstock::coll

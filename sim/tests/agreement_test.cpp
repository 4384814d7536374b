// Ranks on nodes without coherence agree on communicators, one after the other in the same space:
// none may find what the last one left there.
#include <gtest/gtest.h>

#include <memory>

#include "coll/agreement.hpp"
#include "coll/ending.hpp"
#include "coll/tuning_store.hpp"
#include "sim/tests/expect_held.hpp"
#include "sim/tests/lasting_copies.hpp"
#include "sim/tests/small_pool.hpp"

namespace penstock::sim::agreement_test {
namespace {

using coll::Collective;

constexpr std::uint32_t turns = 3;

/// Values that ranks exchange by other means than the pool.
struct Exchange {
  std::array<std::vector<coll::Offer>, turns> offers;
  std::array<std::uint32_t, turns> offered{}, may_change{}, ended{};
  bool late_slots = false;
};

coll::Tuning tuning_of(std::uint32_t turn) {
  coll::Tuning tuning;
  tuning.origin = fmt::format("table {}", turn);
  tuning.entries.resize(2);
  for (auto& entry : tuning.entries) entry.min_bytes = turn + 1;
  return tuning;
}

/// By slots and in eager blocks; the bytes differ in each communicator.
void allgather(World& world, coll::Communicator& comm, std::uint32_t turn, bool eager) {
  constexpr std::uint64_t bytes = 100;
  const auto value = [turn](std::uint32_t rank) { return std::byte(10 * turn + rank + 1); };
  const std::uint32_t ranks = comm.ranks();
  std::vector<std::byte> own(bytes, value(comm.self())), all(bytes * ranks);
  coll::Problem problem{.collective = Collective::allgather,
                        .ranks = ranks,
                        .rank = comm.self(),
                        .input = {{0, bytes}},
                        .max_block_bytes = bytes};
  for (std::uint64_t rank = 0; rank < ranks; ++rank)
    problem.output.push_back({rank * bytes, bytes});
  const auto done = comm.run({.name = "allgather",
                              .problem = &problem,
                              .plan = {.slot_bytes = comm.shape().slot_bytes, .eager = eager},
                              .input = own.data(),
                              .output = all.data()});
  world.require(done.has_value(), done ? "" : done.error().message);
  for (std::uint32_t rank = 0; rank < ranks; ++rank)
    world.require(all[rank * bytes] == value(rank) && all[rank * bytes + bytes - 1] == value(rank),
                  "wrong bytes");
}

/// In the first communicator all ranks can change; in the later ones rank 1 cannot, and offers
/// nothing.
void change(World& world, SpaceUser& user, coll::Communicator& comm, Exchange& exchange,
            std::uint32_t turn) {
  const bool can = turn == 0 || comm.self() != 1;
  if (can) comm.offer_change(1);
  user.pool->memory().full_fence();  // the test's own words travel faster than the pool's
  ++exchange.may_change[turn];
  wait_until(world, "what can change", [&] { return exchange.may_change[turn] == comm.ranks(); });
  if (can)
    world.require(comm.all_change("a crossing", 1) == (turn == 0),
                  "an earlier offer changed the communicator");
}

/// Its node takes copies of the communicator's leftovers, as it may at any time.
void take_copies(const SpaceUser& user, const coll::Options& of) {
  std::vector<std::byte> words(
      coll::Communicator::zeroed_bytes(static_cast<std::uint32_t>(of.tokens.size()), of.shape));
  user.pool->memory().load_bulk(words.data(), user.pool->base() + of.area, words.size());
}

void meet(World& world, SpaceUser& user, Exchange& exchange, std::uint32_t ranks,
          std::uint32_t self, std::uint32_t turn) {
  if (self == 0) {
    const auto stored = coll::store_tuning(*user.arena, tuning_of(turn));
    world.require(stored.has_value(), stored ? "" : stored.error().message);
  }
  coll::Agreement agreement(ranks, self);
  const auto made =
      agreement.offer(coll::space_in(*user.arena, fmt::format("communicator {}", turn)),
                      {.slot_bytes = 256, .late_slots = exchange.late_slots});
  world.require(made.has_value(), made ? "" : made.error().message);
  auto& offers = exchange.offers[turn];
  offers.resize(ranks);
  offers[self] = agreement.own();
  ++exchange.offered[turn];
  wait_until(world, "the offers", [&] { return exchange.offered[turn] == ranks; });
  const auto fits = agreement.check(offers, "communicator");
  world.require(fits.has_value(), fits ? "" : fits.error().message);
  coll::Options options = agreement.options(*user.pool, offers);
  world.require(options.tuning != nullptr && *options.tuning == tuning_of(turn),
                "the table is not rank 0's");
  const auto areas = agreement.areas(offers);
  world.require(areas.has_value(), areas ? "" : areas.error().message);
  (void)agreement.take_areas();
  auto comm = coll::Communicator::open(*user.pool, options);
  world.require(comm.has_value(), comm ? "" : comm.error().message);
  change(world, user, **comm, exchange, turn);
  for (const bool eager : {true, false}) {
    world.sleep(world.random() % 2'000'000);  // the first to come finds nothing of the others
    allgather(world, **comm, turn, eager);
  }
  coll::end(*user.arena, **comm, options.tokens, *areas);
  if (self == 1) take_copies(user, options);
  ++exchange.ended[turn];
  wait_until(world, "the end", [&] { return exchange.ended[turn] == ranks; });
}

/// The ranks after the first are on one node: they read each other's data from their caches.
TEST(Agreement, EachCommunicatorBeginsAnew) {
  for (const std::uint32_t ranks : {2u, 3u}) {
    SimulatedPool pool;
    pool.format_arena();
    Scenario scenario =
        pool.scenario(fmt::format("communicators in one place, {} ranks", ranks), 2);
    scenario.max_steps = 6'000'000;
    scenario.body = [&pool, ranks](World& world) {
      auto exchange = std::make_shared<Exchange>();
      exchange->late_slots = world.random() % 2 == 0;
      for (std::uint32_t self = 0; self < ranks; ++self)
        world.spawn(self == 0 ? 0 : 1, [&world, &pool, exchange, ranks, self] {
          SpaceUser user(world, pool);
          for (std::uint32_t turn = 0; turn < turns; ++turn)
            meet(world, user, *exchange, ranks, self, turn);
        });
    };
    expect_held("collectives", "random schedules", explore(scenario, 8));
    expect_held("collectives", "random schedules", explore(with_lasting_copies(scenario), 8));
  }
}

TEST(Agreement, AllRanksRefuseMismatchedOffers) {
  std::vector<coll::Offer> offers(3);
  for (std::uint32_t rank = 0; rank < 3; ++rank)
    offers[rank] = {.pool_id = 7, .token = rank + 1, .node = rank, .area = coll::Offer::none};
  const auto refused = [&](const std::string& words) {
    for (std::uint32_t self = 0; self < 3; ++self) {
      const auto fits = coll::Agreement(3, self).check(offers, "group");
      ASSERT_FALSE(fits);
      EXPECT_NE(fits.error().message.find(words), std::string::npos) << fits.error().message;
    }
  };
  refused("rank 0 found no room");
  offers[0].area = 4096;
  EXPECT_TRUE(coll::Agreement(3, 1).check(offers, "group"));
  offers[2].check = 1;
  refused(" of the group compares calls");
  offers[2].check = 0;
  offers[1].plan = 5;
  refused("PENSTOCK_COLL_PLAN is not the same on ranks ");
  refused(" of the group");
  offers[1].plan = 0;
  offers[1].pool_id = 8;
  refused(" of the group has attached another pool");
}

}  // namespace
}  // namespace penstock::sim::agreement_test

// Communicators whose words a foreign process overwrites: each waiting rank restores its own words,
// and no call waits for ever. And ranks that die while they leave: the owner of the space is told.
#include <gtest/gtest.h>

#include "coll/layout.hpp"
#include "schedule/test_calls.hpp"
#include "sim/tests/communicator_meeting.hpp"
#include "sim/tests/expect_held.hpp"
#include "sim/tests/lasting_copies.hpp"

namespace penstock::sim::communicator_end_test {
namespace {

using coll::Collective;
using coll::Communicator;

constexpr std::uint32_t ranks = 3;

struct Case {
  explicit Case(std::uint64_t area) : meeting(area, ranks) {}
  Meeting meeting;
  bool check = false;
  std::vector<coll::TestCall> calls;
  std::vector<coll::Plan> plans;
  bool left[ranks] = {};
  bool vandal_done = false;
};

void call_all(World& world, Communicator& comm, const Case& all) {
  for (std::size_t i = 0; i < all.calls.size(); ++i) {
    const coll::TestCall& call = all.calls[i];
    std::vector<coll::Made> made = coll::make_all(call);
    coll::Made& own = made[comm.self()];
    std::vector<std::byte> in = own.input, out = own.output;
    coll::Plan plan = all.plans[i];
    plan.eager = plan.eager && comm.plan(own.problem).eager;
    const coll::WordArithmetic arithmetic;
    const auto done = comm.run({.name = name_of(call.collective),
                                .problem = &own.problem,
                                .plan = plan,
                                .input = in.data(),
                                .output = own.problem.in_place ? in.data() : out.data(),
                                .arithmetic = &arithmetic});
    world.require(done.has_value(), done ? "" : done.error().message);
    const auto wrong = check_result(call, made, comm.self(), own.problem.in_place ? in : out);
    world.require(wrong.empty(), fmt::format("call {}: {}", i, wrong));
  }
}

/// Rank 0's decision.
bool goes_on(World& world, Communicator& comm, bool wanted) {
  std::byte flag{wanted};
  coll::Problem problem{.collective = Collective::broadcast,
                        .ranks = ranks,
                        .rank = comm.self(),
                        .max_block_bytes = 1};
  (comm.self() == 0 ? problem.input : problem.output) = {{0, 1}};
  const auto done = comm.run({.problem = &problem,
                              .plan = {.slot_bytes = small_shape.slot_bytes},
                              .input = &flag,
                              .output = &flag});
  world.require(done.has_value(), done ? "" : done.error().message);
  return flag != std::byte{};
}

/// Calls until the vandal is done: words that it overwrites later, outside a call, stay
/// overwritten.
void use(World& world, const SimulatedPool& simulated, Case& all, std::uint32_t self) {
  const auto pool = all.meeting.attach(world, simulated, self);
  wait_until(world, "the ranks", [&] { return all.meeting.all_came(); });
  const auto comm = all.meeting.open(world, *pool, self, all.check);
  do call_all(world, *comm, all);
  while (goes_on(world, *comm, !all.vandal_done));
  comm->leave();
  if (self != 0) return;
  const auto left = comm->await_all_left("the end");
  world.require(left.has_value(), left ? "" : left.error().message);
}

/// A word of a rank, but those of its failure; or a release.
std::uint64_t somewhere(World& world) {
  const coll::Layout layout(ranks, small_shape);
  const std::uint64_t rank = world.random() % ranks;
  if (world.random() % 3 == 0) return layout.release(rank, world.random() % ranks);
  const std::uint64_t word = world.random() % coll::failed_word;
  return layout.line(rank, world.random() % coll::halves) + word * 8;
}

/// No greater value than the old one: that would announce data that no rank sent.
void overwrite(World& world, const SimulatedPool& simulated, Case& all, int times) {
  const auto pool = simulated.attach(world, {.observer = true});
  wait_until(world, "the ranks", [&] { return all.meeting.all_came(); });
  for (; times > 0; --times) {
    world.sleep(world.random() % (20 * world.faults().op_ns + 1));
    pool->memory().publish_word(pool->base() + all.meeting.area + somewhere(world), 0);
    pool->memory().store_fence();
  }
  all.vandal_done = true;
}

TEST(CommunicatorsOverwritten, WhoWaitsRestoresItsWords) {
  SimulatedPool pool;
  const std::uint64_t area = place_communicator(pool, ranks);
  Scenario scenario = pool.scenario("collectives whose words are overwritten", ranks + 1);
  scenario.max_steps = 20'000'000;
  scenario.body = [&pool, area](World& world) {
    auto all = std::make_shared<Case>(area);
    std::mt19937_64 random(world.random());
    all->check = random() % 3 == 0;
    for (int i = 0; i < 6; ++i) {
      all->calls.push_back(coll::draw_call(coll::any_collective(random), ranks, random));
      all->plans.push_back({.slot_bytes = small_shape.slot_bytes, .eager = random() % 3 == 0});
    }
    for (std::uint32_t self = 0; self < ranks; ++self)
      world.spawn(self, [&world, &pool, all, self] { use(world, pool, *all, self); });
    world.spawn(ranks, [&world, &pool, all] { overwrite(world, pool, *all, 150); });
  };
  expect_held("collectives", "random schedules", explore(scenario, 40));
}

/// Rank 1 waits for rank 0, which gives up as soon as its call is done. `waits`: rank 1 is about to
/// check for failures, as it does now and then.
struct Ending : Meeting {
  using Meeting::Meeting;
  bool eager = false;
  bool idle = false;  ///< else it gives up in its next call
  bool waits = false;
};

class EndingRank : PlanRank<Ending> {
 public:
  using PlanRank::PlanRank;

  void call_all() {
    if (!await_all_ranks()) return;
    const auto comm = plan_.open(world_, *pool_, self_);
    const std::uint64_t bytes = plan_.eager ? 16 : 3 * small_shape.slot_bytes;
    std::vector<std::byte> data(bytes, std::byte{0x33});
    coll::Problem problem{
        .collective = Collective::allgather, .ranks = 2, .rank = self_, .max_block_bytes = bytes};
    problem.input = {{0, bytes}};
    std::vector<std::byte> all(2 * bytes);
    problem.output = {{0, bytes}, {bytes, bytes}};
    const coll::Call call{.name = "allgather",
                          .problem = &problem,
                          .plan = {.slot_bytes = small_shape.slot_bytes, .eager = plan_.eager},
                          .input = data.data(),
                          .output = all.data()};
    if (self_ == 1) {
      const auto begun = comm->begin(call);
      world_.require(begun.has_value(), begun ? "" : begun.error().message);
      constexpr std::uint64_t looks_between_checks = 256;
      for (auto looks = looks_between_checks - 1 - world_.random() % 3; looks > 0; --looks)
        require_going_on(*comm);
      plan_.waits = true;
      while (!require_going_on(*comm)) world_.yield();
    } else {
      wait_until(world_, "rank 1", [&] { return plan_.waits; });
      const auto done = comm->run(call);
      world_.require(done.has_value(), done ? "" : done.error().message);
      comm->give_up({ErrorCode::unavailable, "it was aborted"}, plan_.idle);
    }
    world_.require(all == std::vector<std::byte>(2 * bytes, std::byte{0x33}), "wrong bytes");
  }

 private:
  bool require_going_on(Communicator& comm) {
    const auto done = comm.advance();
    world_.require(done.has_value(), done ? "" : done.error().message);
    return *done;
  }
};

TEST(Communicators, SucceedWhenFinishedRankGivesUp) {
  for (const bool eager : {false, true}) {
    SimulatedPool pool;
    const std::uint64_t area = place_communicator(pool, 2);
    Scenario scenario = pool.scenario("a rank gives up after its call", 2);
    scenario.body = [&pool, area, eager](World& world) {
      auto plan = std::make_shared<Ending>(area, 2);
      plan->eager = eager;
      plan->idle = world.random() % 2 == 0;
      spawn_ranks<EndingRank>(world, pool, plan, 2, ~0u);
    };
    expect_held("collectives", "a rank gives up at the end", explore(scenario, 300));
    expect_held("collectives", "a rank gives up at the end",
                explore(with_lasting_copies(scenario), 100));
  }
}

/// Rank 0 waits for rank 1; each of its words is overwritten once.
struct Overwritten {
  explicit Overwritten(std::uint64_t area) : meeting(area, 2) {}
  Meeting meeting;
  bool check = false;
  enum { calls, waits, cleared, restored } at = calls;
  bool leave = false;  ///< rank 0 leaves instead of waiting, and rank 1 takes the space

  void call(World& world, Communicator& comm, Collective collective) const {
    coll::TestCall call{.collective = collective,
                        .ranks = 2,
                        .root = 1,
                        .in_place = false,
                        .known = false,
                        .bytes = {{8 * small_shape.slot_bytes}, {8 * small_shape.slot_bytes}}};
    coll::Made own = make(call, comm.self());
    const coll::WordArithmetic arithmetic;
    const auto begun = comm.begin({.problem = &own.problem,
                                   .plan = {.slot_bytes = small_shape.slot_bytes},
                                   .input = own.input.data(),
                                   .output = own.output.data(),
                                   .arithmetic = &arithmetic});
    world.require(begun.has_value(), begun ? "" : begun.error().message);
    for (;;) {
      const auto done = comm.advance();
      world.require(done.has_value(), done ? "" : done.error().message);
      if (*done) return;
      if (collective == Collective::broadcast && comm.self() == 0) return;  // rank 0 only begins it
      world.yield();
    }
  }
  /// Looks often enough for the checks that run only now and then.
  static void look(World& world, Communicator& comm) {
    for (int i = 0; i < 300; ++i) {
      const auto done = comm.advance();
      world.require(done && !*done, done ? "done already" : done.error().message);
    }
  }
  void take(World& world, const SimulatedPool& simulated, std::uint32_t self) {
    const auto pool = meeting.attach(world, simulated, self);
    wait_until(world, "the other", [&] { return meeting.all_came(); });
    const auto comm = meeting.open(world, *pool, self, check);
    call(world, *comm, Collective::allreduce);
    if (leave) return take_leave(world, *pool, *comm);
    if (self == 1) return wait_until(world, "the end", [&] { return at == restored; });
    call(world, *comm, Collective::broadcast);
    look(world, *comm);  // holds copies of its lines from now on
    at = waits;
    wait_until(world, "the vandal", [&] { return at == cleared; });
    look(world, *comm);
    at = restored;
  }
  void take_leave(World& world, pool::Pool& pool, Communicator& comm) {
    if (comm.self() == 0) at = waits;
    wait_until(world, "the vandal", [&] { return at >= cleared; });
    comm.leave();
    if (comm.self() == 0) at = restored;
    if (comm.self() == 0) return;
    while (!comm.all_left()) world.yield();
    // The space is another's now.
    std::byte* const line = pool.base() + meeting.area + coll::Layout(2, small_shape).row(0);
    std::array<std::byte, 64> mark, found;
    mark.fill(std::byte{0x77});
    pool.memory().publish_line(line, mark.data());
    pool.memory().full_fence();
    world.sleep(20'000'000);
    pool.memory().observe_line(found.data(), line);
    world.require(found == mark, "a store arrived after all ranks had left");
  }
  void clear(World& world, const SimulatedPool& simulated) {
    const auto pool = simulated.attach(world, {.observer = true});
    const auto& memory = pool->memory();
    const coll::Layout layout(2, small_shape);
    std::vector<std::pair<std::byte*, std::uint64_t>> words;
    wait_until(world, "rank 0 to wait", [&] { return at == waits; });
    for (std::uint64_t word = 0; word < coll::row_words; ++word)
      words.push_back({pool->base() + meeting.area + layout.row(0) + 8 * word, 0});
    words.push_back({pool->base() + meeting.area + layout.release(1, 0), 0});
    for (auto& [place, value] : words) {
      value = memory.observe_word(place);
      memory.publish_word(place, 0);
    }
    memory.full_fence();
    const std::uint64_t first_doorbell = (layout.line(0, 1) - layout.row(0)) / 8;
    world.require(words[first_doorbell].second != 0 && words.back().second != 0,
                  "nothing was told");
    at = cleared;
    if (leave) return;
    wait_until(world, "rank 0", [&] { return at == restored; });
    // A waiting rank publishes its call again, in another word, each time it restores.
    constexpr std::uint64_t again_bit = 1;
    for (const auto& [place, value] : words)
      world.require((memory.observe_word(place) | again_bit) == (value | again_bit),
                    "a word was not restored");
  }
};

Scenario all_words_overwritten(const SimulatedPool& pool, std::uint64_t area, bool leave) {
  Scenario scenario = with_lasting_copies(pool.scenario("all words of a rank are overwritten", 3));
  scenario.body = [&pool, area, leave](World& world) {
    auto all = std::make_shared<Overwritten>(area);
    all->check = world.random() % 2 == 0;
    all->leave = leave;
    for (std::uint32_t self = 0; self < 2; ++self)
      world.spawn(self, [&world, &pool, all, self] { all->take(world, pool, self); });
    world.spawn(2, [&world, &pool, all] { all->clear(world, pool); });
  };
  return scenario;
}

TEST(CommunicatorsOverwritten, AllWordsAreRestoredAtTheNextCheck) {
  SimulatedPool pool;
  const std::uint64_t area = place_communicator(pool, 2);
  expect_held("collectives", "random schedules",
              explore(all_words_overwritten(pool, area, false), 20));
}

TEST(CommunicatorsOverwritten, WhoLeavesHasRestoredItsWordsBefore) {
  SimulatedPool pool;
  const std::uint64_t area = place_communicator(pool, 2);
  expect_held("collectives", "random schedules",
              explore(all_words_overwritten(pool, area, true), 40));
}

/// Rank 1 dies somewhere in leave(), or just before or after.
TEST(Communicators, FreedOrReportedWhenRankDiesLeaving) {
  SimulatedPool pool;
  const std::uint64_t area = place_communicator(pool, ranks);
  Scenario scenario = pool.scenario("a rank dies as it leaves a communicator", ranks);
  scenario.body = [&pool, area](World& world) {
    auto all = std::make_shared<Case>(area);
    for (std::uint32_t self = 0; self < ranks; ++self) {
      Process& process = world.spawn(self, [&world, &pool, all, self] {
        const auto attached = all->meeting.attach(world, pool, self);
        const auto died = [&] { return world.victim()->dead; };
        wait_until(world, "the ranks", [&] { return all->meeting.all_came() || died(); });
        if (!all->meeting.all_came()) return;
        const auto comm = all->meeting.open(world, *attached, self);
        comm->leave();
        all->left[self] = true;
        if (self != 0) return;
        const auto left = comm->await_all_left("the end");
        if (left) world.require(all->left[2], "rank 2 has not left");
        if (!left)
          world.require(left.error().code == ErrorCode::peer_dead && died() &&
                            left.error().message.find("rank 1 (pid") != std::string::npos,
                        left.error().message);
      });
      if (self == 1) world.mark_victim(process);
    }
  };
  expect_held("collectives", "crash points", crash_everywhere(scenario, 60));
}

}  // namespace
}  // namespace penstock::sim::communicator_end_test

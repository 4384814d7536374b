// Collectives on memory without coherence: calls of all kinds in turn, eager and by slots, on ranks
// of which some share a node; slots and blocks that are used again and again; ranks that die.
#include "coll/communicator.hpp"

#include <gtest/gtest.h>

#include <memory>
#include <vector>

#include "schedule/test_calls.hpp"
#include "sim/tests/communicator_meeting.hpp"
#include "sim/tests/expect_held.hpp"
#include "sim/tests/lasting_copies.hpp"

namespace penstock::sim::communicator_test {
namespace {

using coll::Collective;
using coll::Communicator;

constexpr std::uint32_t nodes = 3;
constexpr const coll::Shape& shape = small_shape;

struct Plan : Meeting {
  using Meeting::Meeting;
  std::uint32_t on_nodes = nodes;  ///< nodes to which the ranks are dealt in turn
  std::vector<coll::TestCall> calls;
  std::vector<coll::Plan> plans;
  bool check = false;
};

enum class Kinds : std::uint8_t { all, from_one_root };

class Rank : PlanRank<Plan> {
 public:
  using PlanRank::PlanRank;

  void call_all() {
    if (!await_all_ranks()) return;
    const auto comm = plan_.open(world_, *pool_, self_, plan_.check);
    for (std::size_t i = 0; i < plan_.calls.size(); ++i) {
      if (!call(*comm, i)) return;
    }
    comm->leave();
    if (self_ != 0) return;
    if (const auto all = comm->await_all_left("the end"); !all) {
      died(all.error());
      return;
    }
    expect_it_stays(world_, *pool_, plan_.area, static_cast<std::uint32_t>(plan_.tokens.size()),
                    plan_.shape);
  }

 private:
  bool call(Communicator& comm, std::size_t number) {
    const coll::TestCall& w = plan_.calls[number];
    std::vector<coll::Made> made = coll::make_all(w);
    coll::Made& own = made[self_];
    std::vector<std::byte> in = own.input, out = own.output;
    coll::Plan plan = plan_.plans[number];
    plan.eager = plan.eager && comm.plan(own.problem).eager;
    if (plan.eager) plan = {.eager = true};
    const coll::WordArithmetic arithmetic;
    const auto done = comm.run({.name = name_of(w.collective),
                                .problem = &own.problem,
                                .plan = plan,
                                .input = in.data(),
                                .output = own.problem.in_place ? in.data() : out.data(),
                                .arithmetic = &arithmetic});
    if (!done) return died(done.error());
    const auto wrong = check_result(w, made, self_, own.problem.in_place ? in : out);
    world_.require(wrong.empty(), fmt::format("call {}, {}{}: {}", number, name_of(w.collective),
                                              plan.eager ? ", eager" : "", wrong));
    return true;
  }
  bool died(const Error& error) {
    world_.require(error.code == ErrorCode::peer_dead && somebody_died(), error.message);
    const std::uint32_t victim = world_.victim()->number;
    bool named = false;  // the victim, or another rank that has died with its node
    for (std::size_t rank = victim % plan_.on_nodes; rank < plan_.tokens.size();
         rank += plan_.on_nodes)
      named = named || error.message.find(fmt::format("rank {} (pid", rank)) != std::string::npos;
    world_.require(named || error.message.ends_with(" left"), error.message);
    return false;
  }
};

coll::TestCall draw(Kinds kinds, std::uint32_t ranks, std::mt19937_64& random) {
  auto collective = coll::any_collective(random);
  if (kinds == Kinds::from_one_root) collective = Collective::broadcast;
  coll::TestCall call = coll::draw_call(collective, ranks, random);
  call.salt = static_cast<std::uint32_t>(random());
  if (kinds == Kinds::from_one_root) call.root = 1;
  return call;
}

/// Draws calls with all algorithms and variants, on 1 to 3 devices.
void draw_calls(Plan& plan, std::uint32_t number, Kinds kinds, std::mt19937_64& random) {
  const auto ranks = static_cast<std::uint32_t>(plan.tokens.size());
  plan.check = random() % 4 == 0;
  const auto devices = static_cast<std::uint32_t>(1 + random() % 3);
  if (devices > 1) plan.shape = on_devices(devices);
  for (std::uint32_t i = 0; i < number; ++i) {
    plan.calls.push_back(draw(kinds, ranks, random));
    plan.plans.push_back(coll::draw_plan(plan.calls.back().collective, ranks, random));
    plan.plans.back().slot_bytes = shape.slot_bytes;
    plan.plans.back().eager = random() % 3 != 0;
  }
}

struct Calls {
  std::uint32_t ranks, number;
  Kinds kinds = Kinds::all;
  std::uint32_t victim = ~0u;
  std::uint32_t on_nodes = nodes;
};

Scenario calls(const SimulatedPool& pool, std::uint64_t area, const Calls& of) {
  Scenario scenario = pool.scenario(
      fmt::format("collectives of {} ranks on {} nodes{}{}", of.ranks, of.on_nodes,
                  of.kinds == Kinds::from_one_root ? " from one root" : "",
                  of.victim < of.ranks ? fmt::format(", rank {} dies", of.victim) : ""),
      nodes);
  scenario.max_steps = 6'000'000;
  scenario.body = [&pool, area, of](World& world) {
    auto plan = std::make_shared<Plan>(area, of.ranks);
    plan->on_nodes = of.on_nodes;
    for (std::uint32_t rank = 0; rank < of.ranks; ++rank)
      plan->node_of.push_back(rank % of.on_nodes);
    std::mt19937_64 random(world.random());
    draw_calls(*plan, of.number, of.kinds, random);
    spawn_ranks<Rank>(world, pool, plan, of.on_nodes, of.victim);
  };
  return scenario;
}

TEST(Collectives, GiveWhatIsPromised) {
  for (const Calls& of :
       {Calls{2, 8}, Calls{4, 8}, Calls{.ranks = 4, .number = 8, .on_nodes = 2}}) {
    SimulatedPool pool;
    const std::uint64_t area = place_communicator(pool, of.ranks);
    const Scenario scenario = calls(pool, area, of);
    expect_held("collectives", "random schedules", explore(scenario, 60));
    expect_held("collectives", "random schedules", explore(with_lasting_copies(scenario), 40));
  }
}

/// The root learns of a rank only by that rank's word that it has finished.
TEST(Collectives, FromOneRootUseSlotsAndBlocksAgain) {
  SimulatedPool pool;
  const std::uint64_t area = place_communicator(pool, 3);
  const Scenario scenario = calls(pool, area, {3, 16, Kinds::from_one_root});
  expect_held("collectives", "random schedules", explore(scenario, 40));
  expect_held("collectives", "random schedules", explore(with_lasting_copies(scenario), 20));
}

/// The first error of a gather to rank 1 and a broadcast from it.
std::string first_error(Communicator& comm, bool eager) {
  std::vector<std::byte> own(16), all(16 * comm.ranks());
  coll::Problem gather{.collective = Collective::gather,
                       .ranks = comm.ranks(),
                       .rank = comm.self(),
                       .root = 1,
                       .input = {{0, 16}},
                       .max_block_bytes = 16};
  for (std::uint64_t rank = 0; comm.self() == 1 && rank < comm.ranks(); ++rank)
    gather.output.push_back({16 * rank, 16});
  coll::Problem broadcast = gather;
  broadcast.collective = Collective::broadcast;
  broadcast.output.clear();
  if (comm.self() != 1) broadcast.output.swap(broadcast.input);
  for (const coll::Problem* problem : {&gather, &broadcast}) {
    const auto done = comm.run({.problem = problem,
                                .plan = {.slot_bytes = shape.slot_bytes, .eager = eager},
                                .input = own.data(),
                                .output = all.data()});
    if (!done) return done.error().message;
  }
  return "no error";
}

/// Two ranks that take turns: each finds at its next look what the other has done.
struct Turns {
  static constexpr std::uint32_t number = 14;
  /// One fits a block, one takes one chunk, one reuses all slots.
  static constexpr std::uint64_t bytes[] = {40, 200, 6 * shape.slot_bytes};

  explicit Turns(std::uint64_t area) : plan(area, 2) {}
  Meeting plan;
  bool ahead = false;      ///< each goes on until it must wait
  bool check = false;      ///< each first waits for the other's call
  std::uint32_t turn = 1;  ///< the reader looks before there is anything
  bool over[2] = {};

  static void take(World& world, const SimulatedPool& simulated, const std::shared_ptr<Turns>& t,
                   std::uint32_t self) {
    const auto pool = t->plan.attach(world, simulated, self);
    wait_until(world, "the other", [&] { return t->plan.all_came(); });
    const auto comm = t->plan.open(world, *pool, self, t->check);
    for (std::uint32_t i = 0; i < number; ++i) t->call(world, *comm, i);
    t->over[self] = true;
    t->turn = 1 - self;
  }
  void call(World& world, Communicator& comm, std::uint32_t index) {
    const std::uint32_t self = comm.self();
    const std::uint64_t size = bytes[index % std::size(bytes)];
    std::vector<std::byte> data(size, std::byte(self == 0 ? index + 1 : 0));
    coll::Problem problem{.collective = Collective::broadcast, .ranks = 2, .rank = self};
    (self == 0 ? problem.input : problem.output) = {{0, size}};
    problem.max_block_bytes = size;
    const coll::Plan way = comm.plan(problem);
    world.require(way.eager == (size == 40), "the call took another form than planned");
    if (check) my_turn(world, self);  // the first step publishes the call
    must(world,
         comm.begin(
             {.problem = &problem, .plan = way, .input = data.data(), .output = data.data()}));
    std::uint32_t looks = 0;
    for (bool done = false; !done; ++looks) {
      my_turn(world, self);
      done = advance(world, comm);
      // A second look in vain: its copies stay, because it does not check whether the other lives.
      if (!done) world.require(!advance(world, comm), "a look accepted old contents");
      if (!done || !ahead) turn = 1 - self;
    }
    const std::uint32_t enough = size > shape.slots * shape.slot_bytes ? 5 : 2;
    world.require(looks <= enough,
                  fmt::format("call {} of rank {} took {} looks", number, self, looks));
    world.require(data.back() == std::byte(index + 1), "wrong bytes");
  }
  void my_turn(World& world, std::uint32_t self) const {
    wait_until(world, "a turn", [&] { return turn == self || over[1 - self]; });
  }
  static bool advance(World& world, Communicator& comm) {
    const auto advanced = comm.advance();
    world.require(advanced.has_value(), advanced ? "" : advanced.error().message);
    return *advanced;
  }
  static void must(World& world, const Result<void>& result) {
    world.require(result.has_value(), result ? "" : result.error().message);
  }
};

TEST(Collectives, ALookFindsWhatHasCome) {
  SimulatedPool pool;
  const std::uint64_t area = place_communicator(pool, 2);
  for (const int kind : {0, 1, 2}) {
    Scenario scenario = with_lasting_copies(pool.scenario("looks at collectives", 2));
    scenario.body = [&pool, area, kind](World& world) {
      auto turns = std::make_shared<Turns>(area);
      turns->ahead = kind == 1;
      turns->check = kind == 2;
      for (std::uint32_t self = 0; self < 2; ++self)
        world.spawn(self, [&world, &pool, turns, self] { Turns::take(world, pool, turns, self); });
    };
    expect_held("collectives", "random schedules", explore(scenario, 20));
  }
}

/// Rank 0 waits only for rank 1, which has found that rank 2 is gone, and lives on.
TEST(Collectives, ForwardsFailureToIndirectWaiters) {
  SimulatedPool pool;
  const std::uint64_t area = place_communicator(pool, 3);
  for (const bool eager : {false, true}) {
    Scenario scenario = with_lasting_copies(pool.scenario("failures of collectives", 3));
    scenario.body = [&pool, area, eager](World& world) {
      auto plan = std::make_shared<Meeting>(area, 3);
      auto notified = std::make_shared<bool>(false);
      for (std::uint32_t self = 0; self < 3; ++self) {
        world.spawn(self, [&world, &pool, plan, notified, eager, self] {
          const auto attached = plan->attach(world, pool, self);
          wait_until(world, "the ranks", [&] { return plan->all_came(); });
          if (self == 2) return;
          const auto comm = plan->open(world, *attached, self);
          const auto message = first_error(*comm, eager);
          const std::string name = "rank 2 (pid";
          world.require(message.find(name) != std::string::npos, message);
          if (self == 0) *notified = true;
          if (self == 1) wait_until(world, "rank 0 to be told", [&] { return *notified; });
        });
      }
    };
    expect_held("collectives", "random schedules", explore(scenario, 20));
  }
}

/// A sum whose size differs by rank, or a broadcast whose root does; then a broadcast from rank 1
/// and a barrier.
Result<void> calls_that_differ(Communicator& comm, bool sums, std::uint64_t bytes,
                               std::uint32_t root) {
  std::vector<std::byte> data(200), result(200);
  const coll::WordArithmetic arithmetic;
  const auto run = [&](Collective collective, std::uint32_t from, std::uint64_t size) {
    coll::Problem problem{.collective = collective,
                          .ranks = comm.ranks(),
                          .rank = comm.self(),
                          .root = from,
                          .max_block_bytes = size};
    const bool reduces = collective == Collective::allreduce;
    if (reduces) problem.element_bytes = coll::test_word;
    if (reduces || (size != 0 && comm.self() == from)) problem.input = {{0, size}};
    if (reduces || (size != 0 && comm.self() != from)) problem.output = {{0, size}};
    return comm.run({.problem = &problem,
                     .plan = comm.plan(problem),
                     .input = data.data(),
                     .output = reduces ? result.data() : data.data(),
                     .arithmetic = &arithmetic});
  };
  PENSTOCK_TRY(run(sums ? Collective::allreduce : Collective::broadcast, root, bytes));
  PENSTOCK_TRY(run(Collective::broadcast, 1, 40));
  return run(Collective::barrier, 0, 0);
}

/// Whichever call differs and whichever rank is late, all ranks get an error, no rank waits for
/// ever, and at least one names a rank that differs. If each rank waits for all others, it may even
/// end at once: no other takes it for dead.
TEST(Collectives, FailOnAllRanksWhenCallsDiffer) {
  SimulatedPool pool;
  const std::uint64_t area = place_communicator(pool, 3);
  for (const bool sums : {false, true}) {
    Scenario scenario = with_lasting_copies(pool.scenario("calls that differ", 3));
    scenario.body = [&pool, area, sums](World& world) {
      auto plan = std::make_shared<Meeting>(area, 3);
      auto named = std::make_shared<std::uint32_t>(0);
      auto ended = std::make_shared<std::uint32_t>(0);
      const auto other = static_cast<std::uint32_t>(world.random() % 3);
      const std::uint64_t late = world.random() % 4;
      for (std::uint32_t self = 0; self < 3; ++self) {
        world.spawn(self, [&world, &pool, plan, named, ended, sums, other, late, self] {
          const auto attached = plan->attach(world, pool, self);
          wait_until(world, "the ranks", [&] { return plan->all_came(); });
          const auto comm = plan->open(world, *attached, self);
          if (self == late) world.sleep(50'000'000);
          const bool differs = self == other;
          const auto done = calls_that_differ(*comm, sums, sums && differs ? 160 : 80,
                                              !sums && differs ? 2 - other % 2 : 0);
          world.require(!done, "calls that differ succeeded");
          const std::string& message = done.error().message;
          const bool names = done.error().code == ErrorCode::mismatch;
          world.require(names || message.find("given the") != std::string::npos, message);
          if (names) ++*named;
          ++*ended;
          if (!sums) wait_until(world, "the others", [&] { return *ended == 3; });
          world.require(*named != 0 || *ended != 3, "nobody says who differs");
        });
      }
    };
    expect_held("collectives", "random schedules", explore(scenario, 30));
  }
}

/// When the root comes, the reader has waited long, and holds copies of all that it polls.
TEST(Collectives, ADisagreementAboutTheFormIsFound) {
  SimulatedPool pool;
  const std::uint64_t area = place_communicator(pool, 2);
  for (const bool root_is_eager : {false, true}) {
    Scenario scenario = with_lasting_copies(pool.scenario("sizes that disagree", 2));
    scenario.body = [&pool, area, root_is_eager](World& world) {
      auto plan = std::make_shared<Meeting>(area, 2);
      for (std::uint32_t self = 0; self < 2; ++self) {
        world.spawn(self, [&world, &pool, plan, root_is_eager, self] {
          const auto attached = plan->attach(world, pool, self);
          wait_until(world, "the ranks", [&] { return plan->all_came(); });
          const auto comm = plan->open(world, *attached, self);
          if (self == 0) world.sleep(50'000'000);
          const bool eager = root_is_eager == (self == 0);
          std::vector<std::byte> data(100);
          const std::uint64_t bytes = self == 0 ? 100 : 99;
          coll::Problem problem{.collective = Collective::broadcast,
                                .ranks = 2,
                                .rank = self,
                                .max_block_bytes = bytes};
          (self == 0 ? problem.input : problem.output) = {{0, bytes}};
          const auto done = comm->run({.problem = &problem,
                                       .plan = {.slot_bytes = shape.slot_bytes, .eager = eager},
                                       .input = data.data(),
                                       .output = data.data()});
          world.require(done.has_value() == (self == 0),
                        "the reader got no error, or the root got one");
          world.require(done || done.error().message.find("calls broadcast of 100 bytes") !=
                                    std::string::npos,
                        done ? "" : done.error().message);
          if (self == 1) plan->opened = 0;
          if (self == 0) wait_until(world, "the reader", [&] { return plan->opened == 0; });
        });
      }
    };
    expect_held("collectives", "random schedules", explore(scenario, 20));
  }
}

TEST(Collectives, ADeathIsNamedOnAllOthers) {
  SimulatedPool pool;
  const std::uint64_t area = place_communicator(pool, 3);
  for (const std::uint32_t victim : {0u, 2u}) {
    expect_held("collectives", "crash points",
                crash_everywhere(calls(pool, area, {3, 5, Kinds::all, victim}), 120));
  }
}

/// One rank shares a node with the dead one; the others learn of the death only through it.
TEST(Collectives, NamesDeathOnMultiRankNodeEverywhere) {
  SimulatedPool pool;
  const std::uint64_t area = place_communicator(pool, 4);
  const Calls of{.ranks = 4, .number = 4, .victim = 1, .on_nodes = 2};
  expect_held("collectives", "crash points", crash_everywhere(calls(pool, area, of), 60));
}

}  // namespace
}  // namespace penstock::sim::communicator_test

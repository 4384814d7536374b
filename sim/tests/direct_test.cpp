// Collectives that GPUs do by themselves, on memory that neither caches nor orders their stores:
// each rank has two streams, out of step, and a host that only watches. Hosts make calls in
// between, or do not watch at all, and ranks die at any operation. The same by launches: the code
// of the kernel itself, run by threads of a block that are out of step.
#include <gtest/gtest.h>

#include <memory>
#include <random>
#include <vector>

#include "coll/test_streams.hpp"
#include "sim/tests/communicator_meeting.hpp"
#include "sim/tests/expect_held.hpp"
#include "sim/tests/fused_stream.hpp"
#include "sim/tests/hour.hpp"
#include "sim/tests/lasting_copies.hpp"

namespace penstock::sim::direct_test {
namespace {

using coll::Collective;
using coll::Communicator;
using coll::TestStreams;

constexpr std::uint32_t nodes = 3;

struct Plan : Meeting {
  using Meeting::Meeting;
  std::vector<coll::TestCall> calls;
  std::vector<coll::Plan> plans;
  std::vector<bool> by_hosts;
  bool watched = true;  ///< false: no host ever looks
  /// By rank: whether its calls are one launch each, and whether the launches count themselves.
  enum class Form : std::uint8_t { streams, launches, counting };
  std::vector<Form> forms;
  /// A rank that gives up at one of its calls, and releases its GPU with any data it has: nothing
  /// if it has waited for that before. After the last call no other rank needs it.
  std::uint32_t gives_up = ~0u;
  std::size_t gives_up_at = 0;
  bool gives_up_idle = false;
  std::uint64_t between_looks_ns = 20'000'000;
};

class Rank : PlanRank<Plan> {
 public:
  using PlanRank::PlanRank;

  void call_all() {
    if (!await_all_ranks()) return;
    comm_ = plan_.open(world_, *pool_, self_);
    const auto pause = [this] { world_.yield(); };
    bool done = false;
    if (plan_.forms[self_] == Plan::Form::streams) {
      TestStreams streams(*comm_, pool_->memory(), pool_->base() + plan_.area, pause);
      done = call_all_by(streams);
    } else {
      FusedStream stream(*comm_, *pool_, plan_.area,
                         plan_.forms[self_] == Plan::Form::counting ? &number_ : nullptr, pause);
      done = call_all_by(stream);
    }
    if (!done) return;
    comm_->leave();
    if (self_ != 0) return;
    const auto all = comm_->await_all_left("the end");
    if (!all) died(all.error());
    if (all)
      expect_it_stays(world_, *pool_, plan_.area, static_cast<std::uint32_t>(plan_.tokens.size()),
                      plan_.shape);
  }

 private:
  template <class Streams>
  bool call_all_by(Streams& streams) {
    comm_->direct().count_in(&number_, streams.done());
    const bool done = call_all(streams);
    while (!streams.is_drained()) {
      if (!done) streams.stop();
      if (!done) comm_->direct().release_gpu();
      world_.sleep(10'000);
    }
    return done;
  }

  /// A call of a GPU that was enqueued.
  struct Enqueued {
    std::size_t number = 0;
    std::vector<coll::Made> made;
    std::vector<std::byte> in, out;
    bool in_place() const { return made.front().problem.in_place; }
  };

  std::unique_ptr<Enqueued> make_call(std::size_t number) const {
    auto made = std::make_unique<Enqueued>();
    made->number = number;
    made->made = coll::make_all(plan_.calls[number]);
    made->in = made->made[self_].input;
    made->out = made->made[self_].output;
    return made;
  }
  std::byte* result_of(Enqueued& call) const {
    return call.made[self_].problem.in_place ? call.in.data() : call.out.data();
  }
  bool is_right(const Enqueued& call) {
    const coll::TestCall& w = plan_.calls[call.number];
    const bool in_place = call.made[self_].problem.in_place;
    const auto wrong = check_result(w, call.made, self_, in_place ? call.in : call.out);
    world_.require(wrong.empty(),
                   fmt::format("call {}, {}: {}", call.number, name_of(w.collective), wrong));
    return true;
  }

  template <class Streams>
  bool call_all(Streams& streams) {
    // The streams write to these until they have ended.
    for (std::size_t i = 0; i < plan_.calls.size(); ++i) {
      if (self_ == plan_.gives_up && i == plan_.gives_up_at) return gives_up(streams);
      calls_.push_back(make_call(i));
      Enqueued& call = *calls_.back();
      const coll::Problem& problem = call.made[self_].problem;
      const coll::WordArithmetic arithmetic;
      const coll::Call core{.name = name_of(plan_.calls[i].collective),
                            .problem = &problem,
                            .plan = plan_.plans[i],
                            .input = call.in.data(),
                            .output = result_of(call),
                            .arithmetic = &arithmetic};
      if (plan_.by_hosts[i]) {
        if (!all_done(streams)) return false;
        const auto done = comm_->run(core);
        if (!done) return died(done.error());
        is_right(call);
        continue;
      }
      const auto prepared = comm_->prepare_direct(core);
      world_.require(prepared.has_value(), "a plan that cannot be");
      streams.enqueue(comm_->direct(), *prepared, call.in.data(), result_of(call));
      pending_.push_back(&call);
    }
    return self_ == plan_.gives_up ? gives_up(streams) : all_done(streams);
  }

  /// The watchdog's work, and then that of the program, which has waited for its streams.
  template <class Streams>
  bool all_done(const Streams& streams) {
    std::vector<std::uint32_t> missing;
    while (streams.in_progress() != nullptr) {
      world_.sleep(plan_.between_looks_ns);
      if (!plan_.watched || streams.in_progress() == nullptr) continue;
      const auto looked = streams.look(comm_->direct(), missing);
      if (!looked) return fails(looked.error());
    }
    while (!streams.is_drained()) world_.sleep(10'000);
    const auto looked = comm_->direct().look_for_failures("the calls");
    if (!looked) return fails(looked.error());
    for (const Enqueued* const call : pending_) is_right(*call);
    pending_.clear();
    return true;
  }
  /// As a watchdog that hears of an abort while the program waits for its streams.
  template <class Streams>
  bool gives_up(const Streams& streams) {
    if (plan_.gives_up_idle && plan_.forms[self_] == Plan::Form::counting && !all_done(streams))
      return false;
    while (plan_.gives_up_idle && !streams.are_done() && plan_.forms[self_] != Plan::Form::counting)
      world_.yield();
    if (world_.random() % 2 == 0) world_.sleep(world_.random() % (4 * plan_.between_looks_ns));
    comm_->give_up({ErrorCode::unavailable, "aborted"}, streams.are_done());
    return plan_.gives_up_at == plan_.calls.size() && all_done(streams);
  }
  bool fails(const Error& error) {
    comm_->give_up(error, false);
    return died(error);
  }
  bool died(const Error& error) {
    // A rank that has given up ends, and may be found gone.
    const bool given_up =
        plan_.gives_up < plan_.tokens.size() && plan_.gives_up_at < plan_.calls.size() &&
        (error.code == ErrorCode::unavailable || error.code == ErrorCode::peer_dead);
    world_.require(given_up || (error.code == ErrorCode::peer_dead && somebody_died()),
                   error.message);
    return false;
  }

  std::unique_ptr<Communicator> comm_;
  std::uint64_t number_ = 0;
  std::vector<std::unique_ptr<Enqueued>> calls_;
  std::vector<const Enqueued*> pending_;
};

coll::Shape direct_shape(std::uint32_t devices) {
  coll::Shape shape = devices > 1 ? on_devices(devices) : small_shape;
  shape.direct = true;
  return shape;
}

/// Whether one launch on each rank takes the call, as in gpu/fused_arguments.hpp and
/// Movement::check(): a block of threads does not reduce elements in ascending order.
bool is_for_launches(const coll::TestCall& call, coll::Plan plan, const coll::Shape& shape,
                     const coll::NodeMap& node_map) {
  plan.slots = shape.slots;
  const auto ranks = static_cast<std::uint32_t>(call.bytes.size());
  for (std::uint32_t rank = 0; rank < ranks; ++rank) {
    const coll::Problem problem = make(call, rank).problem;
    const auto schedule = build(problem, plan, node_map);
    if (!schedule || !coll::can_combine_at_once(*schedule, problem.in_place)) return false;
    const auto program = direct_program_of(*schedule, coll::Layout(ranks, shape), ranks, rank);
    std::size_t words = 0, moves = 0, operands = 0;
    const auto rounds = fused_program_of(program, *schedule);
    for (const coll::FusedRound& round : rounds) {
      words += round.waits.size() + round.signals.size();
      for (const coll::FusedMove& move : round.moves)
        operands += std::max(1u, schedule->steps[move.step].operand_count);
      moves += round.moves.size();
    }
    using gpu::FusedCall;
    if (rounds.size() > FusedCall::max_rounds || words > FusedCall::max_words ||
        moves > FusedCall::max_moves || operands > FusedCall::max_operands)
      return false;
  }
  return true;
}

struct Drawing {
  std::uint32_t ranks = 2, calls = 8, victim = ~0u;
  bool watched = true;
  std::uint32_t one_of_by_hosts = 5;  ///< 0: none
  bool one_gives_up = false;
  bool at_the_end = false;  ///< once it has done all its calls
  bool launches = false;    ///< by some of the ranks, or all
  bool empty = false;       ///< GPUs' calls move nothing, with hosts' calls in between
};

coll::TestCall broadcast_from(std::uint32_t root, std::uint32_t ranks, std::uint64_t bytes) {
  const std::vector<std::uint64_t> of_each(ranks, bytes);
  return {.collective = Collective::broadcast,
          .ranks = ranks,
          .root = root,
          .in_place = false,
          .known = true,
          .bytes = std::vector<std::vector<std::uint64_t>>(ranks, of_each)};
}

/// Draws the next call of a plan; none if launches cannot do it.
void draw_call(Plan& plan, const Drawing& drawing, std::mt19937_64& random) {
  constexpr std::uint64_t few_lines = 3 * 64;
  const std::size_t number = plan.calls.size();
  coll::TestCall call = coll::draw_call(coll::any_collective(random), drawing.ranks, random);
  coll::Plan how = coll::draw_plan(call.collective, drawing.ranks, random);
  bool by_hosts = drawing.one_of_by_hosts != 0 && random() % drawing.one_of_by_hosts == 0;
  // No rank waits for the last word that it writes.
  if (drawing.at_the_end && number + 1 == drawing.calls)
    call = broadcast_from(plan.gives_up, drawing.ranks, few_lines);
  if (drawing.empty) {
    by_hosts = number % 2 == 0;
    call = broadcast_from(0, drawing.ranks, by_hosts ? few_lines : 0);
  }
  if (call.collective == Collective::broadcast && (drawing.empty || drawing.at_the_end)) how = {};
  call.salt = static_cast<std::uint32_t>(random());
  how.slot_bytes = small_shape.slot_bytes;
  if (drawing.launches && !is_for_launches(call, how, plan.shape, coll::NodeMap(plan.node_of)))
    return;
  plan.calls.push_back(call);
  plan.plans.push_back(how);
  plan.by_hosts.push_back(by_hosts);
}

Scenario calls(const SimulatedPool& pool, std::uint64_t area, const Drawing& drawing) {
  Scenario scenario =
      pool.scenario(fmt::format("collectives by GPUs alone, {} ranks{}{}", drawing.ranks,
                                drawing.victim < drawing.ranks ? ", one dies" : "",
                                drawing.watched ? "" : ", not watched"),
                    nodes);
  scenario.max_steps = 6'000'000;
  scenario.body = [&pool, area, drawing](World& world) {
    auto plan = std::make_shared<Plan>(area, drawing.ranks);
    plan->watched = drawing.watched;
    if (drawing.one_gives_up) {
      plan->gives_up = static_cast<std::uint32_t>(world.random() % drawing.ranks);
      plan->gives_up_at = drawing.at_the_end ? drawing.calls : world.random() % drawing.calls;
      plan->gives_up_idle = drawing.at_the_end || world.random() % 2 == 0;
      // While it still has calls under way, or just after it has written the last word.
      plan->between_looks_ns = drawing.at_the_end ? 1'000 : 200'000;
    }
    for (std::uint32_t rank = 0; rank < drawing.ranks; ++rank)
      plan->node_of.push_back(rank % nodes);
    std::mt19937_64 random(world.random());
    plan->shape = direct_shape(static_cast<std::uint32_t>(1 + random() % 3));
    const bool mixed = world.random() % 2 == 0;
    for (std::uint32_t rank = 0; rank < drawing.ranks; ++rank)
      plan->forms.push_back(
          drawing.launches && (!mixed || world.random() % 2 == 0)
              ? static_cast<Plan::Form>(1 + world.random() % (drawing.at_the_end ? 1 : 2))
              : Plan::Form::streams);
    while (plan->calls.size() < drawing.calls) draw_call(*plan, drawing, random);
    spawn_ranks<Rank>(world, pool, plan, nodes, drawing.victim);
  };
  return scenario;
}

TEST(GpusAlone, GiveWhatIsPromised) {
  for (const std::uint32_t ranks : {2u, 4u}) {
    SimulatedPool pool;
    const std::uint64_t area = place_communicator(pool, ranks, direct_shape(3));
    const Scenario scenario = calls(pool, area, {.ranks = ranks});
    expect_held("GPUs alone", "random schedules", explore(scenario, 60));
    expect_held("GPUs alone", "random schedules", explore(with_lasting_copies(scenario), 40));
  }
}

TEST(GpusAlone, NeedNoHostToGoOn) {
  SimulatedPool pool;
  const std::uint64_t area = place_communicator(pool, 3, direct_shape(3));
  expect_held("GPUs alone", "hosts that never look",
              explore(calls(pool, area, {.ranks = 3, .watched = false, .one_of_by_hosts = 0}), 40));
}

/// Streams that were released write words for chunks that do not exist: a rank that has taken these
/// finds the failure when it asks.
TEST(GpusAlone, TellOfAFailureBeforeWrongData) {
  for (const std::uint32_t ranks : {2u, 3u}) {
    SimulatedPool pool;
    const std::uint64_t area = place_communicator(pool, ranks, direct_shape(3));
    const Scenario scenario =
        calls(pool, area, {.ranks = ranks, .calls = 6, .one_of_by_hosts = 0, .one_gives_up = true});
    expect_held("GPUs alone", "a rank gives up", explore(scenario, 60));
    expect_held("GPUs alone", "a rank gives up", explore(with_lasting_copies(scenario), 60));
  }
}

/// A rank that aborts after all it began is done has announced nothing wrong: the others, which are
/// still at their last calls, do not fail.
TEST(GpusAlone, SucceedWhenFinishedRankAborts) {
  for (const std::uint32_t ranks : {2u, 3u}) {
    SimulatedPool pool;
    const std::uint64_t area = place_communicator(pool, ranks, direct_shape(3));
    const Scenario scenario =
        calls(pool, area, {.ranks = ranks, .calls = 4, .one_gives_up = true, .at_the_end = true});
    expect_held("GPUs alone", "a rank gives up at the end", explore(scenario, 40));
    expect_held("GPUs alone", "a rank gives up at the end",
                explore(with_lasting_copies(scenario), 30));
  }
}

TEST(GpusAlone, AreLetGoAtEachDeath) {
  SimulatedPool pool;
  const std::uint64_t area = place_communicator(pool, 3, direct_shape(3));
  for (const std::uint32_t victim : {0u, 2u})
    expect_held(
        "GPUs alone", "a kill after each operation",
        crash_everywhere(calls(pool, area, {.ranks = 3, .calls = 5, .victim = victim}), 120));
}

/// By one launch for each call, with the kernel's own code; mixed with ranks that use streams.
TEST(GpusByLaunches, GiveWhatIsPromised) {
  for (const std::uint32_t ranks : {2u, 4u}) {
    SimulatedPool pool;
    const std::uint64_t area = place_communicator(pool, ranks, direct_shape(3));
    const Scenario scenario = calls(pool, area, {.ranks = ranks, .launches = true});
    expect_held("GPUs by launches", "random schedules", explore(scenario, 60));
    expect_held("GPUs by launches", "random schedules", explore(with_lasting_copies(scenario), 40));
  }
}

TEST(GpusByLaunches, NeedNoHostToGoOn) {
  SimulatedPool pool;
  const std::uint64_t area = place_communicator(pool, 3, direct_shape(3));
  expect_held("GPUs by launches", "hosts that never look",
              explore(calls(pool, area,
                            {.ranks = 3, .watched = false, .one_of_by_hosts = 0, .launches = true}),
                      40));
}

TEST(GpusByLaunches, TellOfNothingWrong) {
  for (const bool at_the_end : {false, true}) {
    SimulatedPool pool;
    const std::uint64_t area = place_communicator(pool, 3, direct_shape(3));
    const Scenario scenario = calls(pool, area,
                                    {.ranks = 3,
                                     .calls = 5,
                                     .one_of_by_hosts = 0,
                                     .one_gives_up = true,
                                     .at_the_end = at_the_end,
                                     .launches = true});
    expect_held("GPUs by launches", "a rank gives up", explore(scenario, 60));
  }
}

TEST(GpusByLaunches, SurviveAStopOfAnHour) {
  constexpr std::uint64_t operations = 2'000;
  SimulatedPool pool({.lease_ms = usual_lease_ms});
  const std::uint64_t area = place_communicator(pool, 3, direct_shape(3));
  for (const std::uint32_t victim : {0u, 2u})
    expect_held(
        "GPUs by launches", "an hour at any operation",
        explore(with_an_hour(
                    calls(pool, area, {.ranks = 3, .calls = 4, .victim = victim, .launches = true}),
                    operations),
                30));
}

/// The host learns that a call is done only after all words that the block has written: a rank that
/// waits for one of these words does not see an abort instead.
TEST(GpusByLaunches, AreDoneBehindTheirLastWord) {
  SimulatedPool pool;
  const std::uint64_t area = place_communicator(pool, 3, direct_shape(1));
  expect_held("GPUs by launches", "an abort behind a broadcast",
              explore(calls(pool, area,
                            {.ranks = 3,
                             .calls = 1,
                             .one_of_by_hosts = 0,
                             .one_gives_up = true,
                             .at_the_end = true,
                             .launches = true}),
                      120));
}

/// A call that moves nothing writes one word twice: for earlier calls being finished, and for its
/// own end.
TEST(GpusByLaunches, TellOfEmptyCallsInOrder) {
  SimulatedPool pool;
  const std::uint64_t area = place_communicator(pool, 2, direct_shape(3));
  expect_held("GPUs by launches", "empty calls between those of hosts",
              explore(calls(pool, area, {.calls = 9, .launches = true, .empty = true}), 60));
}

TEST(GpusByLaunches, AreLetGoAtEachDeath) {
  SimulatedPool pool;
  const std::uint64_t area = place_communicator(pool, 3, direct_shape(3));
  for (const std::uint32_t victim : {0u, 2u})
    expect_held(
        "GPUs by launches", "a kill after each operation",
        crash_everywhere(
            calls(pool, area, {.ranks = 3, .calls = 4, .victim = victim, .launches = true}), 100));
}

}  // namespace
}  // namespace penstock::sim::direct_test

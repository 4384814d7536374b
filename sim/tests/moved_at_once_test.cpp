// Small collectives whose data one launch each moves, on memory without coherence: the code of the
// kernel itself, by a block of two threads out of step. Its stores reach the host's caches late and
// in any order, and the thread that keeps the protocol writes back and invalidates. Mixed with
// calls by lanes and by hosts, with ranks that die, give up, or end once their last launch has.
#include <gtest/gtest.h>
#include <unistd.h>

#include <memory>
#include <mutex>
#include <random>
#include <thread>
#include <vector>

#include "coll/test_mover.hpp"
#include "sim/tests/communicator_meeting.hpp"
#include "sim/tests/expect_held.hpp"
#include "sim/tests/hour.hpp"
#include "sim/tests/lasting_copies.hpp"
#include "sim/tests/moved_stream.hpp"

namespace penstock::sim::moved_at_once_test {
namespace {

using coll::Collective;
using coll::Communicator;

enum class Way : std::uint8_t { hosts, lanes, launch };

struct Plan : Meeting {
  using Meeting::Meeting;
  std::vector<coll::TestCall> calls;
  std::vector<coll::Plan> plans;
  std::vector<std::vector<Way>> ways;  ///< by call and rank; all by hosts or none
  std::uint32_t next_owner = 0;        ///< the rank that has the memory when all have left
  std::uint32_t gives_up = ~0u;        ///< a rank that gives up at its call `gives_up_at`
  std::size_t gives_up_at = 0;
};

/// A call of a rank, and its memory.
struct Enqueued {
  std::size_t number = 0;
  std::vector<coll::Made> made;
  std::vector<std::byte> in, out;

  Enqueued(const coll::TestCall& call, std::size_t its_number, std::uint32_t self)
      : number(its_number),
        made(coll::make_all(call)),
        in(made[self].input),
        out(made[self].output) {}
  std::byte* result(std::uint32_t self) {
    return made[self].problem.in_place ? in.data() : out.data();
  }
  bool is_untouched(std::uint32_t self) const {
    return in == made[self].input && out == made[self].output;
  }
};

/// A rank of any scenario.
class Caller : protected PlanRank<Plan> {
 public:
  using PlanRank::PlanRank;

 protected:
  coll::Call described(Enqueued& call) const {
    static const coll::WordArithmetic arithmetic;
    return {.name = name_of(plan_.calls[call.number].collective),
            .problem = &call.made[self_].problem,
            .plan = plan_.plans[call.number],
            .input = call.in.data(),
            .output = call.result(self_),
            .arithmetic = &arithmetic};
  }
  std::unique_ptr<Enqueued> make_call(std::size_t number) const {
    return std::make_unique<Enqueued>(plan_.calls[number], number, self_);
  }
  void expect_right(const Enqueued& call) const {
    const coll::TestCall& w = plan_.calls[call.number];
    const bool in_place = call.made[self_].problem.in_place;
    const auto wrong = check_result(w, call.made, self_, in_place ? call.in : call.out);
    world_.require(wrong.empty(),
                   fmt::format("call {}, {}: {}", call.number, name_of(w.collective), wrong));
  }
  bool enqueue(Communicator& comm, MovedStream& stream, Enqueued& call) const {
    const auto prepared = comm.prepare_moved(described(call));
    world_.require(prepared.has_value(), "a plan that cannot be");
    return stream.enqueue(*prepared, call.in.data(), call.result(self_));
  }
};

class Rank : Caller {
 public:
  using Caller::Caller;

  void call_all() {
    if (!await_all_ranks()) return;
    const auto comm = plan_.open(world_, *pool_, self_);
    comm->drop_copies_of_own_slots();
    {
      MovedStream stream(*comm, *pool_, world_.random(), [this] { world_.yield(); });
      const bool done = call_all(*comm, stream);
      if (!done) stream.release();
      while (!stream.are_over()) world_.sleep(10'000);
      if (!done) return expect_nothing_moved();
    }
    comm->write_back_own_slots();
    comm->leave();
    if (self_ != plan_.next_owner) return;
    const auto all = comm->await_all_left("the end");
    if (!all) died(all.error());
    if (all)
      expect_it_stays(world_, *pool_, plan_.area, static_cast<std::uint32_t>(plan_.tokens.size()),
                      plan_.shape);
  }

 private:
  bool call_all(Communicator& comm, MovedStream& stream) {
    for (std::size_t i = 0; i < plan_.calls.size(); ++i) {
      if (self_ == plan_.gives_up && i == plan_.gives_up_at) return gives_up(comm);
      auto call = make_call(i);
      Way way = plan_.ways[i][self_];
      if (way == Way::launch && enqueue(comm, stream, *call)) {
        pending_.push_back(std::move(call));
        const std::size_t most = 1 + world_.random() % 3;
        while (pending_.size() >= most)
          if (!lead(comm, stream)) return false;
        continue;
      }
      while (!pending_.empty())
        if (!lead(comm, stream)) return false;
      if (way == Way::launch) way = Way::lanes;
      const coll::Call told = described(*call);
      const auto done = way == Way::hosts ? comm.run(told)
                                          : run_moved(comm, told, call->in.data(),
                                                      call->result(self_), world_.random());
      if (!is_done(comm, done, *call)) return false;
    }
    while (!pending_.empty())
      if (!lead(comm, stream)) return false;
    return true;
  }
  /// The first one that is pending.
  bool lead(Communicator& comm, MovedStream& stream) {
    led_.push_back(std::move(pending_.front()));
    pending_.erase(pending_.begin());
    return is_done(comm, stream.lead(described(*led_.back())), *led_.back());
  }
  bool is_done(const Communicator& comm, const Result<void>& done, const Enqueued& call) const {
    if (!done) return died(done.error());
    // As a program that asks for errors once its stream is done.
    if (const auto others = comm.check_others("a call"); !others) return died(others.error());
    expect_right(call);
    return true;
  }
  bool gives_up(Communicator& comm) const {
    comm.give_up({ErrorCode::unavailable, "aborted"}, false);
    return false;
  }
  /// The memory of calls that were not led may have another owner.
  void expect_nothing_moved() const {
    for (const auto& call : pending_)
      world_.require(call->is_untouched(self_), "a launch that was let go has moved data");
  }
  bool died(const Error& error) const {
    const bool given_up =
        plan_.gives_up < plan_.tokens.size() &&
        (error.code == ErrorCode::unavailable || error.code == ErrorCode::peer_dead);
    world_.require(given_up || (error.code == ErrorCode::peer_dead && somebody_died()),
                   error.message);
    return false;
  }

  std::vector<std::unique_ptr<Enqueued>> pending_, led_;  ///< enqueued, in order
};

struct Drawing {
  std::uint32_t ranks = 2, calls = 8, victim = ~0u, nodes = 3;
  bool one_gives_up = false;
  bool only_launches = false;
};

/// Whether one launch on each rank takes the call, as in gpu/fused_arguments.hpp and
/// Movement::check(): a block of threads does not reduce elements in ascending order.
bool is_for_launches(const coll::TestCall& call, coll::Plan plan, const coll::Shape& shape,
                     const coll::NodeMap& node_map) {
  using gpu::FusedCall;
  plan.slots = shape.slots;
  for (std::uint32_t rank = 0; rank < call.ranks; ++rank) {
    const coll::Problem problem = make(call, rank).problem;
    const auto schedule = build(problem, plan, node_map);
    if (!schedule || !coll::can_combine_at_once(*schedule, problem.in_place)) return false;
    const auto program = lane_program_of(*schedule);
    std::size_t operands = 0;
    for (const coll::Step& step : schedule->steps) operands += std::max(1u, step.operand_count);
    if (program.events.size() > FusedCall::max_rounds || operands > FusedCall::max_moves)
      return false;
  }
  return true;
}

void draw_call(Plan& plan, const Drawing& drawing, std::mt19937_64& random) {
  coll::TestCall call = coll::draw_call(static_cast<Collective>(random() % coll::collective_count),
                                        drawing.ranks, random);
  coll::Plan how = coll::draw_plan(call.collective, drawing.ranks, random);
  call.salt = static_cast<std::uint32_t>(random());
  how.slot_bytes = small_shape.slot_bytes;
  if (drawing.only_launches && !is_for_launches(call, how, plan.shape, coll::NodeMap(plan.node_of)))
    return;
  const bool by_hosts = !drawing.only_launches && random() % 5 == 0;
  std::vector<Way> ways;
  for (std::uint32_t rank = 0; rank < drawing.ranks; ++rank)
    ways.push_back(drawing.only_launches || random() % 4 != 0 ? Way::launch : Way::lanes);
  if (by_hosts) ways.assign(drawing.ranks, Way::hosts);
  plan.calls.push_back(call);
  plan.plans.push_back(how);
  plan.ways.push_back(std::move(ways));
}

template <class Caller>
Scenario calls(const SimulatedPool& pool, std::uint64_t area, const Drawing& drawing) {
  Scenario scenario =
      pool.scenario(fmt::format("data moved by one launch, {} ranks{}", drawing.ranks,
                                drawing.victim < drawing.ranks ? ", one dies" : ""),
                    drawing.nodes);
  scenario.max_steps = 6'000'000;
  scenario.body = [&pool, area, drawing](World& world) {
    auto plan = std::make_shared<Plan>(area, drawing.ranks);
    for (std::uint32_t rank = 0; rank < drawing.ranks; ++rank)
      plan->node_of.push_back(rank % drawing.nodes);
    plan->next_owner = drawing.ranks > drawing.nodes ? 1 : 0;
    if (drawing.one_gives_up) {
      plan->gives_up = static_cast<std::uint32_t>(world.random() % drawing.ranks);
      plan->gives_up_at = world.random() % drawing.calls;
    }
    std::mt19937_64 random(world.random());
    const auto devices = static_cast<std::uint32_t>(1 + random() % 3);
    if (devices > 1) plan->shape = on_devices(devices);
    while (plan->calls.size() < drawing.calls) draw_call(*plan, drawing, random);
    spawn_ranks<Caller>(world, pool, plan, drawing.nodes, drawing.victim);
  };
  return scenario;
}

TEST(MovedAtOnce, GivesWhatIsPromised) {
  for (const std::uint32_t ranks : {2u, 3u, 4u}) {
    SimulatedPool pool;
    const std::uint64_t area = place_communicator(pool, ranks);
    const Scenario scenario = calls<Rank>(pool, area, {.ranks = ranks});
    expect_held("moved by one launch", "random schedules", explore(scenario, 50));
    expect_held("moved by one launch", "random schedules",
                explore(with_lasting_copies(scenario), 40));
  }
}

/// Two ranks share a node, whose caches hold the data that they pass to each other.
TEST(MovedAtOnce, LeavesNoStoresToTheNextOwner) {
  SimulatedPool pool;
  const std::uint64_t area = place_communicator(pool, 3);
  const Drawing drawing{.ranks = 3, .nodes = 2};
  const Scenario scenario = calls<Rank>(pool, area, drawing);
  expect_held("moved by one launch", "random schedules", explore(scenario, 50));
  expect_held("moved by one launch", "random schedules",
              explore(with_lasting_copies(scenario), 40));
}

TEST(MovedAtOnce, SurvivesADeathAtEachOperation) {
  SimulatedPool pool;
  const std::uint64_t area = place_communicator(pool, 3);
  for (const std::uint32_t victim : {0u, 2u})
    expect_held(
        "moved by one launch", "a kill after each operation",
        crash_everywhere(calls<Rank>(pool, area, {.ranks = 3, .calls = 4, .victim = victim}), 100));
}

TEST(MovedAtOnce, SurvivesAStopOfAnHour) {
  constexpr std::uint64_t operations = 2'000;
  SimulatedPool pool({.lease_ms = usual_lease_ms});
  const std::uint64_t area = place_communicator(pool, 3);
  for (const std::uint32_t nodes : {2u, 3u})
    for (const std::uint32_t victim : {0u, 2u}) {
      const Scenario scenario =
          calls<Rank>(pool, area, {.ranks = 3, .calls = 4, .victim = victim, .nodes = nodes});
      expect_held("moved by one launch", "an hour at any operation",
                  explore(with_an_hour(scenario, operations), 30));
    }
}

TEST(MovedAtOnce, MovesNothingOnceLetGo) {
  for (const std::uint32_t ranks : {2u, 3u}) {
    SimulatedPool pool;
    const std::uint64_t area = place_communicator(pool, ranks);
    const Scenario scenario = calls<Rank>(
        pool, area, {.ranks = ranks, .calls = 5, .one_gives_up = true, .only_launches = true});
    expect_held("moved by one launch", "a rank gives up", explore(scenario, 60));
    expect_held("moved by one launch", "a rank gives up",
                explore(with_lasting_copies(scenario), 40));
  }
}

// ---- a program that ends when its stream is done ------------------------------------------------

/// Enqueues all calls, and waits for its stream alone. A thread of its own leads the calls. Rank 0
/// then ends its process.
class Ending : Caller {
 public:
  using Caller::Caller;

  void call_all() {
    wait_until(world_, "the ranks", [&] { return plan_.all_came(); });
    const auto comm = plan_.open(world_, *pool_, self_);
    comm->drop_copies_of_own_slots();
    MovedStream stream(*comm, *pool_, world_.random(), [this] { world_.yield(); });
    for (std::size_t i = 0; i < plan_.calls.size(); ++i) {
      calls_.push_back(make_call(i));
      world_.require(enqueue(*comm, stream, *calls_.back()), "a call that a launch cannot take");
    }
    std::thread proxy([&] { lead_all(stream); });
    while (!stream.are_over()) world_.yield();
    for (const auto& call : calls_) expect_right(*call);
    if (self_ == 0) {
      world_.self().may_exit = true;
      ::_exit(0);
    }
    proxy.join();
  }

 private:
  void lead_all(MovedStream& stream) {
    for (const auto& call : calls_) {
      const auto done = stream.lead(described(*call));
      world_.require(done.has_value(), done ? "" : done.error().message);
      // As gpu/proxied.cpp: a thread that learns of the end publishes behind what this one has.
      const std::lock_guard<std::mutex> guard(mutex_);
    }
  }

  std::mutex mutex_;
  std::vector<std::unique_ptr<Enqueued>> calls_;
};

/// The others get all that they need from a rank that has ended.
TEST(MovedAtOnce, ProgramMayEndWithItsStream) {
  for (const std::uint32_t ranks : {2u, 3u}) {
    SimulatedPool pool;
    const std::uint64_t area = place_communicator(pool, ranks);
    const Scenario scenario =
        calls<Ending>(pool, area, {.ranks = ranks, .calls = 2, .only_launches = true});
    expect_held("moved by one launch", "a program ends early", explore(scenario, 100));
    expect_held("moved by one launch", "a program ends early",
                explore(with_lasting_copies(scenario), 60));
  }
}

}  // namespace
}  // namespace penstock::sim::moved_at_once_test

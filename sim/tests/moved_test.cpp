// Collectives whose data a GPU moves, on memory without coherence: it stores to slots and reads
// them through its host's caches, and the thread that keeps the protocol writes back and
// invalidates. Ranks that share a node, calls by hosts in between, ranks that die.
#include <gtest/gtest.h>

#include <memory>
#include <random>
#include <vector>

#include "coll/test_mover.hpp"
#include "schedule/uniform.hpp"
#include "sim/tests/communicator_meeting.hpp"
#include "sim/tests/expect_held.hpp"
#include "sim/tests/lasting_copies.hpp"
#include "sim/tests/stops.hpp"

namespace penstock::sim::moved_test {
namespace {

using coll::Collective;
using coll::Communicator;

struct Plan : Meeting {
  using Meeting::Meeting;
  std::vector<coll::TestCall> calls;
  std::vector<coll::Plan> plans;
  std::vector<bool> by_hosts;
  std::uint32_t next_owner = 0;  ///< the rank that has the memory when all have left
  bool stops_rank_2 = false;     ///< while it leaves, until the next owner has checked its memory
  bool sleeps = false;           ///< while chunks move, in every call
};

class Rank : PlanRank<Plan> {
 public:
  using PlanRank::PlanRank;

  void call_all() {
    if (!await_all_ranks()) return;
    Meeting::Wishes wishes;
    if (plan_.sleeps) wishes.long_call_bytes = 0;
    const auto comm = plan_.open(world_, *pool_, self_, wishes);
    comm->drop_copies_of_own_slots();  // as ranks with GPUs do
    for (std::size_t i = 0; i < plan_.calls.size(); ++i)
      if (!call(*comm, i)) return;
    const bool is_next_owner = self_ == plan_.next_owner;
    const bool is_stopped = plan_.stops_rank_2 && self_ == 2;
    if (is_stopped) comm->give_up({ErrorCode::unavailable, "it was aborted"}, true);
    comm->write_back_own_slots();
    constexpr std::uint64_t operations = 45;  // of leave()
    if (is_stopped) stop_within(world_, operations);
    comm->leave();
    never_stop(world_.self());
    if (!is_next_owner) return;
    if (plan_.stops_rank_2) return check_memory_and_go_on(*comm);
    const auto all = comm->await_all_left("the end");
    if (!all) died(all.error());
    if (all) expect_memory_stays();
  }

 private:
  void expect_memory_stays() {
    const auto ranks = static_cast<std::uint32_t>(plan_.tokens.size());
    expect_it_stays(world_, *pool_, plan_.area, ranks, plan_.shape);
  }
  void check_memory_and_go_on(Communicator& comm) {
    bool all_left = false;
    for (int looks = 0; looks < 2000 && !all_left; ++looks) {
      all_left = comm.all_left();
      world_.yield();
    }
    if (all_left) expect_memory_stays();
    for (const auto& process : world_.processes()) go_on(*process);
  }
  bool call(Communicator& comm, std::size_t number) {
    const coll::TestCall& w = plan_.calls[number];
    const std::vector<coll::Made> made = coll::make_all(w);
    const coll::Made& own = made[self_];
    std::vector<std::byte> in = own.input, out = own.output;
    std::byte* const result = own.problem.in_place ? in.data() : out.data();
    const coll::WordArithmetic arithmetic;
    const coll::Call call{.name = name_of(w.collective),
                          .problem = &own.problem,
                          .plan = plan_.plans[number],
                          .input = in.data(),
                          .output = result,
                          .arithmetic = &arithmetic};
    const auto done = plan_.by_hosts[number]
                          ? comm.run(call)
                          : run_moved(comm, call, in.data(), result, world_.random());
    if (!done) return died(done.error());
    const auto wrong = check_result(w, made, self_, own.problem.in_place ? in : out);
    world_.require(wrong.empty(),
                   fmt::format("call {}, {}: {}", number, name_of(w.collective), wrong));
    return true;
  }
  bool died(const Error& error) {
    world_.require(error.code == ErrorCode::peer_dead && somebody_died(), error.message);
    return false;
  }
};

Scenario calls(const SimulatedPool& pool, std::uint64_t area, std::uint32_t ranks,
               std::uint32_t number, std::uint32_t victim = ~0u, std::uint32_t nodes = 3,
               bool stops_rank_2 = false) {
  Scenario scenario = pool.scenario(
      fmt::format("data moved by GPUs, {} ranks{}", ranks, victim < ranks ? ", one dies" : ""),
      nodes);
  scenario.max_steps = 6'000'000;
  scenario.body = [&pool, area, ranks, number, victim, nodes, stops_rank_2](World& world) {
    auto plan = std::make_shared<Plan>(area, ranks);
    plan->stops_rank_2 = stops_rank_2;
    for (std::uint32_t rank = 0; rank < ranks; ++rank) plan->node_of.push_back(rank % nodes);
    plan->next_owner = ranks > nodes ? 1 : 0;  // on another node than those that share one
    std::mt19937_64 random(world.random());
    const auto devices = static_cast<std::uint32_t>(1 + random() % 3);
    if (devices > 1) plan->shape = on_devices(devices);
    for (std::uint32_t i = 0; i < number; ++i) {
      plan->calls.push_back(coll::draw_call(coll::any_collective(random), ranks, random));
      plan->calls.back().salt = static_cast<std::uint32_t>(random());
      plan->plans.push_back(coll::draw_plan(plan->calls.back().collective, ranks, random));
      plan->plans.back().slot_bytes = small_shape.slot_bytes;
      plan->by_hosts.push_back(random() % 4 == 0);
    }
    plan->sleeps = random() % 2 == 0;
    spawn_ranks<Rank>(world, pool, plan, nodes, victim);
  };
  return scenario;
}

TEST(MovedByGpus, GiveWhatIsPromised) {
  for (const std::uint32_t ranks : {2u, 4u}) {
    SimulatedPool pool;
    const std::uint64_t area = place_communicator(pool, ranks);
    const Scenario scenario = calls(pool, area, ranks, 8);
    expect_held("moved by GPUs", "random schedules", explore(scenario, 60));
    expect_held("moved by GPUs", "random schedules", explore(with_lasting_copies(scenario), 40));
  }
}

/// Two ranks share a node, whose caches hold the data that they pass to each other.
TEST(MovedByGpus, LeaveNoStoresToTheNextOwner) {
  SimulatedPool pool;
  const std::uint64_t area = place_communicator(pool, 3);
  const Scenario scenario = calls(pool, area, 3, 8, ~0u, 2);
  expect_held("moved by GPUs", "random schedules", explore(scenario, 60));
  expect_held("moved by GPUs", "random schedules", explore(with_lasting_copies(scenario), 40));
  expect_held("moved by GPUs", "a kill after each operation",
              crash_everywhere(calls(pool, area, 3, 5, 0, 2), 60));
}

/// A rank that gave up is stopped just after it has announced that it leaves: its earlier
/// write-backs have arrived.
TEST(MovedByGpus, LeaveNoStoresWhenStopped) {
  SimulatedPool pool;
  const std::uint64_t area = place_communicator(pool, 3);
  Scenario scenario = calls(pool, area, 3, 4, ~0u, 2, true);
  scenario.swarm = false;
  scenario.faults.deliver = 10;  // the last stores take long to arrive
  scenario.faults.max_delay = 20'000;
  expect_held("moved by GPUs", "late stores", explore(scenario, 300));
}

TEST(MovedByGpus, SurviveADeathAtEachOperation) {
  SimulatedPool pool;
  const std::uint64_t area = place_communicator(pool, 3);
  for (const std::uint32_t victim : {0u, 2u})
    expect_held("moved by GPUs", "a kill after each operation",
                crash_everywhere(calls(pool, area, 3, 5, victim), 120));
}

/// Two ranks on two nodes.
template <class Rank, class Plan = Meeting>
Scenario of_two(SimulatedPool& pool, const char* name) {
  const std::uint64_t area = place_communicator(pool, 2);
  Scenario scenario = pool.scenario(name, 2);
  scenario.body = [&pool, area](World& world) {
    auto plan = std::make_shared<Plan>(area, 2);
    plan->node_of = {0, 1};
    spawn_ranks<Rank>(world, pool, plan, 2, ~0u);
  };
  return scenario;
}

// ---- a rank that gives up -----------------------------------------------------------------------

struct Turns : Meeting {
  using Meeting::Meeting;
  bool is_sent = false;
};

/// The root of a broadcast gives up after it, and its streams run on over the data that it has
/// sent. Meanwhile the other rank, which has no GPU, is stopped at any operation of its call.
class OfTwo {
 public:
  OfTwo(World& world, const SimulatedPool& simulated, Turns& meeting, std::uint32_t self)
      : world_(world), meeting_(meeting), self_(self) {
    pool_ = meeting.attach(world, simulated, self);
    if (self == 0) problem_.input = {{0, bytes}};
    if (self == 1) problem_.output = {{0, bytes}};
  }
  void call_all() {
    wait_until(world_, "the ranks", [&] { return meeting_.all_came(); });
    const auto comm = meeting_.open(world_, *pool_, self_, Meeting::Wishes{.mixed = true});
    std::vector<std::byte> data(bytes, self_ == 0 ? sent : std::byte{0});
    const coll::Call call{.name = "broadcast",
                          .problem = &problem_,
                          .plan = comm->plan(problem_),
                          .input = data.data(),
                          .output = data.data()};
    self_ == 0 ? send_and_give_up(*comm, call) : get(*comm, call, data);
    comm->leave();
    if (self_ == 0) world_.require(comm->await_all_left("the end").has_value(), "no end");
  }

 private:
  static constexpr std::uint64_t bytes = 3 * small_shape.slot_bytes;
  static constexpr std::byte sent{0x33};

  void send_and_give_up(Communicator& comm, const coll::Call& call) {
    const auto done = comm.run(call);
    world_.require(done.has_value(), done ? "" : done.error().message);
    pool_->memory().full_fence();
    meeting_.is_sent = true;
    Process& other = *world_.processes()[1];
    for (int looks = 0; looks < 200 && !other.stopped; ++looks) world_.yield();
    comm.give_up({ErrorCode::unavailable, "it was aborted"}, false);
    const auto prepared = *comm.prepare(call);
    const std::vector<std::byte> over(small_shape.slot_bytes, std::byte{0x44});
    for (std::uint64_t chunk = 0; chunk < 3; ++chunk)
      pool_->memory().publish_bulk(comm.chunk_of(*prepared, comm.begun(), 0, chunk), over.data(),
                                   over.size());
    pool_->memory().full_fence();
    go_on(other);
  }
  void get(Communicator& comm, const coll::Call& call, const std::vector<std::byte>& data) {
    constexpr std::uint64_t operations = 50;
    wait_until(world_, "the root", [&] { return meeting_.is_sent; });
    stop_within(world_, operations);
    const auto done = comm.run(call);
    if (!done) return world_.require(done.error().code == ErrorCode::unavailable, "another error");
    world_.require(data == std::vector<std::byte>(bytes, sent), "wrong bytes without an error");
  }

  World& world_;
  Turns& meeting_;
  const std::uint32_t self_;
  coll::Problem problem_{
      .collective = Collective::broadcast, .ranks = 2, .rank = self_, .max_block_bytes = bytes};
  std::unique_ptr<pool::Pool> pool_;
};

TEST(MovedByGpus, DiscardsDataReadFromFailedRank) {
  SimulatedPool pool;
  const Scenario scenario = of_two<OfTwo, Turns>(pool, "a rank with a GPU gives up");
  expect_held("moved by GPUs", "random schedules", explore(scenario, 100));
  expect_held("moved by GPUs", "random schedules", explore(with_lasting_copies(scenario), 200));
}

/// One rank asks again and again whether the other has failed, as a program does that has made no
/// call: nothing else drops its copy of the other's words.
class Asking {
 public:
  Asking(World& world, const SimulatedPool& simulated, Meeting& meeting, std::uint32_t self)
      : world_(world), meeting_(meeting), self_(self) {
    pool_ = meeting.attach(world, simulated, self);
  }
  void call_all() {
    wait_until(world_, "the ranks", [&] { return meeting_.all_came(); });
    const auto comm = meeting_.open(world_, *pool_, self_);
    if (self_ == 0) {
      world_.sleep(100'000);
      comm->give_up({ErrorCode::unavailable, "it was aborted"}, false);
    }
    for (int looks = 0; self_ == 1; ++looks) {
      world_.require(looks < 1000, "the failure is never found");
      world_.sleep(1'000);
      const auto others = comm->check_others("calls of a GPU");
      if (others) continue;
      world_.require(others.error().code == ErrorCode::unavailable, others.error().message);
      break;
    }
    comm->leave();
    if (self_ == 0) world_.require(comm->await_all_left("the end").has_value(), "no end");
  }

 private:
  World& world_;
  Meeting& meeting_;
  const std::uint32_t self_;
  std::unique_ptr<pool::Pool> pool_;
};

TEST(MovedByGpus, FindFailureWithoutACall) {
  SimulatedPool pool;
  const Scenario scenario = of_two<Asking>(pool, "a rank asks for failures");
  expect_held("moved by GPUs", "random schedules", explore(with_lasting_copies(scenario), 20));
}

// ---- calls that are compared --------------------------------------------------------------------

/// Each rank states sizes of its own. A GPU moves the data of rank 0.
class Compared {
 public:
  Compared(World& world, const SimulatedPool& simulated, Meeting& meeting, std::uint32_t self)
      : world_(world), meeting_(meeting), self_(self) {
    pool_ = meeting.attach(world, simulated, self);
  }
  void call_all() {
    wait_until(world_, "the ranks", [&] { return meeting_.all_came(); });
    const auto comm =
        meeting_.open(world_, *pool_, self_, Meeting::Wishes{.check = true, .mixed = true});
    const coll::Problem problem = coll::uniform_problem(Collective::alltoall, 2, self_, 0, bytes);
    std::vector<std::byte> in(2 * bytes, self_ == 0 ? of_gpu : of_host), out(2 * bytes);
    const coll::Call call{.name = "alltoall",
                          .problem = &problem,
                          .plan = comm->plan(problem),
                          .input = in.data(),
                          .output = out.data()};
    const auto done = self_ == 0 ? run_moved(*comm, call, in.data(), out.data(), world_.random())
                                 : comm->run(call);
    world_.require(done.has_value(), done ? "" : done.error().message);
    std::vector<std::byte> all(bytes, of_gpu);
    all.resize(2 * bytes, of_host);
    world_.require(out == all, "wrong bytes");
    comm->leave();
    if (self_ == 0) world_.require(comm->await_all_left("the end").has_value(), "no end");
  }

 private:
  static constexpr std::uint64_t bytes = 3 * small_shape.slot_bytes;
  static constexpr std::byte of_gpu{0x33}, of_host{0x44};

  World& world_;
  Meeting& meeting_;
  const std::uint32_t self_;
  std::unique_ptr<pool::Pool> pool_;
};

TEST(MovedByGpus, AreComparedWithCallsOfHosts) {
  SimulatedPool pool;
  const Scenario scenario = of_two<Compared>(pool, "calls of a GPU and of a host are compared");
  expect_held("moved by GPUs", "random schedules", explore(scenario, 20));
}

}  // namespace
}  // namespace penstock::sim::moved_test

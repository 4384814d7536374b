// Long calls whose data a GPU moves, in virtual time: how often the thread that keeps the protocol
// looks, and how long the calls take.
#include <gtest/gtest.h>
#include <sys/mman.h>

#include <memory>
#include <vector>

#include "coll/test_mover.hpp"
#include "schedule/uniform.hpp"
#include "sim/tests/communicator_meeting.hpp"
#include "sim/tests/expect_held.hpp"

namespace penstock::sim::moved_pace_test {
namespace {

using coll::Collective;
using coll::Lane;

constexpr std::uint64_t chunks = 24, bytes = chunks * small_shape.slot_bytes;

/// Each lane moves a chunk in 1.2 ms: sleeps of the simulated world are up to 60 us too long.
class TimedMover : public coll::TestMover {
 public:
  TimedMover(World& world, const coll::Communicator& comm, const coll::Prepared& prepared,
             const coll::Arithmetic* arithmetic, std::byte* in, std::byte* out)
      : TestMover(comm, prepared, arithmetic, in, out, 1), world_(world), prepared_(prepared) {}

  void allow(Lane lane, std::size_t segment) override {
    TestMover::allow(lane, segment);
    allowed_ns_[index(lane)] = world_.now_ns();
  }
  bool is_done(Lane lane, std::size_t segment) override {
    constexpr std::uint64_t look_ns = 300;
    ++looks_;
    world_.sleep_until(world_.now_ns() + look_ns);
    while (advance(Lane::write) || advance(Lane::read)) continue;
    return is_marked(lane, segment);
  }
  std::uint64_t looks() const { return looks_; }

 private:
  bool is_time(Lane lane, const coll::Event& event) override {
    constexpr std::uint64_t chunk_ns = 1'200'000, ns_a_byte = chunk_ns / small_shape.slot_bytes;
    std::uint64_t& free_ns = free_ns_[index(lane)];
    free_ns = std::max(free_ns, allowed_ns_[index(lane)]);
    if (event.kind != coll::Event::Kind::move) return true;
    const coll::Step& step = prepared_.schedule.steps[event.number];
    const std::uint64_t moved = step.kind == coll::StepKind::move ? 0 : step.span.bytes * ns_a_byte;
    if (world_.now_ns() < free_ns + moved) return false;
    free_ns += moved;
    return true;
  }

  World& world_;
  const coll::Prepared& prepared_;
  std::array<std::uint64_t, coll::lane_count> allowed_ns_{}, free_ns_{};
  std::uint64_t looks_ = 0;
};

struct Spent {
  std::uint64_t looks = 0, ns = 0;
};

struct Course : Meeting {
  using Meeting::Meeting;
  Collective collective = Collective::allgather;
  bool sleeps = false;
  Spent* spent = nullptr;
};

class Rank : PlanRank<Course> {
 public:
  using PlanRank::PlanRank;

  void call_all() {
    if (!await_all_ranks()) return;
    Meeting::Wishes wishes;
    wishes.long_call_bytes = plan_.sleeps ? bytes : ~0ull;
    const auto comm = plan_.open(world_, *pool_, self_, wishes);
    comm->drop_copies_of_own_slots();
    (void)call(*comm);  // teaches it how long a chunk takes
    const std::uint64_t begin_ns = world_.now_ns();
    plan_.spent->looks += call(*comm);
    plan_.spent->ns += world_.now_ns() - begin_ns;
    comm->write_back_own_slots();
    comm->leave();
    if (self_ == 0) world_.require(comm->await_all_left("the end").has_value(), "no end");
  }

 private:
  /// Returns its looks.
  std::uint64_t call(coll::Communicator& comm) {
    const auto ranks = static_cast<std::uint32_t>(plan_.tokens.size());
    const coll::Problem problem = coll::uniform_problem(plan_.collective, ranks, self_, 0, bytes);
    const auto length = [](const std::vector<coll::Block>& blocks) {
      return blocks.empty() ? 0 : blocks.back().offset + blocks.back().bytes;
    };
    std::vector<std::byte> in(length(problem.input), std::byte{1}), out(length(problem.output));
    const coll::WordArithmetic arithmetic;
    coll::Call call{.name = name_of(plan_.collective),
                    .problem = &problem,
                    .plan = {.slot_bytes = small_shape.slot_bytes},
                    .input = in.data(),
                    .output = out.data(),
                    .arithmetic = &arithmetic};
    const auto prepared = comm.prepare_moved(call);
    world_.require(prepared.has_value(), prepared ? "" : prepared.error().message);
    TimedMover mover(world_, comm, **prepared, &arithmetic, in.data(), out.data());
    call.mover = &mover;
    const auto done = comm.run(call, **prepared);
    world_.require(done.has_value(), done ? "" : done.error().message);
    return mover.looks();
  }
};

/// Each run is a process of its own.
class SharedSpent {
 public:
  SharedSpent()
      : at_(static_cast<Spent*>(mmap(nullptr, sizeof(Spent), PROT_READ | PROT_WRITE,
                                     MAP_SHARED | MAP_ANONYMOUS, -1, 0))) {}
  ~SharedSpent() { munmap(at_, sizeof(Spent)); }
  SharedSpent(const SharedSpent&) = delete;
  SharedSpent& operator=(const SharedSpent&) = delete;
  Spent* at() const { return at_; }

 private:
  Spent* at_;
};

Spent spent_on(Collective collective, std::uint32_t ranks, bool sleeps) {
  SimulatedPool pool;
  const std::uint64_t area = place_communicator(pool, ranks, small_shape);
  const SharedSpent spent;
  Scenario scenario = pool.scenario("chunks that take time", ranks);
  scenario.max_steps = 100'000'000;
  scenario.swarm = false;
  scenario.faults.op_ns = 10;
  scenario.faults.device_ns = 400;
  scenario.faults.line_ns = 20;
  scenario.faults.yield_ns = 500;
  scenario.body = [&](World& world) {
    auto course = std::make_shared<Course>(area, ranks);
    course->collective = collective;
    course->sleeps = sleeps;
    course->spent = spent.at();
    spawn_ranks<Rank>(world, pool, course, ranks, ~0u);
  };
  expect_held("moved by GPUs", "virtual time", explore(scenario, 1));
  return *spent.at();
}

TEST(MovedByGpus, AreLookedAtSeldomInLongCalls) {
  for (const std::uint32_t ranks : {2u, 3u})
    for (const Collective collective :
         {Collective::allgather, Collective::broadcast, Collective::allreduce}) {
      SCOPED_TRACE(fmt::format("{} of {} ranks", name_of(collective), ranks));
      const Spent polling = spent_on(collective, ranks, false);
      const Spent sleeping = spent_on(collective, ranks, true);
      ASSERT_GT(sleeping.looks, ranks * chunks);
      EXPECT_LE(sleeping.looks * 5, polling.looks);
      EXPECT_LE(sleeping.ns * 20, polling.ns * 21);
    }
}

}  // namespace
}  // namespace penstock::sim::moved_pace_test

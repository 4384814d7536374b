// Collectives whose data stay in the user's memory in the pool, on memory without coherence: the
// others read a rank's plain stores, and the rank may store there again when its call is over.
#include <gtest/gtest.h>

#include <cstring>
#include <memory>
#include <random>
#include <vector>

#include "schedule/test_calls.hpp"
#include "sim/tests/communicator_meeting.hpp"
#include "sim/tests/expect_held.hpp"
#include "sim/tests/lasting_copies.hpp"

namespace penstock::sim::zero_copy_test {
namespace {

using coll::Collective;
using coll::Communicator;

constexpr std::uint32_t nodes = 3;
constexpr std::uint64_t buffer_bytes = 16 << 10;
constexpr std::uint64_t shortest = 1;

struct Plan : Meeting {
  using Meeting::Meeting;
  std::uint64_t memory = 0;  ///< of the users: an input and an output for each rank
  std::vector<coll::TestCall> calls;
  std::vector<coll::Plan> plans;
};

/// Memory in the pool: of the ranks' programs, or of another communicator.
std::uint64_t place(SimulatedPool& pool, const char* name, std::uint64_t bytes) {
  std::uint64_t memory = 0;
  pool.once([&](World& world) {
    const auto attached = pool.attach(world);
    const auto arena = SimulatedPool::open_arena(world, *attached);
    auto object = arena->create(name, bytes);
    world.require(object.has_value(), object ? "" : object.error().message);
    memory = object->offset;
  });
  return memory;
}

std::uint64_t place_memory(SimulatedPool& pool, std::uint32_t ranks) {
  return place(pool, "memory of users", 2 * ranks * buffer_bytes);
}

class Rank : PlanRank<Plan> {
 public:
  Rank(World& world, const SimulatedPool& simulated, Plan& plan, std::uint32_t self)
      : PlanRank(world, simulated, plan, self) {
    input_ = pool_->base() + plan.memory + 2 * self * buffer_bytes;
    output_ = input_ + buffer_bytes;
  }

  void call_all() {
    if (!await_all_ranks()) return;
    const auto comm = plan_.open(world_, *pool_, self_, {.zero_copy_bytes = shortest});
    for (std::size_t i = 0; i < plan_.calls.size(); ++i) {
      if (world_.random() % 3 == 0) world_.sleep(world_.random() % 200'000);
      if (!call(*comm, i)) return;
    }
    comm->leave();
    if (self_ != 0) return;
    const auto all = comm->await_all_left("the end");
    if (!all) died(all.error());
  }

 private:
  bool call(Communicator& comm, std::size_t number) {
    const coll::TestCall& w = plan_.calls[number];
    const std::vector<coll::Made> made = coll::make_all(w);
    const coll::Made& own = made[self_];
    std::vector<std::byte> out = own.problem.in_place ? own.input : own.output;
    std::memcpy(input_, own.input.data(), own.input.size());
    std::memcpy(output_, out.data(), own.problem.in_place ? 0 : out.size());
    std::byte* const result = own.problem.in_place ? input_ : output_;
    const coll::WordArithmetic arithmetic;
    const auto done = comm.run({.name = name_of(w.collective),
                                .problem = &own.problem,
                                .plan = plan_.plans[number],
                                .input = input_,
                                .output = result,
                                .arithmetic = &arithmetic});
    std::memcpy(out.data(), result, out.size());
    // The memory belongs to the program again.
    std::memset(input_, 0xee, own.input.size());
    std::memset(output_, 0xee, own.output.size());
    if (!done) return died(done.error());
    const auto wrong = check_result(w, made, self_, out);
    world_.require(wrong.empty(),
                   fmt::format("call {}, {}: {}", number, name_of(w.collective), wrong));
    return true;
  }
  bool died(const Error& error) {
    world_.require(error.code == ErrorCode::peer_dead && somebody_died(), error.message);
    return false;
  }

  std::byte *input_, *output_;
};

coll::TestCall draw(std::uint32_t ranks, std::mt19937_64& random) {
  constexpr Collective kinds[] = {
      Collective::broadcast,      Collective::gather,    Collective::allgather, Collective::reduce,
      Collective::reduce_scatter, Collective::allreduce, Collective::alltoall};
  constexpr std::uint64_t sizes[] = {0, 64, 68, 128, 320, 1024, 1028};
  const Collective collective = kinds[random() % std::size(kinds)];
  coll::TestCall w = coll::draw_call(collective, ranks, random);
  const std::uint64_t size = sizes[random() % std::size(sizes)];
  for (auto& row : w.bytes) row.assign(ranks, size);
  w.known = random() % 2 == 0;
  w.salt = static_cast<std::uint32_t>(random());
  return w;
}

Scenario calls(const SimulatedPool& pool, std::uint64_t area, std::uint64_t memory,
               std::uint32_t ranks, std::uint32_t number, std::uint32_t victim = ~0u) {
  Scenario scenario = pool.scenario(fmt::format("zero copy, {} ranks", ranks), nodes);
  scenario.max_steps = 6'000'000;
  scenario.body = [&pool, area, memory, ranks, number, victim](World& world) {
    auto plan = std::make_shared<Plan>(area, ranks);
    plan->memory = memory;
    for (std::uint32_t rank = 0; rank < ranks; ++rank) plan->node_of.push_back(rank % nodes);
    std::mt19937_64 random(world.random());
    for (std::uint32_t i = 0; i < number; ++i) {
      plan->calls.push_back(draw(ranks, random));
      plan->plans.push_back(coll::draw_plan(plan->calls.back().collective, ranks, random));
      plan->plans.back().slot_bytes = small_shape.slot_bytes;
    }
    spawn_ranks<Rank>(world, pool, plan, nodes, victim);
  };
  return scenario;
}

TEST(ZeroCopy, GivesWhatIsPromised) {
  for (const std::uint32_t ranks : {2u, 4u}) {
    SimulatedPool pool;
    const std::uint64_t area = place_communicator(pool, ranks);
    const Scenario scenario = calls(pool, area, place_memory(pool, ranks), ranks, 8);
    expect_held("zero copy", "random schedules", explore(scenario, 60));
    expect_held("zero copy", "random schedules", explore(with_lasting_copies(scenario), 40));
  }
}

TEST(ZeroCopy, ADeathIsNamedOnAllOthers) {
  SimulatedPool pool;
  const std::uint64_t area = place_communicator(pool, 3);
  const std::uint64_t memory = place_memory(pool, 3);
  for (const std::uint32_t victim : {0u, 2u})
    expect_held("zero copy", "crash points",
                crash_everywhere(calls(pool, area, memory, 3, 5, victim), 120));
}

/// A root that has looked in vain, and holds copies of what it read, finds at its next look that
/// its reader has read.
TEST(ZeroCopy, ALookFindsThatAllHaveRead) {
  SimulatedPool pool;
  const std::uint64_t area = place_communicator(pool, 2);
  const std::uint64_t memory = place_memory(pool, 2);
  Scenario scenario = pool.scenario("looks at zero copy", 2);
  scenario.body = [&pool, area, memory](World& world) {
    auto plan = std::make_shared<Plan>(area, 2);
    auto waits = std::make_shared<bool>(false), has_read = std::make_shared<bool>(false);
    for (std::uint32_t self = 0; self < 2; ++self) {
      world.spawn(self, [&world, &pool, plan, memory, waits, has_read, self] {
        const auto attached = plan->attach(world, pool, self);
        wait_until(world, "the ranks", [&] { return plan->all_came(); });
        const auto comm = plan->open(world, *attached, self, {.zero_copy_bytes = shortest});
        constexpr std::uint64_t bytes = small_shape.slot_bytes;
        coll::Problem problem{.collective = Collective::broadcast, .ranks = 2, .rank = self};
        (self == 0 ? problem.input : problem.output) = {{0, bytes}};
        std::vector<std::byte> output(bytes);
        const coll::Call call{.problem = &problem,
                              .plan = {.slot_bytes = bytes},
                              .input = attached->base() + memory,
                              .output = output.data()};
        if (self == 0) world.require(comm->begin(call).has_value(), "does not begin");
        for (int look = 0; self == 0 && look < 3; ++look)
          world.require(!*comm->advance(), "the call ended before its data was read");
        if (self == 0) *waits = true;
        wait_until(world, "the root", [&] { return *waits; });
        if (self == 1) {
          world.require(comm->run(call).has_value(), "is not read");
          attached->memory().full_fence();
          *has_read = true;
        }
        wait_until(world, "the reader", [&] { return *has_read; });
        if (self == 0)
          world.require(*comm->advance(), "the root does not notice that its data was read");
        if (self == 0) *waits = false;
        wait_until(world, "the root", [&] { return !*waits; });
      });
    }
  };
  expect_held("zero copy", "random schedules", explore(with_lasting_copies(scenario), 50));
}

/// A root that no longer waits for its readers changes the memory that they read: none of them may
/// take the changed bytes for the data.
TEST(ZeroCopy, DiscardsDataChangedByFailedProducer) {
  // Reading a chunk takes longer than giving up.
  constexpr coll::Shape long_slots{
      .slots = 4, .slot_bytes = buffer_bytes, .eager_blocks = 4, .eager_bytes = 3 * 56};
  constexpr std::uint64_t bytes = buffer_bytes;
  SimulatedPool pool;
  pool.format_arena();
  const std::uint64_t area = place(pool, "communicator", coll::Communicator::bytes(2, long_slots));
  const std::uint64_t memory = place_memory(pool, 2);
  Scenario scenario = pool.scenario("zero copy, a producer gives up", 2);
  scenario.body = [&pool, area, memory, long_slots](World& world) {
    auto plan = std::make_shared<Plan>(area, 2);
    plan->shape = long_slots;
    auto left = std::make_shared<std::uint32_t>(0);
    for (std::uint32_t self = 0; self < 2; ++self) {
      world.spawn(self, [&world, &pool, plan, memory, left, self] {
        const auto attached = plan->attach(world, pool, self);
        wait_until(world, "the ranks", [&] { return plan->all_came(); });
        const auto comm = plan->open(world, *attached, self, {.zero_copy_bytes = shortest});
        coll::Problem problem{.collective = Collective::broadcast, .ranks = 2, .rank = self};
        (self == 0 ? problem.input : problem.output) = {{0, bytes}};
        std::byte* const input = attached->base() + memory;
        std::vector<std::byte> output(bytes);
        if (self == 0) std::memset(input, 0x55, bytes);
        const std::uint64_t patience_ns = 1 + world.random() % (500 * world.faults().op_ns);
        const auto done = comm->run({.problem = &problem,
                                     .plan = {.slot_bytes = bytes},
                                     .input = input,
                                     .output = output.data(),
                                     .timeout_ns = self == 0 ? patience_ns : 0});
        if (self == 0) {
          std::memset(input, 0xee, bytes);
          attached->memory().write_back(input, bytes);
        }
        const bool right = output == std::vector<std::byte>(bytes, std::byte{0x55});
        if (self == 1) world.require(!done || right, "a reader took changed bytes for the data");
        ++*left;
        wait_until(world, "the other", [&] { return *left == 2; });
      });
    }
  };
  expect_held("zero copy", "random schedules", explore(scenario, 400));
  expect_held("zero copy", "random schedules", explore(with_lasting_copies(scenario), 100));
}

}  // namespace
}  // namespace penstock::sim::zero_copy_test

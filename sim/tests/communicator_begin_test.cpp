// Ranks open communicators, each of which clears its own releases: by one thread while another
// thread calls; and with a rank that dies meanwhile, alone or with its node. Old contents must
// mislead no rank, then or later.
#include <gtest/gtest.h>

#include <mutex>
#include <thread>

#include "coll/agreement.hpp"
#include "sim/tests/communicator_meeting.hpp"
#include "sim/tests/expect_held.hpp"
#include "sim/tests/late_stores.hpp"
#include "sim/tests/small_pool.hpp"

namespace penstock::sim::communicator_begin_test {
namespace {

using coll::Collective;
using coll::Communicator;

constexpr std::uint64_t slot_bytes = 256;
/// More chunks than there are slots, so that ranks wait for releases.
constexpr std::uint64_t long_bytes = 7 * slot_bytes;

coll::Plan by_slots() {
  return {.slot_bytes = slot_bytes};
}

// ---- opening by one thread, calls by another ----------------------------------------------------

/// Rank 1 is late: if rank 0 stored into a slot again before it was released, rank 1 would take
/// that for the first data.
void broadcast_late(World& world, Communicator& comm) {
  std::vector<std::byte> data(long_bytes), sent(long_bytes);
  for (std::uint64_t i = 0; i < long_bytes; ++i) sent[i] = std::byte(i / slot_bytes + 1);
  if (comm.self() == 0) data = sent;
  if (comm.self() == 1) world.sleep(50'000'000);
  coll::Problem problem{.collective = Collective::broadcast, .ranks = 2, .rank = comm.self()};
  (comm.self() == 0 ? problem.input : problem.output) = {{0, long_bytes}};
  problem.max_block_bytes = long_bytes;
  const auto done = comm.run(
      {.problem = &problem, .plan = by_slots(), .input = data.data(), .output = data.data()});
  world.require(done.has_value(), done ? "" : done.error().message);
  world.require(data == sent, "a slot was stored to before it was released");
}

TEST(CommunicatorsBegin, ClearedWordsAreVisibleToOtherThreads) {
  SimulatedPool pool;
  const std::uint64_t area = place_communicator(pool, 2, small_shape);
  Scenario scenario = with_late_stores(pool.scenario("opened by one thread, used by another", 2));
  scenario.body = [&pool, area](World& world) {
    auto meeting = std::make_shared<Meeting>(area, 2);
    for (std::uint32_t self = 0; self < 2; ++self)
      world.spawn(self, [&world, &pool, meeting, self] {
        const auto attached = meeting->attach(world, pool, self);
        wait_until(world, "the other", [&] { return meeting->all_came(); });
        std::unique_ptr<Communicator> comm;
        std::mutex mutex;  // orders one thread's stores before the other's
        std::unique_lock opens(mutex);
        std::thread user([&] {
          const std::lock_guard uses(mutex);
          broadcast_late(world, *comm);
          attached->memory().full_fence();  // rank 1 finds all that this thread stored
        });
        comm = meeting->open(world, *attached, self);
        opens.unlock();
        user.join();
      });
  };
  expect_held("collectives", "late stores", explore(scenario, 5));
}

// ---- with deaths --------------------------------------------------------------------------------

/// The releases of a rank fill two lines.
constexpr std::uint32_t ranks = 9, victim = 1, turns = 3, deadly_turn = 1;

/// A communicator, and what its ranks exchange by other means than the pool.
struct Turn {
  std::vector<coll::Offer> offers = std::vector<coll::Offer>(ranks);
  std::vector<Process*> processes;
  std::uint32_t offered = 0, ended = 0;
  std::uint64_t area = 0;
  bool alone = false;            ///< no other space is free in the pool
  std::uint64_t dies_after = 0;  ///< publishes after which it dies while it opens; 0: it does not
  bool with_node = false;

  bool died() const { return processes.size() == ranks && processes[victim]->dead; }
  bool others_gone() const {
    return std::all_of(processes.begin() + 1, processes.end(),
                       [](const Process* process) { return gone(*process); });
  }
};

class Opener {
 public:
  Opener(World& world, const SimulatedPool& simulated, Turn& turn, std::uint32_t self)
      : world_(world),
        simulated_(simulated),
        turn_(turn),
        self_(self),
        user_(world, simulated, "job", static_cast<std::int32_t>(self)),
        agreement_(ranks, self) {}

  void take_part() {
    offer();
    wait_until(world_, "the offers", [&] { return turn_.offered == ranks && turn_.alone; });
    auto options = agreement_.options(*user_.pool, turn_.offers);
    if (self_ == victim && turn_.dies_after != 0) {
      world_.self().dies_after_publish = world_.self().publishes + turn_.dies_after;
      world_.self().dies_with_node = turn_.with_node;
    }
    auto comm = Communicator::open(*user_.pool, std::move(options));
    world_.require(comm.has_value(), comm ? "" : comm.error().message);
    for (int call = 0; call < 3; ++call) {
      world_.sleep(world_.random() % 2'000'000);
      if (!allgather(**comm, call)) break;
    }
    (*comm)->leave();
    if (self_ != 0) return;
    if (const auto left = (*comm)->await_all_left("the end"); !left) note(left.error());
    wait_until(world_, "the others", [&] { return turn_.others_gone(); });
    comm->reset();
    agreement_.give_back();
  }

 private:
  /// Waits until the last turn's space has left the quarantine.
  void offer() {
    const coll::Agreement::Wishes wishes{.slot_bytes = slot_bytes};
    const auto space = coll::space_in(*user_.arena, "communicator");
    auto made = agreement_.offer(space, wishes);
    for (int tries = 0; !made || agreement_.own().area == coll::Offer::none; ++tries) {
      if (self_ != 0) break;
      world_.require(tries < 40, "there is no room: " + (made ? "none" : made.error().message));
      world_.sleep(simulated_.lease_ns(world_) / 4);
      (void)user_.arena->collect();
      simulated_.visit_nodes(world_, nodes);
      made = agreement_.offer(space, wishes);
    }
    turn_.offers[self_] = agreement_.own();
    if (self_ == 0) turn_.area = agreement_.own().area;
    ++turn_.offered;
  }

  bool allgather(Communicator& comm, int call) {
    const auto value = [&](std::uint64_t rank, std::uint64_t at) {
      return std::byte(40 * call + rank + 16 * (at / slot_bytes) + 1);
    };
    std::vector<std::byte> own(long_bytes), all(long_bytes * ranks), wanted(all.size());
    for (std::uint64_t i = 0; i < wanted.size(); ++i)
      wanted[i] = value(i / long_bytes, i % long_bytes);
    std::copy_n(wanted.begin() + static_cast<std::ptrdiff_t>(long_bytes * self_), long_bytes,
                own.begin());
    coll::Problem problem{.collective = Collective::allgather,
                          .ranks = ranks,
                          .rank = self_,
                          .input = {{0, long_bytes}},
                          .max_block_bytes = long_bytes};
    for (std::uint64_t rank = 0; rank < ranks; ++rank)
      problem.output.push_back({rank * long_bytes, long_bytes});
    const auto done = comm.run(
        {.problem = &problem, .plan = by_slots(), .input = own.data(), .output = all.data()});
    if (!done) return note(done.error());
    world_.require(all == wanted, "wrong bytes");
    return true;
  }
  /// The error names the dead rank, or another one of its node.
  bool note(const Error& error) {
    world_.require(error.code == ErrorCode::peer_dead && turn_.died(), error.message);
    bool named = error.message.ends_with(" left");
    for (std::uint32_t rank = victim; rank < ranks; rank += nodes)
      named = named || error.message.find(fmt::format("rank {} (pid", rank)) != std::string::npos;
    world_.require(named, error.message);
    return false;
  }

  World& world_;
  const SimulatedPool& simulated_;
  Turn& turn_;
  std::uint32_t self_;
  SpaceUser user_;
  coll::Agreement agreement_;
};

/// Takes all other space, so that each communicator lies where the first lay.
void take_the_rest(World& world, SpaceUser& holder) {
  int made = 0;
  for (std::uint64_t bytes = 1 << 20; bytes >= 256;)
    if (!holder.create(fmt::format("rest.{}", made++), bytes)) bytes /= 2;
  world.require(made > 0, "nothing was free");
}

void one_after_the_other(World& world, const SimulatedPool& pool) {
  SpaceUser holder(world, pool);
  std::uint64_t area = 0;
  for (std::uint32_t number = 0; number < turns; ++number) {
    auto turn = std::make_shared<Turn>();
    turn->alone = number != 0;
    if (number == deadly_turn) {
      turn->dies_after = 1 + world.random() % 3;  // a line of its releases, or the next one
      turn->with_node = world.random() % 2 == 0;
    }
    for (std::uint32_t self = 0; self < ranks; ++self)
      turn->processes.push_back(&world.spawn(self % nodes, [&world, &pool, turn, self] {
        Opener(world, pool, *turn, self).take_part();
      }));
    wait_until(world, "a communicator", [&] { return turn->offered == ranks; });
    if (number == 0) {
      take_the_rest(world, holder);
      area = turn->area;
      turn->alone = true;
    }
    world.require(turn->area == area, "it lies elsewhere");
    wait_until(world, "the ranks to end",
               [&] { return turn->others_gone() && gone(*turn->processes[0]); });
    world.require(turn->died() == (number == deadly_turn),
                  "the victim died in another turn than planned, or not at all");
  }
}

TEST(CommunicatorsBegin, ADeathWhileReleasesAreClearedMisleadsNobody) {
  SimulatedPool pool({.max_processes = 40});
  pool.format_arena();
  Scenario scenario = pool.scenario("a rank dies as it opens a communicator", nodes);
  scenario.max_steps = 40'000'000;
  scenario.body = [&pool](World& world) {
    world.spawn(0, [&world, &pool] { one_after_the_other(world, pool); });
  };
  expect_held("collectives", "crash points", explore(scenario, 10));
}

}  // namespace
}  // namespace penstock::sim::communicator_begin_test

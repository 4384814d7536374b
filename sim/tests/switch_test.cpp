// A switch that computes, on memory without coherence: one more node, whose process plays it.
// Random calls compared with the exact arithmetic; when the switch is killed at any operation, all
// ranks complete all calls; when a rank is killed at any operation, all others are told.
#include <gtest/gtest.h>

#include <memory>
#include <vector>

#include "accelerator/server.hpp"
#include "coll/agreement.hpp"
#include "coll/test_mover.hpp"
#include "offload/switch_port.hpp"
#include "sim/tests/expect_held.hpp"
#include "sim/tests/lasting_copies.hpp"
#include "sim/tests/late_stores.hpp"
#include "sim/tests/offload_user.hpp"
#include "sim/tests/switch_calls.hpp"
#include "sim/tests/switch_pool.hpp"

namespace penstock::sim {
namespace {

using coll::Communicator;

/// Events besides a death at any operation of a process.
enum class Event : std::uint8_t {
  none,
  dies_at_work,  ///< the victim, within its first operations of serving, or calling
  stops,         ///< the switch is stopped for longer than a lease, and goes on
  vandal,        ///< a process overwrites words of the rings
};

/// Which ranks have data in a GPU, in most calls.
enum class Gpus : std::uint8_t { of_none, of_all, of_some };

struct Job {
  explicit Job(std::uint32_t ranks) : offers(ranks), has_offered(ranks) {}
  Event event = Event::none;
  std::uint32_t leaves = 0;
  std::vector<SwitchCall> calls;
  /// By call and rank: whether a GPU moves its data.
  std::vector<std::vector<bool>> moved;
  Gpus gpus = Gpus::of_none;
  bool restless = false;  ///< switches look without pause
  std::vector<coll::Offer> offers;
  std::vector<bool> has_offered;
  std::uint32_t ended = 0;
  std::uint32_t serving = 0;  ///< switches that serve
  bool all_serve() const { return serving == 1 + leaves; }
  std::uint64_t computed = 0;  ///< chunks computed by the switch
  std::uint64_t failures = 0;
  std::uint32_t ranks() const { return static_cast<std::uint32_t>(offers.size()); }
};

bool died(World& world) {
  return world.victim() != nullptr && world.victim()->dead;
}
/// A rank died, not a switch.
bool rank_died(World& world, const Job& job) {
  return died(world) && world.victim()->number < job.ranks();
}

/// Only where deaths are of interest: attaching and leaving have their own tests.
void die_soon(World& world, const Job& job, std::uint64_t operations) {
  Process& self = world.self();
  if (job.event != Event::dies_at_work || world.victim() != &self || self.dies_at != ~0ull) return;
  self.dies_at = self.operations + 1 + world.random() % operations;
  self.takes_node_along = world.random() % 2 == 0;
}

/// The process that plays the switch.
void play(World& world, const SimulatedPool& simulated, const std::shared_ptr<Job>& job,
          std::uint32_t number) {
  auto server = open_server(world, simulated, {.number = number, .leaves = job->leaves});
  world.require(server.has_value(), server ? "" : server.error().message);
  ++job->serving;
  while (job->ended + (rank_died(world, *job) ? 1 : 0) < job->ranks()) {
    if ((*server)->communicators() != 0) die_soon(world, *job, 1500);
    if (!(*server)->poll())
      job->restless ? world.yield() : world.sleep(1 + world.random() % 200'000);
    job->computed = (*server)->counts().chunks;
    job->failures = (*server)->counts().failures;
  }
  world.require((*server)->communicators() == 0 || died(world) || job->event == Event::stops,
                "a communicator was not withdrawn");
}

class Rank {
 public:
  Rank(World& world, const SimulatedPool& simulated, Job& job, std::uint32_t self)
      : world_(world),
        job_(job),
        self_(self),
        user_(world, simulated, "sim", static_cast<std::int32_t>(self)) {}

  void go() {
    call_all();
    ++job_.ended;
  }

 private:
  void call_all() {
    wait_until(world_, "the switch", [&] { return job_.all_serve() || died(world_); });
    coll::Agreement agreement(job_.ranks(), self_, offload::switch_port());
    const auto comm = open(agreement);
    if (comm == nullptr) return;
    die_soon(world_, job_, 800);
    for (std::size_t number = 0; number < job_.calls.size(); ++number)
      if (!make(*comm, number)) return;
    comm->leave();
    if (self_ != 0) return;
    const auto all = comm->await_all_left("the end");
    if (!all) return expect_death(all.error());
    if (job_.offers[0].switch_region != coll::Offer::none) expect_sources_stay();
    agreement.give_back();
  }
  /// Nothing more arrives where ranks had their operands.
  void expect_sources_stay() {
    const offload::Region region(job_.offers[0].switch_region,
                                 {.ranks = job_.ranks(), .leaves = job_.leaves, .slot_bytes = 256});
    const std::uint64_t begin = region.source(0, 0);
    const std::vector<std::byte> mark(region.source(job_.ranks(), 0) - begin, std::byte{0x77});
    std::vector<std::byte> found(mark.size());
    const auto& memory = user_.pool->memory();
    memory.publish_bulk(user_.pool->base() + begin, mark.data(), mark.size());
    memory.full_fence();
    world_.evict_all_dirty();
    memory.observe_bulk(found.data(), user_.pool->base() + begin, found.size());
    world_.require(found == mark, "a store arrived after all ranks had left");
  }

  bool all_offered() const {
    return std::all_of(job_.has_offered.begin(), job_.has_offered.end(),
                       [](bool has_offered) { return has_offered; });
  }
  std::unique_ptr<Communicator> open(coll::Agreement& agreement) {
    const bool by_gpu = job_.gpus == Gpus::of_all || (job_.gpus == Gpus::of_some && self_ == 0);
    const auto offered = agreement.offer(coll::space_in(*user_.arena, "comm"),
                                         {.slot_bytes = 256, .by_gpu = by_gpu});
    world_.require(offered.has_value(), offered ? "" : offered.error().message);
    job_.offers[self_] = agreement.own();
    job_.has_offered[self_] = true;
    wait_until(world_, "the offers", [&] { return all_offered() || rank_died(world_, job_); });
    if (!all_offered()) return nullptr;
    auto comm = Communicator::open(*user_.pool, agreement.options(*user_.pool, job_.offers));
    world_.require(comm.has_value(), comm ? "" : comm.error().message);
    if (by_gpu) (*comm)->drop_copies_of_own_slots();
    return std::move(*comm);
  }
  /// One rank's input, and the form of its call.
  struct Own {
    Own(const Communicator& comm, const SwitchCall& of, std::uint32_t self) : buffers(of, self) {
      if (of.reduces()) arithmetic.emplace(of.reduction());
      call = {.name = name_of(of.collective),
              .problem = &buffers.problem,
              .plan = comm.plan(buffers.problem),
              .input = buffers.in.data(),
              .output = buffers.output(),
              .arithmetic = arithmetic ? &*arithmetic : nullptr};
    }
    SwitchCallBuffers buffers;
    std::optional<coll::PredefinedArithmetic> arithmetic;
    coll::Call call;
  };
  bool is_moved(std::size_t number) const { return job_.moved[number][self_]; }
  /// A GPU gets a call while others are under way: as it was prepared then.
  Result<void> run_moved(Communicator& comm, std::size_t number, Own& own) {
    const auto prepared = prepared_next_ ? prepared_next_ : *comm.prepare_moved(own.call);
    prepared_next_ = nullptr;
    if (number + 1 < job_.calls.size() && is_moved(number + 1) && world_.random() % 2 == 0)
      prepared_next_ = *comm.prepare_moved(Own(comm, job_.calls[number + 1], self_).call);
    return coll::run_moved(comm, own.call, *prepared, own.buffers.in.data(), own.buffers.output(),
                           world_.random());
  }
  bool make(Communicator& comm, std::size_t number) {
    const SwitchCall& call = job_.calls[number];
    Own own(comm, call, self_);
    const auto done = is_moved(number) ? run_moved(comm, number, own) : comm.run(own.call);
    if (!done) {
      expect_death(done.error());
      return false;
    }
    const std::string fault = own.buffers.fault(call, self_);
    world_.require(fault.empty(),
                   fmt::format("{}{}: {}", call.text(), is_moved(number) ? ", moved" : "", fault));
    return true;
  }
  /// In a rank: the death of a switch is not an error.
  void expect_death(const Error& error) {
    world_.require(error.code == ErrorCode::peer_dead && rank_died(world_, job_), error.message);
    const std::string name = fmt::format("rank {} (pid", world_.victim()->number);
    world_.require(
        error.message.find(name) != std::string::npos || error.message.ends_with(" left"),
        error.message);
  }

  World& world_;
  Job& job_;
  std::uint32_t self_;
  SpaceUser user_;
  std::shared_ptr<const coll::Prepared> prepared_next_;
};

/// Stops it for longer than a lease, somewhere in its work.
void stop_the_switch(World& world, const SimulatedPool& simulated, const Job& job) {
  Process& process = *world.processes()[job.ranks()];
  process.may_exit = true;  // others have declared it dead
  wait_until(world, "the offers", [&] { return job.offers[0].token != 0; });
  world.sleep(world.random() % 3'000'000);
  process.stopped = true;
  world.sleep(2 * simulated.lease_ns(world));
  process.stopped = false;
}

/// Words of packets from ranks and leaves, and of the answers to one rank: the others' answers are
/// equal, and are found.
void overwrite_rings(World& world, const SimulatedPool& simulated, const Job& job) {
  const auto pool = simulated.attach(world, {.observer = true});
  wait_until(world, "the offers", [&] { return job.offers[0].token != 0; });
  const std::uint64_t at = job.offers[0].switch_region;
  const offload::Region region(at, {.ranks = job.ranks(), .leaves = job.leaves, .slot_bytes = 256});
  const auto answered = static_cast<std::uint32_t>(world.random() % job.ranks());
  for (int times = 0; times < 150 && job.ended == 0; ++times) {
    world.sleep(world.random() % 60'000);
    const auto ring = static_cast<std::uint32_t>(world.random() % region.rings());
    const std::uint64_t index = job.computed + world.random() % 2;
    std::uint64_t line = region.completion(answered, index);
    if (world.random() % 2 == 0) line = region.submission(ring, index);
    pool->memory().publish_word(pool->base() + line + 8 * (world.random() % 8),
                                world.random() % 2 == 0 ? 0 : world.random());
    pool->memory().store_fence();
  }
}

struct Case {
  std::uint32_t ranks = 2, calls = 4;
  std::uint32_t victim = ~0u;  ///< a rank, or `ranks`: the switch or spine; then the leaves
  std::uint32_t leaves = 0;
  Event event = Event::none;
  Gpus gpus = Gpus::of_none;
  bool restless = false;
};

std::string name_of(const Case& of) {
  std::string name = fmt::format("a switch and {} ranks", of.ranks);
  if (of.leaves != 0) name = fmt::format("a spine of {} leaves and {} ranks", of.leaves, of.ranks);
  if (of.victim < of.ranks) name += fmt::format(", rank {} dies", of.victim);
  if (of.victim == of.ranks) name += ", the switch dies";
  if (of.victim > of.ranks && of.victim != ~0u)
    name += fmt::format(", leaf {} dies", of.victim - of.ranks - 1);
  if (of.event == Event::dies_at_work) name += " at work";
  if (of.event == Event::stops) name += ", the switch is stopped";
  if (of.event == Event::vandal) name += ", rings are overwritten";
  if (of.gpus == Gpus::of_all) name += ", data moved by GPUs";
  if (of.gpus == Gpus::of_some) name += ", data of some ranks moved by GPUs";
  return name;
}

/// Each rank and each switch is on a node of its own.
Scenario calls(const SimulatedPool& pool, const Case& of) {
  Scenario scenario = pool.scenario(name_of(of), of.ranks + 1 + of.leaves);
  scenario.max_steps = 20'000'000;
  scenario.body = [&pool, of](World& world) {
    auto job = std::make_shared<Job>(of.ranks);
    job->event = of.event;
    job->leaves = of.leaves;
    job->gpus = of.gpus;
    job->restless = of.restless;
    std::mt19937_64 random(world.random());
    for (std::uint32_t i = 0; i < of.calls; ++i) {
      job->calls.push_back(draw_switch_call(of.ranks, random));
      const bool moved = of.gpus != Gpus::of_none && random() % 4 != 0;
      job->moved.emplace_back(of.ranks, moved);
      if (of.gpus != Gpus::of_some) continue;
      for (std::uint32_t rank = 0; rank < of.ranks; ++rank)
        job->moved.back()[rank] = random() % 2 == 0;
    }
    for (std::uint32_t self = 0; self <= of.ranks + of.leaves; ++self) {
      Process& process = world.spawn(self, [&world, &pool, job, self, of] {
        if (self >= of.ranks) return play(world, pool, job, self - of.ranks);
        Rank(world, pool, *job, self).go();
      });
      if (self == of.victim) world.mark_victim(process);
    }
    if (of.event == Event::stops)
      world.spawn(0, [&world, &pool, job] { stop_the_switch(world, pool, *job); });
    if (of.event == Event::vandal)
      world.spawn(0, [&world, &pool, job] { overwrite_rings(world, pool, *job); });
  };
  return scenario;
}

TEST(Switch, GivesTheBitsOfTheEngine) {
  for (const std::uint32_t ranks : {2u, 3u}) {
    SwitchPool pool;
    const Scenario scenario = calls(pool, {.ranks = ranks, .calls = 6});
    expect_held("switch", "random schedules", explore(scenario, 20));
    expect_held("switch", "random schedules", explore(with_lasting_copies(scenario), 12));
  }
}

TEST(Switch, ReadsOperandsAfterTheirPackets) {
  for (const std::uint32_t leaves : {0u, 2u}) {
    SwitchPool pool;
    const Case of{.ranks = 2, .calls = 6, .leaves = leaves, .restless = true};
    expect_held("switch", "random schedules", explore(with_late_stores(calls(pool, of)), 20));
  }
}

TEST(Switch, WhenItDiesEachRankCompletesEachCall) {
  SwitchPool pool;
  const Case of{.ranks = 3, .calls = 4, .victim = 3};
  expect_held("switch", "crash points", crash_everywhere(calls(pool, of), 60));
}

TEST(Switch, ADeadRankIsNamedToAllOthers) {
  SwitchPool pool;
  for (const std::uint32_t victim : {0u, 2u}) {
    const Case of{.ranks = 3, .calls = 4, .victim = victim};
    expect_held("switch", "crash points", crash_everywhere(calls(pool, of), 40));
  }
}

TEST(Switch, ContinuesThroughPoolWhenSwitchDies) {
  SwitchPool pool;
  const Case of{.ranks = 3, .calls = 4, .victim = 3, .event = Event::dies_at_work};
  expect_held("switch", "crash points", explore(calls(pool, of), 60));
  expect_held("switch", "crash points", explore(with_lasting_copies(calls(pool, of)), 20));
}

TEST(Switch, NamesRankThatDiesAtWork) {
  SwitchPool pool;
  for (const std::uint32_t victim : {0u, 1u}) {
    const Case of{.ranks = 3, .calls = 4, .victim = victim, .event = Event::dies_at_work};
    expect_held("switch", "crash points", explore(calls(pool, of), 30));
  }
}

/// It is declared dead, stores nothing when it goes on, and ends.
TEST(Switch, ThatWasTakenForDeadHarmsNothing) {
  SwitchPool pool;
  const Case of{.ranks = 2, .calls = 6, .event = Event::stops};
  expect_held("switch", "random schedules", explore(calls(pool, of), 20));
}

TEST(Switch, NoticesForeignStoresWithoutHanging) {
  SwitchPool pool;
  const Case of{.ranks = 3, .calls = 6, .event = Event::vandal};
  expect_held("switch", "random schedules", explore(calls(pool, of), 30));
}

TEST(Tree, GivesTheBitsOfTheEngine) {
  for (const std::uint32_t ranks : {2u, 4u}) {
    SwitchPool pool;
    const Scenario scenario = calls(pool, {.ranks = ranks, .calls = 6, .leaves = 2});
    expect_held("switch", "random schedules", explore(scenario, 40));
    expect_held("switch", "random schedules", explore(with_lasting_copies(scenario), 8));
  }
}

TEST(Tree, CompletesCallsWhenOneSwitchDies) {
  SwitchPool pool;
  for (const std::uint32_t victim : {3u, 4u, 5u}) {
    const Case of{
        .ranks = 3, .calls = 4, .victim = victim, .leaves = 2, .event = Event::dies_at_work};
    expect_held("switch", "crash points", explore(calls(pool, of), 12));
  }
}

TEST(Tree, NamesDeadRankToAllOthers) {
  SwitchPool pool;
  const Case of{.ranks = 3, .calls = 4, .victim = 1, .leaves = 2, .event = Event::dies_at_work};
  expect_held("switch", "crash points", explore(calls(pool, of), 12));
}

TEST(Tree, NoticesForeignStoresWithoutHanging) {
  SwitchPool pool;
  const Case of{.ranks = 3, .calls = 6, .leaves = 2, .event = Event::vandal};
  expect_held("switch", "random schedules", explore(calls(pool, of), 15));
}

TEST(MovedThroughASwitch, GivesTheBitsOfTheEngine) {
  for (const std::uint32_t leaves : {0u, 2u}) {
    SwitchPool pool;
    const Case of{.ranks = 2 + leaves / 2, .calls = 6, .leaves = leaves, .gpus = Gpus::of_all};
    expect_held("switch", "random schedules", explore(calls(pool, of), leaves == 0 ? 100 : 10));
    expect_held("switch", "random schedules", explore(with_lasting_copies(calls(pool, of)), 12));
  }
}

TEST(MovedThroughASwitch, ReadsOperandsAfterTheirPackets) {
  SwitchPool pool;
  const Case of{.ranks = 2, .calls = 6, .gpus = Gpus::of_all, .restless = true};
  expect_held("switch", "random schedules", explore(with_late_stores(calls(pool, of)), 20));
}

/// The others' data lies in memory of their hosts.
TEST(MovedThroughASwitch, SomeRanksMayHaveNoGpu) {
  SwitchPool pool;
  const Case of{.ranks = 3, .calls = 6, .gpus = Gpus::of_some};
  expect_held("switch", "random schedules", explore(calls(pool, of), 30));
  const Case dies{
      .ranks = 3, .calls = 5, .victim = 3, .event = Event::dies_at_work, .gpus = Gpus::of_some};
  expect_held("switch", "crash points", explore(calls(pool, dies), 40));
}

TEST(MovedThroughASwitch, WhenItDiesEachRankCompletesEachCall) {
  for (const std::uint32_t leaves : {0u, 2u}) {
    SwitchPool pool;
    for (std::uint32_t victim = 3; victim <= 3 + leaves; ++victim) {
      const Case of{.ranks = 3,
                    .calls = 5,
                    .victim = victim,
                    .leaves = leaves,
                    .event = Event::dies_at_work,
                    .gpus = Gpus::of_all};
      expect_held("switch", "crash points", explore(calls(pool, of), leaves == 0 ? 40 : 12));
      expect_held("switch", "crash points", explore(with_lasting_copies(calls(pool, of)), 8));
    }
  }
}

TEST(MovedThroughASwitch, NamesDeadRankToAllOthers) {
  SwitchPool pool;
  for (const std::uint32_t victim : {0u, 1u}) {
    const Case of{.ranks = 3,
                  .calls = 4,
                  .victim = victim,
                  .event = Event::dies_at_work,
                  .gpus = Gpus::of_all};
    expect_held("switch", "crash points", explore(calls(pool, of), 30));
  }
}

TEST(MovedThroughASwitch, NoticesForeignStoresWithoutHanging) {
  SwitchPool pool;
  const Case of{.ranks = 3, .calls = 6, .event = Event::vandal, .gpus = Gpus::of_all};
  expect_held("switch", "random schedules", explore(calls(pool, of), 30));
}

/// The switch and a rank take turns: each finds at its next look what the other has done, although
/// both keep copies of all they have read.
TEST(Served, ALookFindsWhatHasCome) {
  SwitchPool pool;
  Scenario scenario = with_lasting_copies(pool.scenario("looks of a switch", 2));
  scenario.body = [&pool](World& world) {
    struct Shared {
      std::uint64_t offset = 0, token = 0;
      int turn = 0;
    };
    auto shared = std::make_shared<Shared>();
    const auto shape_of = [](const Shared& all) {
      return offload::Shape{.ranks = 1, .slot_bytes = 256, .communicator = 7, .owner = all.token};
    };
    constexpr int rounds = 80;  // the ring is reused
    world.spawn(0, [&world, &pool, shared, shape_of] {
      SpaceUser user(world, pool, "sim");
      shared->token = user.pool->token();
      const offload::Region nowhere(0, shape_of(*shared));
      const auto object = user.arena->create("region", nowhere.bytes());
      const offload::Region region(object->offset, shape_of(*shared));
      offload::describe(*user.pool, region);
      shared->offset = region.offset();
      const auto& memory = user.pool->memory();
      std::byte* const base = user.pool->base();
      for (int round = 0; round < rounds; ++round) {
        wait_until(world, "a turn", [&] { return shared->turn >= 3 * round + 1; });
        const auto index = static_cast<std::uint64_t>(round);
        send_operand(user, region, index);
        memory.full_fence();
        shared->turn = 3 * round + 2;
        wait_until(world, "an answer", [&] { return shared->turn >= 3 * round + 3; });
        world.require(memory.observe_word(base + region.result(0, index)) == index + 1,
                      "an old result");
      }
    });
    world.spawn(1, [&world, &pool, shared] {
      const auto attached = pool.attach(world, {.job = "sim"});
      wait_until(world, "the region", [&] { return shared->offset != 0; });
      const auto region = offload::find_region(*attached, shared->offset);
      world.require(region.has_value(), region ? "" : region.error().message);
      const auto served = accelerator::serve({}, *attached, *region, 0);
      for (int round = 0; round < rounds; ++round) {
        world.require(!served->poll(), "a look accepted old contents");
        shared->turn = 3 * round + 1;
        wait_until(world, "a packet", [&] { return shared->turn >= 3 * round + 2; });
        world.require(served->poll(), "a look missed new contents");
        attached->memory().full_fence();
        shared->turn = 3 * round + 3;
      }
    });
  };
  expect_held("switch", "random schedules", explore(scenario, 10));
}

}  // namespace
}  // namespace penstock::sim

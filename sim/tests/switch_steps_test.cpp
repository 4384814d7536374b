// Calls through a switch, one step of one process after the other, on nodes that keep copies of all
// they have read: a waiting rank finds changes, and names the processes that it waits for.
#include <gtest/gtest.h>

#include <memory>
#include <vector>

#include "coll/agreement.hpp"
#include "coll/mover.hpp"
#include "coll/prepared.hpp"
#include "offload/packet.hpp"
#include "offload/switch_port.hpp"
#include "sim/tests/expect_held.hpp"
#include "sim/tests/lasting_copies.hpp"
#include "sim/tests/offload_user.hpp"
#include "sim/tests/puppet.hpp"
#include "sim/tests/switch_pool.hpp"

namespace penstock::sim {
namespace {

constexpr std::uint32_t ranks = 2;
constexpr std::uint64_t some_looks_ns = 60'000'000;  // one round of looks, each 20 ms

/// Two ranks and their switches, each on its own node; led from one more node.
struct Cast {
  Cast(World& the_world, const SimulatedPool& pool, std::uint32_t leaves)
      : world(the_world), offers(ranks), agreements(ranks), comms(ranks) {
    for (std::uint32_t self = 0; self < ranks; ++self) rank.emplace_back(world, pool, self);
    for (std::uint32_t number = 0; number <= leaves; ++number) {
      played.emplace_back(world, pool, ranks + number);
      played.back().does([this, &pool, number, leaves](SpaceUser&) {
        auto opened = open_server(world, pool, {.number = number, .leaves = leaves});
        world.require(opened.has_value(), opened ? "" : opened.error().message);
        servers.push_back(opened->release());
      });
    }
    open();
  }
  /// Advances a barrier, for one look or more.
  void starts(std::uint32_t self, std::uint64_t for_ns) {
    rank[self].starts([this, self, for_ns](SpaceUser&) {
      coll::Communicator& comm = *comms[self];
      if (!begun[self]) (void)comm.begin(call(self));
      begun[self] = true;
      const std::uint64_t end = world.now_ns() + for_ns;
      do {
        const auto advanced = comm.advance();
        world.require(advanced.has_value(), advanced ? "" : advanced.error().message);
        done[self] = *advanced;
        world.sleep(500'000);
      } while (!done[self] && world.now_ns() < end);
    });
  }
  void looks(std::uint32_t self, std::uint64_t for_ns = some_looks_ns) {
    starts(self, for_ns);
    rank[self].await();
  }
  /// Finds what the other one has published, within so few looks that nothing else delivers it.
  void finds_soon(std::uint32_t self, const char* what) {
    rank[1 - self].does([](SpaceUser& user) { user.pool->memory().full_fence(); });
    for (int look = 0; look < 4 && !done[self]; ++look) looks(self, 0);
    world.require(done[self], what);
  }
  void both_end() {
    for (std::uint32_t self = 0; self < ranks; ++self)
      if (!done[self]) starts(self, 20 * some_looks_ns);
    for (Puppet& each : rank) each.await();
    world.require(done[0] && done[1], "the call does not end");
  }
  /// The switch processes all that has arrived.
  void computes(std::uint32_t number) {
    played[number].does([this, number](SpaceUser& user) {
      for (int looks = 0; looks < 8; ++looks) (void)servers[number]->poll();
      user.pool->memory().full_fence();
    });
  }
  /// As computes(); only a fence of its own brings its stores to the device.
  void polls(std::uint32_t number) {
    played[number].does([this, number](SpaceUser&) {
      for (int looks = 0; looks < 8; ++looks) (void)servers[number]->poll();
    });
  }
  void require_awaited(std::uint32_t self, std::uint32_t awaited) {
    world.require(comms[self]->awaited() == std::vector<std::uint32_t>{awaited},
                  "the rank waits for the wrong process");
  }
  coll::Call call(std::uint32_t self) {
    problems[self] = {.collective = collective, .ranks = ranks, .rank = self, .root = 1};
    coll::Problem& problem = problems[self];
    if (collective == coll::Collective::broadcast) {
      problem.max_block_bytes = sizeof data[self];
      (self == 1 ? problem.input : problem.output) = {{0, sizeof data[self]}};
    }
    return {.name = name_of(collective),
            .problem = &problem,
            .plan = comms[self]->plan(problem),
            .input = data[self],
            .output = data[self]};
  }
  offload::Region region() const {
    return offload::Region(offers[0].switch_region, {.ranks = ranks,
                                                     .leaves = offers[0].switch_leaves,
                                                     .slot_bytes = 256,
                                                     .communicator = offers[0].communicator,
                                                     .owner = offers[0].token});
  }
  /// By a process that is none of them.
  void store(const SpaceUser& stranger, std::uint64_t at, const offload::Packet& packet) const {
    stranger.pool->memory().publish_line(stranger.pool->base() + at, &packet);
    stranger.pool->memory().full_fence();
  }
  void end() {
    for (std::uint32_t self = 0; self < ranks; ++self)
      rank[self].does([this, self](SpaceUser&) { comms[self] = nullptr; });
    rank[0].starts([this](SpaceUser&) { agreements[0]->give_back(); });
    compute_while_busy();
    for (std::uint32_t number = 0; number < played.size(); ++number)
      played[number].does([this, number](SpaceUser&) { delete servers[number]; });
    for (Puppet& each : rank) each.end();
    for (Puppet& each : played) each.end();
  }

  World& world;
  std::vector<coll::Offer> offers;
  std::vector<std::unique_ptr<coll::Agreement>> agreements;
  std::vector<std::unique_ptr<coll::Communicator>> comms;
  std::vector<Puppet> rank, played;
  std::vector<Server*> servers;
  coll::Collective collective = coll::Collective::barrier;  ///< or a broadcast from rank 1
  coll::Problem problems[ranks];
  std::byte data[ranks][64] = {};
  bool begun[ranks] = {}, done[ranks] = {};

 private:
  void compute_while_busy() {
    while (!rank[0].is_idle())
      for (std::uint32_t number = 0; number < played.size(); ++number) computes(number);
    for (Puppet& each : rank) each.await();
  }
  void open() {
    for (std::uint32_t self = 0; self < ranks; ++self)
      rank[self].starts([this, self](SpaceUser& user) {
        agreements[self] = std::make_unique<coll::Agreement>(ranks, self, offload::switch_port());
        const auto made =
            agreements[self]->offer(coll::space_in(*user.arena, "comm"), {.slot_bytes = 256});
        world.require(made.has_value(), made ? "" : made.error().message);
        offers[self] = agreements[self]->own();
      });
    compute_while_busy();
    world.require(offers[0].switch_region != coll::Offer::none, "nobody serves");
    for (std::uint32_t self = 0; self < ranks; ++self)
      rank[self].does([this, self](SpaceUser& user) {
        auto opened =
            coll::Communicator::open(*user.pool, agreements[self]->options(*user.pool, offers));
        world.require(opened.has_value(), opened ? "" : opened.error().message);
        comms[self] = *std::move(opened);
      });
  }
};

Scenario in_steps(const SimulatedPool& pool, const std::string& name, std::uint32_t leaves,
                  std::function<void(Cast&, SpaceUser&)> play) {
  Scenario scenario = with_lasting_copies(pool.scenario(name, ranks + 2 + leaves));
  scenario.faults.hold_unordered = true;
  scenario.max_steps = 8'000'000;
  scenario.body = [&pool, leaves, play = std::move(play)](World& world) {
    world.spawn(ranks + 1 + leaves, [&world, &pool, leaves, play] {
      SpaceUser leader(world, pool);
      Cast cast(world, pool, leaves);
      play(cast, leader);
      cast.end();
    });
  };
  return scenario;
}

void hold(const SimulatedPool& pool, const std::string& name, std::uint32_t leaves,
          std::function<void(Cast&, SpaceUser&)> play) {
  expect_held("switch", "random schedules",
              explore(in_steps(pool, name, leaves, std::move(play)), 5));
}

/// Otherwise a rank would wait for ever for a switch that does not answer, as if a rank were
/// missing.
TEST(SwitchSteps, WhoHasComeIsAwaitedNoMore) {
  const SwitchPool pool;
  hold(pool, "a rank comes late, and the switch later", 0, [](Cast& cast, SpaceUser&) {
    cast.looks(0);
    cast.require_awaited(0, 1);
    cast.looks(1);
    cast.looks(0);
    cast.require_awaited(0, 0);  // once by itself: it waits for the switch
    cast.computes(0);
    cast.both_end();
  });
}

/// One look each: all that a look sends is at the device when the next one looks.
TEST(SwitchSteps, WhatIsSentIsThereAtOnce) {
  const SwitchPool pool;
  hold(pool, "one look each", 0, [](Cast& cast, SpaceUser&) {
    for (std::uint32_t self = 0; self < ranks; ++self) cast.looks(self, 0);
    cast.computes(0);
    for (std::uint32_t self = 0; self < ranks; ++self) cast.looks(self, 0);
    cast.world.require(cast.done[0] && cast.done[1], "it comes later");
  });
}

/// By its own fence, not by anything that comes later.
TEST(SwitchSteps, WhatTheSwitchAnswersIsThereAtOnce) {
  const SwitchPool pool;
  Scenario scenario = in_steps(pool, "an answer", 0, [](Cast& cast, SpaceUser&) {
    for (std::uint32_t self = 0; self < ranks; ++self) cast.looks(self, 0);
    cast.polls(0);
    for (std::uint32_t self = 0; self < ranks; ++self) cast.looks(self, 0);
    cast.world.require(cast.done[0] && cast.done[1], "it comes later");
  });
  scenario.faults.lazy_store_fence = false;
  expect_held("switch", "random schedules", explore(scenario, 5));
}

TEST(SwitchSteps, WhatALeafSendsIsThereAtOnce) {
  const SwitchPool pool;
  hold(pool, "one look each, and a leaf's", 1, [](Cast& cast, SpaceUser&) {
    for (std::uint32_t self = 0; self < ranks; ++self) cast.looks(self, 0);
    for (const std::uint32_t number : {1u, 0u, 1u}) cast.computes(number);
    for (std::uint32_t self = 0; self < ranks; ++self) cast.looks(self, 0);
    cast.world.require(cast.done[0] && cast.done[1], "it comes later");
  });
}

/// The leaf has looked at it before.
TEST(SwitchSteps, RepairsOverwrittenPacketOfLeaf) {
  const SwitchPool pool;
  hold(pool, "a leaf's packet is overwritten", 1, [](Cast& cast, SpaceUser& stranger) {
    constexpr std::uint64_t a_check_ns = 25'000'000;
    for (std::uint32_t self = 0; self < ranks; ++self) cast.looks(self, 0);
    for (int checks = 0; checks < 3; ++checks) {
      cast.computes(1);
      cast.world.sleep(a_check_ns);
    }
    cast.store(stranger, cast.region().submission(ranks, 0), {});
    cast.polls(1);
    for (const std::uint32_t number : {0u, 1u}) cast.computes(number);
    for (std::uint32_t self = 0; self < ranks; ++self) cast.looks(self, 0);
    cast.world.require(cast.done[0] && cast.done[1], "the packet was not restored");
  });
}

/// A packet in flight is looked at before a foreign process overwrites it, and after.
TEST(SwitchSteps, APacketThatWasOverwrittenComesAgain) {
  const SwitchPool pool;
  hold(pool, "a packet is overwritten", 0, [](Cast& cast, SpaceUser& stranger) {
    cast.looks(0);
    cast.store(stranger, cast.region().submission(0, 0), {});
    cast.world.sleep(some_looks_ns);
    cast.looks(0, 0);  // one round
    cast.looks(1, 0);
    cast.computes(0);
    cast.looks(0, 0);
    cast.world.require(cast.done[0], "the packet was not restored");
    cast.both_end();
  });
}

/// One rank leaves the switch for a reason that the others do not find.
void leaves_alone(Cast& cast, SpaceUser& stranger, std::uint32_t self) {
  const bool barrier = cast.collective == coll::Collective::barrier;
  const offload::Region region = cast.region();
  const std::uint64_t at = region.completion(self, 0);
  offload::Packet before;
  stranger.pool->memory().observe_line(&before, stranger.pool->base() + at);
  cast.store(stranger, at,
             offload::seal(offload::Completion{.operation = barrier ? offload::Operation::barrier
                                                                    : offload::Operation::broadcast,
                                               .status = offload::Status::internal,
                                               .communicator = region.shape().communicator,
                                               .sequence = 1,
                                               .rank = static_cast<std::uint16_t>(self)},
                           region.completion_place(self, 0)));
  cast.looks(self);
  cast.store(stranger, at, before);
}

TEST(SwitchSteps, WhoLeavesTheSwitchIsFollowed) {
  const SwitchPool pool;
  hold(pool, "a rank leaves the switch alone", 0, [](Cast& cast, SpaceUser& stranger) {
    cast.looks(1);
    leaves_alone(cast, stranger, 0);
    cast.require_awaited(0, 1);
    cast.looks(1);
    cast.finds_soon(0, "the rank waits for one that has left");
    cast.both_end();
  });
}

/// The other has its answer, and makes no further call.
TEST(SwitchSteps, DoesNotAwaitFinishedRanks) {
  const SwitchPool pool;
  hold(pool, "a rank leaves a switch that has answered", 0, [](Cast& cast, SpaceUser& stranger) {
    cast.looks(1);
    cast.looks(0, 0);  // sends its packet
    leaves_alone(cast, stranger, 0);
    cast.require_awaited(0, 1);
    cast.computes(0);
    cast.looks(1);
    cast.world.require(cast.done[1], "the switch's answer was not taken");
    cast.finds_soon(0, "the rank waits for one that has finished");
    cast.both_end();
  });
}

/// The root waits for no rank, and leaves the communicator when it has sent its data. To a rank
/// that does not find that it had left, its having finished means that the switch has done the
/// call.
TEST(SwitchSteps, WhoFinishedWithoutTheSwitchHadLeftIt) {
  const SwitchPool pool;
  Scenario scenario =
      in_steps(pool, "a root finishes without the switch", 0, [](Cast& cast, SpaceUser& stranger) {
        cast.collective = coll::Collective::broadcast;
        cast.data[1][63] = std::byte{7};
        cast.looks(0);
        leaves_alone(cast, stranger, 0);
        cast.looks(1);
        cast.world.require(cast.done[1], "the rank waits for one that has left");
        cast.rank[1].does([&](SpaceUser&) { cast.comms[1]->leave(); });
        cast.both_end();
        cast.world.require(cast.data[0][63] == std::byte{7}, "another's data");
      });
  scenario.faults.drop_early = 500;
  expect_held("switch", "random schedules", explore(scenario, 300));
}

/// A GPU that has not begun the call yet.
class BusyMover final : public coll::Mover {
 public:
  void allow(coll::Lane, std::size_t) override {}
  bool is_done(coll::Lane, std::size_t) override { return false; }
  Result<void> fetch(std::byte*, const coll::Span&) override { return {}; }
  Result<void> store(const coll::Span&, const std::byte*) override { return {}; }
};

/// All others have come: the switch is not awaited before the GPU has begun.
TEST(SwitchSteps, BusyGpuIsNotUnresponsiveSwitch) {
  const SwitchPool pool;
  hold(pool, "a GPU comes late", 0, [](Cast& cast, SpaceUser&) {
    std::string error;
    cast.looks(1);
    cast.rank[0].does([&](SpaceUser&) {
      BusyMover mover;
      coll::Call call = cast.call(0);
      const auto prepared = *cast.comms[0]->prepare_moved(call);
      cast.world.require(prepared->switch_packets != 0, "the call does not go through the switch");
      call.mover = &mover;
      call.timeout_ns = some_looks_ns;
      const auto done = cast.comms[0]->run(call, *prepared);
      error = done ? "it was done" : done.error().message;
    });
    cast.world.require(
        error.find("rank 0 ") != std::string::npos && error.find("the switch") == std::string::npos,
        error);
  });
}

/// The leaf until it has asked the spine, then the spine.
TEST(SwitchSteps, TheSwitchThatIsAwaitedIsNamed) {
  const SwitchPool pool;
  for (const bool leaf_asks : {false, true}) {
    hold(pool, "a switch does not answer", 1, [leaf_asks](Cast& cast, SpaceUser&) {
      std::string error;
      cast.looks(1);
      cast.rank[0].starts([&](SpaceUser&) {
        coll::Call call = cast.call(0);
        call.timeout_ns = 6 * some_looks_ns;
        const auto done = cast.comms[0]->run(call);
        error = done ? "it was answered" : done.error().message;
      });
      cast.world.sleep(2 * some_looks_ns);
      if (leaf_asks) cast.computes(1);
      cast.rank[0].await();
      const std::string wanted =
          fmt::format("pid {} ", cast.played[leaf_asks ? 0 : 1].process().pid);
      cast.world.require(error.find(wanted) != std::string::npos, error + ", not " + wanted);
    });
  }
}

}  // namespace
}  // namespace penstock::sim

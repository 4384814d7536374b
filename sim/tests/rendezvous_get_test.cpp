// Messages that the receiver reads in place in the pool, while the sender gives up and stores there
// again.
#include <gtest/gtest.h>

#include "sim/tests/sides.hpp"

namespace penstock::sim {
namespace {

/// Process 0 sends from the pool, closes at some time and stores there again. Process 1 receives
/// the message whole, or an error.
Scenario sender_gives_up(const SimulatedPool& simulated) {
  Scenario scenario = simulated.scenario("channel, rendezvous get withdrawn", 2);
  scenario.max_steps = 6'000'000;
  scenario.body = [&simulated](World& world) {
    auto addresses = std::make_shared<std::array<std::optional<transport::Address>, 2>>();
    world.spawn(0, [&world, &simulated, addresses] {
      Side self(world, simulated);
      auto region = self.arena->create("region", payload_bytes + 64);
      world.require(region.has_value(), "no region");
      std::memset(region->data + 8, static_cast<int>(right), payload_bytes);
      (*addresses)[0] = self.endpoint->address();
      world.until([&] { return (*addresses)[1].has_value(); });
      const Peer peer = *self.endpoint->resolve(*(*addresses)[1]);
      SendOp op;
      op.header = {1, 2, payload_bytes, 3};
      op.iov[0] = {region->data + 8, payload_bytes};
      op.iov_count = 1;
      const auto complete = self.endpoint->send(peer, &op);
      world.require(complete && !*complete, "not a rendezvous get");
      for (auto waits = world.random() % 1500; waits > 0 && !self.callbacks.sent; --waits) {
        self.endpoint->progress();
        world.yield();
      }
      self.endpoint.reset();
      std::memset(region->data + 8, static_cast<int>(overwritten), payload_bytes);
      self.pool->memory().write_back(region->data, region->bytes);
      self.pool->memory().store_fence();
    });
    world.spawn(1, [&world, &simulated, addresses] {
      Side self(world, simulated);
      (*addresses)[1] = self.endpoint->address();
      world.until([&] { return (*addresses)[0].has_value(); });
      const auto peer = self.endpoint->resolve(*(*addresses)[0]);
      if (!peer) return;  // it has closed already
      for (int looks = 0; !self.callbacks.delivered && !self.callbacks.notified; ++looks) {
        world.require(looks < 100'000, "the message neither arrived nor failed");
        if (self.endpoint->progress() == 0) world.sleep(100'000);
      }
    });
  };
  return scenario;
}

/// The receiver is stopped in the middle of it until the sender has declared it dead, and has
/// stored there again. A third process keeps the sender from freeing the memory of all its
/// channels, which would order stores.
Scenario receiver_is_given_up(const SimulatedPool& simulated) {
  constexpr std::uint64_t bytes = 2048;  // few, because the heartbeat soon ends the late one
  Scenario scenario = simulated.scenario("channel, rendezvous get withdrawn from the stopped", 2);
  scenario.max_steps = 6'000'000;
  scenario.body = [&simulated](World& world) {
    auto addresses = std::make_shared<std::array<std::optional<transport::Address>, 3>>();
    auto copies = std::make_shared<std::function<bool()>>([] { return false; });
    world.spawn(0, [&world, &simulated, addresses, copies] {
      Side self(world, simulated);
      auto region = self.arena->create("region", bytes + 64);
      world.require(region.has_value(), "no region");
      std::memset(region->data + 8, static_cast<int>(right), bytes);
      (*addresses)[0] = self.endpoint->address();
      world.until([&] { return (*addresses)[1].has_value(); });
      world.until([&] { return (*addresses)[2].has_value(); });
      const Peer other = *self.endpoint->resolve(*(*addresses)[2]);
      const bool kept = *self.endpoint->try_inject(other, {1, 2, 0, 3}, nullptr);
      world.require(kept, "no channel keeps its memory");
      const Peer peer = *self.endpoint->resolve(*(*addresses)[1]);
      Process& late = *world.processes()[2];
      late.may_exit = true;
      SendOp op;
      op.header = {1, 2, bytes, 3};
      op.iov[0] = {region->data + 8, bytes};
      op.iov_count = 1;
      const auto complete = self.endpoint->send(peer, &op);
      world.require(complete && !*complete, "not a rendezvous get");
      world.until([&] { return (*copies)(); });
      for (auto waits = world.random() % 40; waits > 0; --waits) world.yield();
      late.stopped = true;
      for (int looks = 0; !self.callbacks.sent && !self.callbacks.has_failed; ++looks) {
        world.require(looks < 100'000, "the message was neither taken nor abandoned");
        world.sleep(simulated.lease_ns(world) / 100);
        self.endpoint->progress();
      }
      std::memset(region->data + 8, static_cast<int>(overwritten), bytes);
      self.pool->memory().write_back(region->data, region->bytes);
      for (auto waits = world.random() % 150; waits > 0; --waits) world.yield();
      late.stopped = false;
      wait_until(world, "the late one to leave or to end", [&] {
        self.endpoint->progress();
        return gone(late);
      });
      self.endpoint.reset();
      (*addresses)[2].reset();
    });
    world.spawn(0, [&world, &simulated, addresses] {
      Side self(world, simulated);
      (*addresses)[2] = self.endpoint->address();
      while ((*addresses)[2]) {
        if (self.endpoint->progress() == 0) world.sleep(100'000);
      }
    });
    world.spawn(1, [&world, &simulated, addresses, copies] {
      Side self(world, simulated);
      (*addresses)[1] = self.endpoint->address();
      world.until([&] { return (*addresses)[0].has_value(); });
      (void)*self.endpoint->resolve(*(*addresses)[0]);
      *copies = [&] { return self.callbacks.receiving() || self.callbacks.delivered; };
      while (!self.callbacks.delivered && !self.callbacks.notified) {
        if (self.endpoint->progress() == 0) world.sleep(100'000);
      }
      *copies = [] { return true; };
    });
  };
  return scenario;
}

TEST(RendezvousGet, DeclaredDeadReceiverDeliversNothingNewer) {
  const auto pool = pool_with_endpoints();
  expect_held("channel", "random schedules", explore(receiver_is_given_up(*pool), 400));
}

TEST(RendezvousGet, NeverDeliversWithdrawnMessage) {
  const auto pool = pool_with_endpoints();
  expect_held("channel", "random schedules", explore(sender_gives_up(*pool), 80));
}

}  // namespace
}  // namespace penstock::sim

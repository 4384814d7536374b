// Senders that close before their receivers have taken everything.
#include <gtest/gtest.h>

#include "base/environment_guard.hpp"
#include "sim/tests/sides.hpp"

namespace penstock::sim {
namespace {

/// So little of the pool is free that the next owner has all of it, and reads it soon.
std::unique_ptr<SimulatedPool> narrow_pool() {
  constexpr std::uint64_t room = 1 << 20;
  auto pool = pool_with_endpoints({.max_processes = 12});
  pool->once([&](World& world) {
    const auto attached = pool->attach(world);
    const auto arena = SimulatedPool::open_arena(world, *attached);
    const auto free = arena->stats().bytes_largest_free;
    const auto ballast = arena->create("ballast", free - room, {.zero = false});
    world.require(ballast.has_value(), ballast ? "" : ballast.error().message);
  });
  return pool;
}

struct Case {
  std::optional<transport::Address> sender, receiver;
  bool left = false, taken = false, received = false;
  std::string job_of_sender = "sim", job_of_receiver = "sim";
};

void send_and_leave(World& world, const SimulatedPool& simulated, Case& all) {
  {
    Side self(world, simulated, 20'000'000, all.job_of_sender);
    all.sender = self.endpoint->address();
    world.until([&] { return all.receiver.has_value(); });
    const Peer peer = *self.endpoint->resolve(*all.receiver);
    std::vector<std::byte> payload(4096, right);
    SendOp op;
    op.header = {1, 2, payload.size(), 3};
    op.iov[0] = {payload.data(), payload.size()};
    op.iov_count = 1;
    (void)self.endpoint->send(peer, &op);
  }
  all.left = true;
}

/// Receives nothing until the sender has left and its space, if freed, has another owner.
void receive_late(World& world, const SimulatedPool& simulated, Case& all) {
  const Process& sender = *world.processes()[0];
  Side self(world, simulated, 0, all.job_of_receiver);
  all.receiver = self.endpoint->address();
  world.until([&] { return all.sender.has_value() || gone(sender); });
  const bool met = all.sender && self.endpoint->resolve(*all.sender).has_value();
  wait_until(world, "the next owner", [&] { return all.taken; });
  const auto done = [&] {
    return self.callbacks.delivered == 1 || self.callbacks.left || self.callbacks.notified;
  };
  for (int looks = 0; met && !done(); ++looks) {
    world.require(looks < 20'000, "the message neither arrived nor failed");
    if (self.endpoint->progress() == 0) world.sleep(100'000);
  }
  world.require(!all.left || self.callbacks.delivered == 1, "a completely sent message is lost");
  for (int looks = 0; looks < 20; ++looks) self.endpoint->progress();
  self.endpoint.reset();
  all.received = true;
}

std::vector<std::byte> read(const pool::Pool& pool, const arena::Object& object) {
  std::vector<std::byte> bytes(object.bytes);
  pool.memory().observe_bulk(bytes.data(), object.data, bytes.size());
  return bytes;
}

void take_all_space(World& world, const SimulatedPool& simulated, Case& all) {
  const Process& sender = *world.processes()[0];
  const auto pool = simulated.attach(world, {.job = "another"});
  const auto arena = SimulatedPool::open_arena(world, *pool);
  wait_until(world, "the sender", [&] { return gone(sender); });
  (void)arena->collect();
  const auto bytes = arena->stats().bytes_largest_free;
  const auto taken = arena->create("taken", bytes - 8192, {.zero = false});
  world.require(taken.has_value(), taken ? "" : taken.error().message);
  const auto before = read(*pool, *taken);
  all.taken = true;
  wait_until(world, "the receiver", [&] { return all.received; });
  world.evict_left_dirty();
  world.require(read(*pool, *taken) == before, "a peer of the former owner stored there");
  world.require(arena->destroy(*taken).has_value(), "not destroyed");
}

void require_all_back(World& world, const SimulatedPool& simulated) {
  const auto pool = simulated.attach(world, {.job = "later"});
  const auto arena = SimulatedPool::open_arena(world, *pool);
  wait_until(world, "the left objects to be reclaimed", [&] {
    (void)arena->collect();
    return objects_besides_the_table(*arena) == 1;  // the ballast
  });
}

/// The wait at closing ends by its deadline. The receiver's credits arrive later, in memory that no
/// other owner may get until the job has ended.
Scenario left_in_use(const SimulatedPool& simulated, bool of_two_jobs) {
  Scenario scenario = simulated.scenario("channel, left in use", 3);
  scenario.max_steps = 6'000'000;
  scenario.body = [&simulated, of_two_jobs](World& world) {
    auto all = std::make_shared<Case>();
    if (of_two_jobs) all->job_of_sender = "sender's", all->job_of_receiver = "receiver's";
    world.mark_victim(
        world.spawn(0, [&world, &simulated, all] { send_and_leave(world, simulated, *all); }));
    world.spawn(1, [&world, &simulated, all] { receive_late(world, simulated, *all); });
    world.spawn(2, [&world, &simulated, all] { take_all_space(world, simulated, *all); });
  };
  scenario.after = [&simulated](World& world) { require_all_back(world, simulated); };
  return scenario;
}

TEST(Left, KeepsMemoryThatPeersStoreTo) {
  const auto pool = narrow_pool();
  const Scenario scenario = left_in_use(*pool, false);
  expect_held("channel", "random schedules", explore(scenario, 20));
  expect_held("channel", "random schedules", explore(with_lasting_copies(scenario), 10));
  expect_held("channel", "crash points", crash_everywhere(scenario, 60));
}

/// As ranks of NCCL whose first communicators differ.
TEST(Left, KeepsMemoryThatAnotherJobStoresTo) {
  const auto pool = narrow_pool();
  const Scenario scenario = left_in_use(*pool, true);
  expect_held("channel", "random schedules", explore(scenario, 20));
  expect_held("channel", "random schedules", explore(with_lasting_copies(scenario), 10));
  expect_held("channel", "crash points", crash_everywhere(scenario, 60));
}

/// All cells are full: the flag that shows this still belongs to a complete message.
Scenario broken_off_behind_full_cells(const SimulatedPool& simulated) {
  Scenario scenario = simulated.scenario("channel, broken off behind full cells", 2);
  scenario.max_steps = 6'000'000;
  scenario.body = [&simulated](World& world) {
    auto all = std::make_shared<Case>();
    world.spawn(0, [&world, &simulated, all] {
      Side self(world, simulated);
      all->sender = self.endpoint->address();
      world.until([&] { return all->receiver.has_value(); });
      const Peer peer = *self.endpoint->resolve(*all->receiver);
      std::vector<std::byte> payload(6 * 4096, right);
      SendOp ops[2];
      for (SendOp& op : ops) {
        op.header = {1, 2, payload.size(), 3};
        op.iov[0] = {payload.data(), payload.size()};
        op.iov_count = 1;
      }
      const auto first = self.endpoint->send(peer, &ops[0]);
      world.require(first && *first, "the channel had room for the whole message");
      (void)self.endpoint->send(peer, &ops[1]);
      all->left = true;
      self.endpoint.reset();
      std::fill(payload.begin(), payload.end(), overwritten);
    });
    world.spawn(1, [&world, &simulated, all] {
      Side self(world, simulated);
      all->receiver = self.endpoint->address();
      world.until([&] { return all->sender.has_value(); });
      const bool met = self.endpoint->resolve(*all->sender).has_value();
      world.until([&] { return all->left; });
      for (auto waits = world.random() % 400; waits > 0; --waits) world.yield();
      const auto done = [&] {
        return self.callbacks.delivered == 2 || self.callbacks.left || self.callbacks.notified;
      };
      for (int looks = 0; met && !done(); ++looks) {
        world.require(looks < 20'000, "the message neither arrived nor failed");
        if (self.endpoint->progress() == 0) world.sleep(100'000);
      }
      world.require(self.callbacks.delivered >= 1, "a message reported as sent has not arrived");
      world.require(self.callbacks.delivered == 2 || self.callbacks.has_failed,
                    "the half-received message never ends");
    });
  };
  return scenario;
}

TEST(Left, DeliversCompleteMessageBeforeBrokenOff) {
  const auto pool = pool_with_endpoints();
  const Scenario scenario = broken_off_behind_full_cells(*pool);
  expect_held("channel", "random schedules", explore(scenario, 60));
  expect_held("channel", "random schedules", explore(with_lasting_copies(scenario), 20));
}

/// Both channels lie in memory that belongs to another when the receiver looks.
Scenario left_after_it_shrank(const SimulatedPool& simulated) {
  Scenario scenario = simulated.scenario("channel, left after it shrank", 3);
  scenario.max_steps = 20'000'000;
  scenario.swarm = false;
  scenario.body = [&simulated](World& world) {
    auto all = std::make_shared<Case>();
    world.spawn(0, [&world, &simulated, all] {
      Side self(world, simulated, 20'000'000'000);
      all->sender = self.endpoint->address();
      world.until([&] { return all->receiver.has_value(); });
      const Peer peer = *self.endpoint->resolve(*all->receiver);
      for (int n = 0; n < 40; ++n) {
        while (!*self.endpoint->try_inject(peer, {1, 2, 0, 3}, nullptr)) {
          self.endpoint->progress();
          world.yield();
        }
      }
      const std::uint64_t until = world.now_ns() + 14'000'000'000;
      for (; world.now_ns() < until; world.sleep(1'000'000))
        for (int call = 0; call < 8; ++call) self.endpoint->progress();
      self.endpoint.reset();
      all->left = true;
    });
    world.spawn(1, [&world, &simulated, all] {
      Side self(world, simulated);
      all->receiver = self.endpoint->address();
      world.until([&] { return all->sender.has_value(); });
      world.require(self.endpoint->resolve(*all->sender).has_value(), "not met");
      const std::uint64_t until = world.now_ns() + 5'000'000'000;
      for (; world.now_ns() < until; world.sleep(1'000'000))
        for (int call = 0; call < 8; ++call) self.endpoint->progress();
      if (world.random() % 2 == 0) wait_until(world, "the next owner", [&] { return all->taken; });
      for (int looks = 0; !self.callbacks.left && !self.callbacks.notified; ++looks) {
        world.require(looks < 40'000, "not told");
        self.endpoint->progress();
        world.sleep(1'000'000);
      }
      world.require(!self.callbacks.notified, "a closed peer was reported dead");
      self.endpoint.reset();
      all->received = true;
    });
    world.spawn(2, [&world, &simulated, all] { take_all_space(world, simulated, *all); });
  };
  return scenario;
}

TEST(Left, ClosesShrunkenChannelLikeAnyOther) {
  const auto pool = narrow_pool();
  const base::EnvironmentItems lines("PENSTOCK_CHANNELS", "first_lines=16");
  const Scenario scenario = left_after_it_shrank(*pool);
  expect_held("channel", "random schedules", explore(scenario, 6));
  expect_held("channel", "random schedules", explore(with_lasting_copies(scenario), 3));
}

}  // namespace
}  // namespace penstock::sim

// Messages that the sender stores into the receiver's buffer in the pool, while either side leaves.
#include <gtest/gtest.h>

#include <mutex>
#include <thread>

#include "base/environment_guard.hpp"
#include "sim/tests/sides.hpp"

namespace penstock::sim {
namespace {

using Addresses = std::array<std::optional<transport::Address>, 2>;

/// Has a region in the pool, and meets the other side.
struct Talker : Side {
  Talker(World& world, const SimulatedPool& simulated, const std::shared_ptr<Addresses>& addresses,
         std::size_t number, std::uint64_t closing_timeout_ns = 0)
      : Side(world, simulated, closing_timeout_ns) {
    region = *arena->create(fmt::format("region {}", number), payload_bytes + 64);
    (*addresses)[number] = endpoint->address();
    world.until([&] { return (*addresses)[1 - number].has_value() || somebody_died(world); });
    if ((*addresses)[1 - number]) peer = endpoint->resolve(*(*addresses)[1 - number]).value_or(0);
  }
  static bool somebody_died(World& world) {
    return world.victim() != nullptr && world.victim()->dead;
  }
  SendOp message() const {
    SendOp op;
    op.header = {1, 2, payload_bytes, 3};
    op.iov[0] = {region.data, payload_bytes};
    op.iov_count = 1;
    return op;
  }
  arena::Object region;
  Peer peer = 0;
};

void progress_until(World& world, Side& side, const std::function<bool()>& holds) {
  for (int looks = 0; !holds(); ++looks) {
    world.require(looks < 200'000, "the message neither arrived nor failed");
    if (progress(side) == 0) world.sleep(looks < 1000 ? 1'000 : 100'000);
  }
}

void progress_for(World& world, Side& side, std::uint64_t polls,
                  const std::function<bool()>& done) {
  for (; polls > 0 && !done(); --polls) {
    progress(side);
    world.yield();
  }
}

/// The bytes of an earlier owner are still there: none of them may be taken for a flag.
void leave_ones(SimulatedPool& simulated) {
  simulated.once([&simulated](World& world) {
    const auto pool = simulated.attach(world);
    const auto arena = SimulatedPool::open_arena(world, *pool);
    std::vector<arena::Object> objects;
    for (std::uint64_t bytes = 1 << 20; bytes >= 4096; bytes /= 2)
      while (const auto made =
                 arena->create(fmt::format("earlier {}", objects.size()), bytes, {.zero = false}))
        objects.push_back(*made);
    world.require(!objects.empty(), "there is no space for old contents");
    for (const arena::Object& object : objects) {
      std::memset(object.data, 0xff, object.bytes);
      pool->memory().write_back(object.data, object.bytes);
      pool->memory().store_fence();
      world.require(arena->destroy(object).has_value(), "not destroyed");
    }
  });
}

/// Several messages from the pool to the pool, each into a buffer with the previous one's contents.
/// Process `victim` may die.
Scenario stream(const SimulatedPool& simulated, int messages, int victim) {
  Scenario scenario = simulated.scenario("channel, stored by the sender", 2);
  scenario.max_steps = 6'000'000;
  scenario.body = [&simulated, messages, victim](World& world) {
    auto addresses = std::make_shared<Addresses>();
    Process& sender = world.spawn(0, [&world, &simulated, addresses, messages] {
      Talker self(world, simulated, addresses, 0);
      std::fill_n(self.region.data, payload_bytes, right);
      for (int i = 0; i < messages && !self.callbacks.notified; ++i) {
        SendOp op = self.message();
        const int sent = self.callbacks.sent;
        const auto complete = self.endpoint->send(self.peer, &op);
        if (!complete && Talker::somebody_died(world)) return;
        world.require(complete.has_value(), "not sent");
        if (*complete) continue;
        progress_until(world, self,
                       [&] { return self.callbacks.sent > sent || self.callbacks.has_failed; });
      }
    });
    Process& receiver = world.spawn(1, [&world, &simulated, addresses, messages] {
      Talker self(world, simulated, addresses, 1);
      self.callbacks.receive_buffer = self.region.data;
      if (!(*addresses)[0]) return;
      progress_until(world, self, [&] {
        return self.callbacks.delivered == messages || self.callbacks.notified;
      });
      world.require(!self.callbacks.notified || Talker::somebody_died(world), "taken for dead");
      self.pool->memory().write_back(self.region.data, self.region.bytes);
      self.pool->memory().store_fence();
    });
    world.mark_victim(victim == 0 ? sender : receiver);
  };
  return scenario;
}

TEST(RendezvousPut, EachMessageIsWholeInTheReceiversBuffer) {
  const auto pool = pool_with_endpoints();
  base::EnvironmentItems::add("PENSTOCK_CHANNELS", "get=1M");  // from the pool, but not read there
  expect_held("channel", "random schedules", explore(stream(*pool, 4, 0), 60));
  expect_held("channel", "random schedules", explore(with_lasting_copies(stream(*pool, 4, 0)), 20));
  expect_held("channel", "crash points", crash_everywhere(stream(*pool, 3, 0), 40));
  expect_held("channel", "crash points", crash_everywhere(stream(*pool, 3, 1), 40));
}

/// The receiver has several threads, which poll one after the other: one prepares the buffer to
/// which it has stored, and another finds the message for it.
Scenario polled_by_turns(const SimulatedPool& simulated, int messages) {
  Scenario scenario = simulated.scenario("channel, polled by turns", 2);
  scenario.max_steps = 6'000'000;
  scenario.body = [&simulated, messages](World& world) {
    auto addresses = std::make_shared<Addresses>();
    world.spawn(0, [&world, &simulated, addresses, messages] {
      Talker self(world, simulated, addresses, 0);
      std::fill_n(self.region.data, payload_bytes, right);
      for (int i = 0; i < messages; ++i) {
        world.sleep(world.random() % 100'000);  // the buffer waits meanwhile
        SendOp op = self.message();
        const int sent = self.callbacks.sent;
        const auto complete = self.endpoint->send(self.peer, &op);
        world.require(complete.has_value(), "not sent");
        if (!*complete) progress_until(world, self, [&] { return self.callbacks.sent > sent; });
      }
    });
    world.spawn(1, [&world, &simulated, addresses, messages] {
      Talker self(world, simulated, addresses, 1);
      self.callbacks.receive_buffer = self.region.data;
      std::mutex endpoint;
      int through = 0;
      const auto poll = [&] {
        for (int looks = 0; self.callbacks.delivered != messages; ++looks) {
          world.require(looks < 400'000, "not arrived");
          {
            const std::lock_guard guard(endpoint);
            progress(self);
          }
          world.sleep(world.random() % 3 != 0 ? 1'000 : 50'000);
        }
        ++through;
      };
      std::thread one(poll), other(poll);
      world.until([&] { return through == 2; });
      one.join();
      other.join();
    });
  };
  return scenario;
}

TEST(RendezvousPut, OneThreadPreparesAnotherReceives) {
  const auto pool = pool_with_endpoints();
  base::EnvironmentItems::add("PENSTOCK_CHANNELS", "get=1M");
  expect_held("channel", "random schedules", explore(polled_by_turns(*pool, 8), 60));
}

/// A process whose endpoint has closed stores to its own buffer, and no other process may.
void use_the_buffer(World& world, const Talker& self) {
  constexpr std::byte own{0x33};
  std::fill_n(self.region.data, payload_bytes, own);
  self.pool->memory().write_back(self.region.data, self.region.bytes);
  self.pool->memory().store_fence();
  for (int looks = 0; looks < 20; ++looks) world.sleep(1'000'000);
  std::vector<std::byte> seen(payload_bytes);
  self.pool->memory().observe_bulk(seen.data(), self.region.data, payload_bytes);
  world.require(std::count(seen.begin(), seen.end(), own) == std::int64_t{payload_bytes},
                "the buffer was stored to after the endpoint was closed");
}

/// One of them closes at some time. A receiver that has closed owns its buffer: nothing more is
/// stored there.
Scenario one_goes(const SimulatedPool& simulated, bool sender_goes) {
  Scenario scenario = simulated.scenario(
      sender_goes ? "channel, storing and gone" : "channel, cleared to send and gone", 2);
  scenario.max_steps = 6'000'000;
  scenario.body = [&simulated, sender_goes](World& world) {
    auto addresses = std::make_shared<Addresses>();
    world.spawn(0, [&world, &simulated, addresses, sender_goes] {
      Talker self(world, simulated, addresses, 0);
      std::fill_n(self.region.data, payload_bytes, right);
      SendOp ops[] = {self.message(), self.message()};
      int complete = 0;
      for (SendOp& op : ops) {
        const auto sent = self.endpoint->send(self.peer, &op);
        if (!sent) return;  // the other has closed already
        complete += *sent ? 1 : 0;
      }
      const auto done = [&] {
        return self.callbacks.sent + complete == 2 || self.callbacks.has_failed ||
               self.callbacks.notified;
      };
      if (!sender_goes) return progress_until(world, self, done);
      progress_for(world, self, world.random() % 800, done);
      self.endpoint.reset();
      std::fill_n(self.region.data, payload_bytes, overwritten);
    });
    world.spawn(1, [&world, &simulated, addresses, sender_goes] {
      Talker self(world, simulated, addresses, 1);
      self.callbacks.receive_buffer = self.region.data;
      const auto done = [&] {
        return self.callbacks.delivered == 2 || self.callbacks.notified || self.callbacks.left;
      };
      if (sender_goes) {
        progress_until(world, self, done);
      } else {
        progress_for(world, self, world.random() % 800, done);
      }
      self.endpoint.reset();
      use_the_buffer(world, self);
    });
  };
  return scenario;
}

/// The receiver's closing deadline ends about when the sender, which was busy, goes on.
Scenario gone_by_deadline(const SimulatedPool& simulated) {
  constexpr std::uint64_t deadline_ns = 20'000'000;
  Scenario scenario = simulated.scenario("channel, cleared to send and gone by deadline", 2);
  scenario.max_steps = 6'000'000;
  scenario.body = [&simulated](World& world) {
    auto addresses = std::make_shared<Addresses>();
    auto closes_ns = std::make_shared<std::uint64_t>(0);
    world.spawn(0, [&world, &simulated, addresses, closes_ns] {
      Talker self(world, simulated, addresses, 0);
      std::fill_n(self.region.data, payload_bytes, right);
      SendOp ops[] = {self.message(), self.message()};
      int complete = 0;
      for (SendOp& op : ops) {
        const auto sent = self.endpoint->send(self.peer, &op);
        if (!sent) return;  // the other has closed already
        complete += *sent ? 1 : 0;
      }
      const auto done = [&] {
        return self.callbacks.sent + complete == 2 || self.callbacks.has_failed ||
               self.callbacks.notified || self.callbacks.left;
      };
      progress_for(world, self, world.random() % 400, done);
      world.until([&] { return *closes_ns != 0; });
      const auto again_ns = *closes_ns + deadline_ns - 100'000 + world.random() % 1'200'000;
      while (world.now_ns() < again_ns) world.sleep(again_ns - world.now_ns());
      progress_until(world, self, done);
    });
    world.spawn(1, [&world, &simulated, addresses, closes_ns] {
      Talker self(world, simulated, addresses, 1, deadline_ns);
      self.callbacks.receive_buffer = self.region.data;
      const auto done = [&] {
        return self.callbacks.delivered == 2 || self.callbacks.notified || self.callbacks.left;
      };
      progress_for(world, self, world.random() % 800, done);
      *closes_ns = world.now_ns();
      self.endpoint.reset();
      use_the_buffer(world, self);
    });
  };
  return scenario;
}

TEST(RendezvousPut, StoresNothingAfterReceiversCloseDeadline) {
  const auto pool = pool_with_endpoints();
  base::EnvironmentItems::add("PENSTOCK_CHANNELS", "get=1M");
  expect_held("channel", "random schedules", explore(gone_by_deadline(*pool), 300));
}

/// Both send and both close in the middle of it: neither waits for a message that the other does
/// not send.
Scenario both_go(const SimulatedPool& simulated) {
  Scenario scenario = simulated.scenario("channel, storing and gone, both", 2);
  scenario.max_steps = 6'000'000;
  scenario.body = [&simulated](World& world) {
    auto addresses = std::make_shared<Addresses>();
    auto ready = std::make_shared<int>(0);
    for (std::size_t i = 0; i < 2; ++i) {
      world.spawn(static_cast<std::uint32_t>(i), [&world, &simulated, addresses, ready, i] {
        Talker self(world, simulated, addresses, i);
        std::vector<std::byte> payload(payload_bytes, right);
        self.callbacks.receive_buffer = self.region.data;
        std::vector<SendOp> ops(8, self.message());
        for (SendOp& op : ops) {
          op.iov[0].iov_base = payload.data();
          if (!self.endpoint->send(self.peer, &op)) return;  // the other has closed already
        }
        for (auto waits = 30 + world.random() % 200; waits > 0; --waits) {
          progress(self);
          world.yield();
        }
        ++*ready;
        world.until([&] { return *ready == 2; });
        const std::uint64_t before = world.now_ns();
        self.endpoint.reset();
        world.require(world.now_ns() - before < 10'000'000'000,
                      "closing waited until its deadline");
      });
    }
  };
  return scenario;
}

TEST(RendezvousPut, ConcurrentClosesDoNotWait) {
  const auto pool = pool_with_endpoints();
  expect_held("channel", "random schedules", explore(both_go(*pool), 240));
  expect_held("channel", "random schedules", explore(with_lasting_copies(both_go(*pool)), 40));
}

TEST(RendezvousPut, StoresNothingAfterReceiverClosed) {
  const auto pool = pool_with_endpoints();
  base::EnvironmentItems::add("PENSTOCK_CHANNELS", "get=1M");
  expect_held("channel", "random schedules", explore(one_goes(*pool, false), 60));
  expect_held("channel", "random schedules", explore(one_goes(*pool, true), 60));
  leave_ones(*pool);
  expect_held("channel", "random schedules", explore(one_goes(*pool, false), 60));
}

TEST(RendezvousPut, WhatAnEarlierUserLeftIsNoFlag) {
  const auto pool = pool_with_endpoints();
  base::EnvironmentItems::add("PENSTOCK_CHANNELS", "get=1M");
  leave_ones(*pool);
  expect_held("channel", "random schedules", explore(stream(*pool, 4, 0), 20));
}

}  // namespace
}  // namespace penstock::sim

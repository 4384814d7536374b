// The lock of 64 senders when one of them has died, was stopped, or its line was overwritten: a
// process that opens channels then waits no longer than it must.
#include <gtest/gtest.h>

#include "sim/tests/endpoint_tables.hpp"
#include "sim/tests/expect_held.hpp"
#include "sim/tests/small_pool.hpp"
#include "sync/lock_line.hpp"
#include "transport/test_tiles.hpp"
#include "transport/tx_memory.hpp"

namespace penstock::sim {
namespace {

using transport::EndpointTable;

/// On two nodes, with the usual speed for each seed.
Scenario timed(const SimulatedPool& pool, const char* name) {
  Scenario scenario = pool.scenario(name, 2);
  scenario.swarm = false;
  scenario.max_steps = 20'000'000;
  return scenario;
}

/// A process with the table, and the lock of the first 64 senders.
struct Sender : TableUser {
  Sender(World& in, const SimulatedPool& pool)
      : TableUser(in, pool, "tiles"), lines(arena->open(transport::table_locks_name)->data) {}

  std::uint32_t claim() { return TableUser::claim().slot; }
  /// The lock as MailboxTiles takes it.
  sync::Lock lock_of(std::uint32_t slot) const {
    sync::Lock lock(attached->memory(), lines, transport::senders_a_tile, slot, attached->token(),
                    [this](std::uint64_t token) { return attached->alive(token); });
    lock.leave_nothing_dirty();
    return lock;
  }
  sync::LockLine line_of(std::uint32_t slot) const {
    sync::LockLine line;
    attached->memory().observe_line(&line, lines + line_bytes * slot);
    return line;
  }

  std::byte* lines;
};

/// With an order of its own; `stage` does not pass through the pool.
struct Stage {
  int at = 0;
  std::uint32_t slot = 0;
};

void die_with_the_lock(World& world, const SimulatedPool& pool, Stage& stage, bool with_another) {
  Sender sender(world, pool);
  stage.slot = sender.claim();
  if (with_another) stage.slot = sender.claim();
  sync::Lock lock = sender.lock_of(stage.slot);
  world.require(lock.acquire().has_value(), "the lock");
  stage.at = 1;
  wait_for_death(world);
}

/// A process that repairs overwritten words waits briefly, but long enough to pass over the dead.
TEST(GroupLock, ABriefWaitPassesOverTheDead) {
  const auto made = pool_with_a_table({.max_processes = 4});
  const SimulatedPool& pool = *made;
  Scenario scenario = timed(pool, "a group's lock, briefly");
  scenario.body = [&pool](World& world) {
    auto stage = std::make_shared<Stage>();
    Process& dead =
        world.spawn(0, [&world, &pool, stage] { die_with_the_lock(world, pool, *stage, false); });
    world.spawn(1, [&world, &pool, &dead, stage] {
      Sender sender(world, pool);
      const std::uint32_t slot = sender.claim();
      wait_until(world, "the lock", [&] { return stage->at == 1; });
      world.kill(dead);
      bool has_word = false;
      for (int i = 0; i < 20 && !has_word; ++i, world.sleep(100'000'000))
        has_word = sender.table.words(1, slot, transport::briefly_ns).has_value();
      world.require(has_word, "a process that waits briefly waits in vain, for ever");
      std::uint64_t longest_ns = 0;
      for (std::uint32_t owner = 2; owner < 12; ++owner) {
        const std::uint64_t begin_ns = world.now_ns();
        world.require(sender.table.words(owner, slot).has_value(), "no word");
        longest_ns = std::max(longest_ns, world.now_ns() - begin_ns);
      }
      const std::string text = fmt::format("a word beside the dead: {} us", longest_ns / 1000);
      fmt::print("{}\n", text);
      world.require(longest_ns < 5'000'000, text);  // a dead check takes 20 ms
    });
  };
  expect_held("endpoints", "random schedules", explore(scenario, 5));
}

/// The new owner of a slot needs nothing of the last owner's line.
TEST(GroupLock, WhoClaimsASlotClearsItsLine) {
  const auto made = pool_with_a_table({.max_processes = 4});
  const SimulatedPool& pool = *made;
  Scenario scenario = pool.scenario("a group's lock, a slot claimed anew", 2);
  scenario.max_steps = 20'000'000;
  scenario.body = [&pool](World& world) {
    auto stage = std::make_shared<Stage>();
    Process& dead =
        world.spawn(0, [&world, &pool, stage] { die_with_the_lock(world, pool, *stage, true); });
    world.spawn(1, [&world, &pool, &dead, stage] {
      Sender sender(world, pool);
      (void)sender.claim();
      wait_until(world, "the lock", [&] { return stage->at == 1; });
      world.kill(dead);
      // first all slots that were never used
      for (int i = 0; i < 400; ++i, world.sleep(10'000'000))
        if (const auto taken = sender.table.claim(1); taken && taken->slot == stage->slot) break;
      const sync::LockLine line = sender.line_of(stage->slot);
      world.require(line.token == sender.attached->token() && line.number == 0 &&
                        line.choosing == 0 && line.checksum == sync::lock_checksum(line),
                    "the dead process's line is still there");
    });
  };
  expect_held("endpoints", "random schedules", explore(scenario, 10));
}

class Silent final : public transport::EndpointCallbacks {
 public:
  transport::ReceiveBuffer on_message(const transport::Message&) override { return {}; }
  void on_sent(transport::SendOp*) override {}
  void on_send_failed(transport::SendOp*, const Error&) override {}
  void on_peer_dead(transport::Peer, const std::string&) override {}
};

/// The line of a living process that asks for nothing: with its token the line has no whole
/// checksum, so no process passes it over.
TEST(GroupLock, AnOverwrittenLineIsMadeAnew) {
  const auto made = pool_with_a_table({.max_processes = 4});
  const SimulatedPool& pool = *made;
  Scenario scenario = timed(pool, "a group's lock, overwritten");
  scenario.body = [&pool](World& world) {
    auto stage = std::make_shared<Stage>();
    world.spawn(0, [&world, &pool, stage] {
      Sender sender(world, pool);
      Silent silent;
      const auto endpoint = transport::Endpoint::open(*sender.arena, silent, {.job = "sim"});
      world.require(endpoint.has_value(), "open");
      stage->slot = (*endpoint)->address().slot;
      world.require(sender.table.words(3, stage->slot).has_value(), "no word");
      stage->at = 1;
      for (; stage->at != 2; world.sleep(1'000'000)) (*endpoint)->progress();
    });
    world.spawn(1, [&world, &pool, stage] {
      Sender sender(world, pool);
      const std::uint32_t slot = sender.claim();
      wait_until(world, "the other", [&] { return stage->at == 1; });
      sender.attached->memory().publish_word(sender.lines + line_bytes * stage->slot + 8, 77);
      sender.attached->memory().full_fence();
      const auto words = sender.table.words(1, slot, 5'000'000'000);
      world.require(words.has_value(), words ? "" : words.error().message);
      stage->at = 2;
    });
  };
  expect_held("endpoints", "random schedules", explore(scenario, 5));
}

/// It queues, is stopped and declared dead, and another gets its slot and the lock: its stores
/// after the wait in vain would take the lock from that one.
TEST(GroupLock, DeclaredDeadWaiterKeepsOffSuccessorsLine) {
  const auto made = pool_with_a_table({.max_processes = 4});
  const SimulatedPool& pool = *made;
  Scenario scenario = pool.scenario("a group's lock, given up in the wait", 3);
  scenario.faults.same_speed = true;
  scenario.max_steps = 40'000'000;
  scenario.body = [&pool](World& world) {
    auto stage = std::make_shared<Stage>();
    Process& late = world.spawn(0, [&world, &pool, stage] {
      Sender sender(world, pool);
      (void)sender.claim();
      stage->slot = sender.claim();
      world.until([&] { return stage->at == 1; });
      stage->at = 2;
      (void)sender.table.words(1, stage->slot, 40'000'000);
      if (stage->at == 2) stage->at = 9;
    });
    late.may_exit = true;
    world.spawn(1, [&world, &pool, stage, &late] {
      Sender sender(world, pool);
      const std::uint32_t slot = sender.claim();
      wait_until(world, "the other's slot", [&] { return stage->slot != 0; });
      sync::Lock held = sender.lock_of(slot);
      world.require(held.acquire().has_value(), "the lock");
      stage->at = 1;
      world.until([&] { return stage->at != 1; });
      world.sleep(world.random() % 10'000'000);
      late.stopped = true;
      if (stage->at == 9) {
        late.stopped = false;
        held.release();
        return;
      }
      std::uint32_t taken = 0;
      for (int i = 0; i < 1000 && taken != stage->slot; ++i, world.sleep(10'000'000)) {
        const auto line = sender.table.read(stage->slot);
        if (line && sender.attached->alive(line->token)) continue;
        taken = sender.claim();
      }
      world.require(taken == stage->slot, "the late process's slot was not taken");
      held.release();
      sync::Lock next = sender.lock_of(taken);
      world.require(next.acquire().has_value(), "the lock");
      const sync::LockLine mine = sender.line_of(taken);
      stage->at = 3;
      late.stopped = false;
      wait_until(world, "it to end", [&] { return gone(late); });
      const sync::LockLine now = sender.line_of(taken);
      world.require(std::memcmp(&mine, &now, sizeof now) == 0,
                    "it stored to the next owner's line");
      next.release();
    });
  };
  expect_held("endpoints", "random schedules", explore(scenario, 60));
}

/// Also if it is another endpoint of the same process, with its own thread.
TEST(GroupLock, AWaitInVainSaysForWhom) {
  const auto made = pool_with_a_table({.max_processes = 4});
  const SimulatedPool& pool = *made;
  Scenario scenario = pool.scenario("a group's lock, in vain", 1);
  scenario.swarm = false;
  scenario.body = [&pool](World& world) {
    world.spawn(0, [&world, &pool] {
      Sender sender(world, pool);
      const std::uint32_t first = sender.claim(), second = sender.claim();
      sync::Lock held = sender.lock_of(second);
      world.require(held.acquire().has_value(), "the lock");
      const auto refused = sender.table.words(1, first, 50'000'000);
      world.require(
          !refused && refused.error().message.find("endpoint of this process") != std::string::npos,
          refused ? "the lock is not held by the other" : refused.error().message);
      held.release();
      world.require(sender.table.words(1, first).has_value(), "no word");
    });
  };
  expect_held("endpoints", "counted", explore(scenario, 1));
}

}  // namespace
}  // namespace penstock::sim

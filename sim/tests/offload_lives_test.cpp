// Communicators of a switch, from the ask to the next owner of their memory, on memory without
// coherence: switches and ranks are killed at any operation, followed by others, and stopped for
// longer than a lease.
#include <gtest/gtest.h>

#include <memory>
#include <vector>

#include "offload/registration.hpp"
#include "sim/tests/expect_held.hpp"
#include "sim/tests/lasting_copies.hpp"
#include "sim/tests/offload_user.hpp"
#include "sim/tests/stops.hpp"

namespace penstock::sim {
namespace {

struct Life {
  bool over = false;
  const Process* serving = nullptr;  ///< the switch that holds the claim
  std::uint32_t communicators = 0;   ///< made so far
  std::uint32_t served = 0;          ///< of those of the last rank
};

/// Plays the switch whenever no other does, for a while each time.
void play(World& world, const SmallPool& pool, const std::shared_ptr<Life>& life) {
  while (!life->over) {
    const auto server = open_server(world, pool);
    if (!server) {
      world.require(server.error().code == ErrorCode::already_exists, server.error().message);
      world.sleep(world.random() % 20'000'000);
      continue;
    }
    const Process* const before = life->serving;
    // A process that was declared dead while it took the claim learns that at its next look.
    world.require(before == nullptr || gone(*before) || before->may_exit || world.self().may_exit,
                  "two switches serve");
    life->serving = &world.self();
    const std::uint64_t until = world.now_ns() + world.random() % pool.lease_ns(world);
    while (!life->over && (world.now_ns() < until || (*server)->communicators() != 0))
      if (!(*server)->poll()) world.sleep(1 + world.random() % 200'000);
    if (life->serving == &world.self()) life->serving = nullptr;
    (void)(*server)->close();
  }
}

/// Chunks that the switch may compute while they are awaited, or later.
void use(SpaceUser& user, const Region& region) {
  const auto& memory = user.pool->memory();
  std::byte* const base = user.pool->base();
  const auto member = offload::observe_member(*user.pool, region, region.switch_line(0));
  user.world.require(member.has_value(), "the region is served, but no switch is named");
  offload::publish_member(*user.pool, region, region.member_line(0), {.token = user.pool->token()});
  const std::uint64_t sent = 1 + user.world.random() % region.shape().window;
  const std::uint64_t awaited = user.world.random() % (sent + 1);
  for (std::uint64_t index = 0; index < sent; ++index) send_operand(user, region, index);
  for (std::uint64_t index = 0; index < awaited; ++index) {
    offload::Packet packet;
    const auto has_arrived = [&] {
      memory.observe_line(&packet, base + region.completion(0, index));
      return offload::has_arrived(packet, region.completion_place(0, index));
    };
    wait_until(user.world, "an answer",
               [&] { return has_arrived() || !user.pool->alive(member->token); });
    if (!has_arrived()) return;  // it died
    const auto read = offload::read_completion(packet, region.completion_place(0, index));
    user.world.require(read && read->status == offload::Status::ok, "no right answer");
    user.world.require(memory.observe_word(base + region.result(0, index)) == index + 1,
                       "another result");
  }
}

/// Makes communicators until `wanted` were served.
void make_communicators(World& world, const SmallPool& pool, Life& life, std::uint32_t wanted) {
  SpaceUser user(world, pool, fmt::format("job{}", world.self().number), 0);
  std::uint32_t served = 0;
  while (served < wanted) {
    world.sleep(world.random() % 5'000'000);
    const auto found = offload::serving(*user.arena);
    world.require(found.has_value(), found ? "" : found.error().message);
    if (!*found) continue;
    const Shape shape{.ranks = 1,
                      .slot_bytes = 256,
                      .communicator = ++life.communicators,
                      .owner = user.pool->token()};
    const auto object = make_room(user, fmt::format("region{}", world.self().number), shape);
    if (!object) continue;
    const Region region(object->offset, shape);
    offload::describe(*user.pool, region);
    const auto asked = offload::Registration::ask(**found, region);
    world.require(asked.has_value(), asked ? "" : asked.error().message);
    if ((*asked)->served()) {
      ++served;
      use(user, region);
    }
    wait_until(world, "the switch to let go", [&] { return (*asked)->is_withdrawn(); });
    (void)user.arena->destroy(*object);
  }
}

/// Space of a former region belongs to another process, and keeps that one's contents.
void use_space(World& world, const SmallPool& pool, const Life& life) {
  SpaceUser worker(world, pool, "stranger");
  while (!life.over) {
    const auto most = static_cast<int>(1 + world.random() % 16);
    const auto made = fill_and_publish(world, worker, most);
    world.sleep(world.random() % 40'000'000);
    check(world, worker, made);
    for (const Object& object : made) (void)worker.arena->destroy(object);
    world.sleep(world.random() % 10'000'000);
  }
}

/// Each node has a process that flushes for it, also a node that was lost and came back.
void keep_nodes(World& world, const SmallPool& pool, const std::shared_ptr<Life>& life) {
  std::vector<const Process*> keepers(nodes);
  while (!life->over) {
    for (std::uint32_t node = 0; node < nodes; ++node) {
      if (keepers[node] != nullptr && !gone(*keepers[node])) continue;
      keepers[node] = &world.spawn(node, [&world, &pool, life] {
        const SpaceUser keeps(world, pool);
        wait_until(world, "the others", [&] { return life->over; });
      });
    }
    world.sleep(50'000'000);
  }
}

enum class Victim : std::uint8_t { none, rank, the_switch };

/// Two ranks one after the other on node 0, switches on nodes 1 and 2, a foreign process on node 3.
Scenario lives(const SmallPool& pool, Victim victim) {
  constexpr const char* names[] = {"nobody", "a rank", "a switch"};
  Scenario scenario = pool.scenario(
      fmt::format("communicators of a switch, {} dies", names[static_cast<int>(victim)]),
      nodes + 1);
  scenario.max_steps = 8'000'000;
  scenario.body = [&pool, victim](World& world) {
    auto life = std::make_shared<Life>();
    Process& rank =
        world.spawn(0, [&world, &pool, life] { make_communicators(world, pool, *life, 3); });
    Process& one = world.spawn(1, [&world, &pool, life] { play(world, pool, life); });
    world.spawn(2, [&world, &pool, life] { play(world, pool, life); });
    world.spawn(3, [&world, &pool, life] { use_space(world, pool, *life); });
    world.spawn(3, [&world, &pool, life, &rank] {
      wait_until(world, "the rank before", [&] { return gone(rank); });
      world.spawn(0, [&world, &pool, life] {
        make_communicators(world, pool, *life, 3);
        life->over = true;
      });
    });
    world.spawn(3, [&world, &pool, life] { keep_nodes(world, pool, life); });
    if (victim == Victim::rank) world.mark_victim(rank);
    if (victim == Victim::the_switch) world.mark_victim(one);
  };
  scenario.after = [&pool](World& world) {
    {
      const SpaceUser user(world, pool);
      const auto directory = Directory::find(*user.arena);
      world.require(directory && *directory, "there is no directory");
      (void)user.arena->destroy((*directory)->object());
    }
    require_all_back(world, pool, nodes + 1);
  };
  return scenario;
}

TEST(Offload, ReusesMemoryAfterSwitchReleases) {
  const SmallPool pool;
  const Scenario scenario = lives(pool, Victim::none);
  expect_held("switch", "random schedules", explore(scenario, 20));
  expect_held("switch", "random schedules", explore(with_lasting_copies(scenario), 10));
}

TEST(Offload, ASwitchThatDiesIsFollowedByAnother) {
  const SmallPool pool;
  expect_held("switch", "crash points", crash_everywhere(lives(pool, Victim::the_switch), 30));
}

TEST(Offload, ReusesDeadRanksMemoryAfterSwitchReleases) {
  const SmallPool pool;
  expect_held("switch", "crash points", crash_everywhere(lives(pool, Victim::rank), 40));
}

/// It was declared dead: another has its claim, and others have the memory of what it served.
TEST(Offload, SwitchResumedAfterLeaseHarmsNothing) {
  const SmallPool pool;
  Scenario scenario = lives(pool, Victim::none);
  scenario.name = "communicators of a switch that is stopped";
  scenario.body = [&pool, body = scenario.body](World& world) {
    body(world);
    constexpr std::size_t of_the_switch = 1;
    Process& one = *world.processes()[of_the_switch];
    one.may_exit = true;
    stop_at(one, 200 + world.random() % 6000);
    world.spawn(3, [&world, &pool, &one] {
      wait_until(world, "the stop", [&] { return one.stopped || gone(one); });
      world.sleep(2 * pool.lease_ns(world));
      one.stopped = false;
    });
  };
  expect_held("switch", "random schedules", explore(scenario, 20));
}

}  // namespace
}  // namespace penstock::sim

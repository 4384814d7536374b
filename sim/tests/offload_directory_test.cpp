// Where switches and communicators find each other, on memory without coherence: claims of switches
// on other nodes, asks, answers, what is taken back, and the memory of regions, which is others'
// afterwards. Switches and ranks are killed at any operation, and stopped for longer than a lease.
#include <gtest/gtest.h>

#include <functional>
#include <memory>
#include <vector>

#include "accelerator/server.hpp"
#include "coll/datatype.hpp"
#include "offload/registration.hpp"
#include "sim/tests/expect_held.hpp"
#include "sim/tests/lasting_copies.hpp"
#include "sim/tests/small_pool.hpp"

namespace penstock::sim {
namespace {

using accelerator::Server;
using offload::Directory;
using offload::Region;
using offload::Shape;

/// As src/coll makes it: what an earlier owner had there stands until it is described.
std::optional<Object> make_room(SpaceUser& user, const std::string& name, const Shape& shape) {
  const auto made = user.arena->create(name, Region(0, shape).bytes(),
                                       {.lifetime = Lifetime::process, .zero = false});
  user.world.require(made || made.error().code == ErrorCode::no_space,
                     made ? "" : made.error().message);
  return made ? std::optional(*made) : std::nullopt;
}

// ---- in turn -----------------------------------------------------------------------------------

/// A process that does one thing after the other, as it is told by means that leave no trace in the
/// pool: what one has brought to the device the next must find.
class Puppet {
 public:
  using Task = std::function<void(SpaceUser&)>;
  Puppet(World& world, const SmallPool& pool, std::uint32_t node)
      : world_(world), state_(std::make_shared<State>()) {
    process_ = &world.spawn(node, [&world, &pool, state = state_] {
      SpaceUser user(world, pool, "sim");
      while (!state->ended) {
        wait_until(world, "a task", [&] { return state->task || state->ended; });
        if (state->task) state->task(user);
        state->task = nullptr;
      }
    });
  }
  void starts(Task task) { state_->task = std::move(task); }
  void does(Task task) {
    starts(std::move(task));
    await();
  }
  void await() {
    wait_until(world_, "a puppet", [this] { return !state_->task; });
  }
  void end() { state_->ended = true; }
  Process& process() const { return *process_; }

 private:
  struct State {
    Task task;
    bool ended = false;
  };
  World& world_;
  Process* process_ = nullptr;
  std::shared_ptr<State> state_;
};

/// On nodes 0, 1 and 2, led from node 3. Each has copies of what stood in the room before: words of
/// other objects.
Scenario in_turn(const SmallPool& pool, const std::string& name,
                 std::function<void(World&, Puppet&, Puppet&, Puppet&)> play) {
  Scenario scenario = pool.scenario(name, nodes + 1);
  scenario.body = [&pool, play = std::move(play)](World& world) {
    auto rank = std::make_shared<Puppet>(world, pool, 0);
    auto one = std::make_shared<Puppet>(world, pool, 1);
    auto other = std::make_shared<Puppet>(world, pool, 2);
    world.spawn(nodes, [&world, play, rank, one, other] {
      auto before = std::make_shared<std::vector<Object>>();
      rank->does([&world, before](SpaceUser& user) { *before = fill_and_publish(world, user); });
      for (const auto& puppet : {one, other})
        puppet->does([before](SpaceUser& user) {
          for (const Object& object : *before) user.require_whole(object, "before");
        });
      rank->does([before](SpaceUser& user) {
        for (const Object& object : *before) (void)user.arena->destroy(object);
      });
      play(world, *rank, *one, *other);
      for (const auto& puppet : {rank, one, other}) puppet->end();
    });
  };
  return scenario;
}

/// Who serves, as a rank finds it: 0 for nobody.
std::uint64_t served_by(SpaceUser& user) {
  const auto found = offload::serving(*user.arena);
  user.world.require(found.has_value(), found ? "" : found.error().message);
  return *found ? (*found)->tokens.front() : 0;
}

void take_turns_at_the_claim(World& world, Puppet& rank, Puppet& one, Puppet& other) {
  for (int round = 0; round < 4; ++round) {
    Puppet& takes = round % 2 == 0 ? one : other;
    Puppet& comes_late = round % 2 == 0 ? other : one;
    std::uint64_t token = 0;
    rank.does([&](SpaceUser& user) {
      world.require(served_by(user) == 0, "a switch that has ended serves");
    });
    takes.does([&](SpaceUser& user) {
      const auto directory = Directory::find_or_make(*user.arena);
      world.require(directory.has_value(), directory ? "" : directory.error().message);
      const auto taken = offload::take_claim(*directory, {});
      world.require(taken.has_value(), taken ? "" : taken.error().message);
      token = user.pool->token();
    });
    rank.does([&](SpaceUser& user) {
      world.require(served_by(user) == token, "the switch that has the claim is not found");
    });
    comes_late.does([&](SpaceUser& user) {
      const auto taken = offload::take_claim(**Directory::find(*user.arena), {});
      world.require(!taken && taken.error().code == ErrorCode::already_exists,
                    "two have the claim");
    });
    takes.does([&](SpaceUser& user) {
      (void)offload::give_claim_back(**Directory::find(*user.arena), {});
    });
  }
}

TEST(Directory, AClaimIsSeenByAllAsSoonAsItIsTaken) {
  const SmallPool pool;
  const Scenario scenario = in_turn(pool, "claims in turn", take_turns_at_the_claim);
  expect_held("switch", "random schedules", explore(scenario, 10));
  expect_held("switch", "random schedules", explore(with_lasting_copies(scenario), 5));
}

/// In space that is used again, by regions of other numbers.
void find_what_is_described(World& world, Puppet& rank, Puppet& one, Puppet&) {
  for (std::uint32_t round = 0; round < 6; ++round) {
    Object object;
    Shape shape{.ranks = 1, .slot_bytes = 256, .communicator = round + 1};
    std::uint64_t token = 0;
    const auto region = [&] { return Region(object.offset, shape); };
    rank.does([&](SpaceUser& user) {
      shape.owner = user.pool->token();
      object = *make_room(user, "region", shape);
      offload::describe(*user.pool, region());
    });
    one.does([&](SpaceUser& user) {
      const auto found = offload::find_region(*user.pool, object.offset);
      world.require(found && found->shape() == shape, "another region is found");
      world.require(!offload::observe_member(*user.pool, *found, found->member_line(0)),
                    "a rank of an earlier region is found");
      token = user.pool->token();
      offload::publish_member(*user.pool, *found, found->switch_line(0), {.token = token});
      user.pool->memory().full_fence();
    });
    rank.does([&](SpaceUser& user) {
      const auto member = offload::observe_member(*user.pool, region(), region().switch_line(0));
      world.require(member && member->token == token, "what the switch has said is not found");
      (void)user.arena->destroy(object);
    });
  }
}

TEST(Directory, WhatOneSaysOfItselfTheOtherFinds) {
  const SmallPool pool;
  const Scenario scenario = in_turn(pool, "regions in turn", find_what_is_described);
  expect_held("switch", "random schedules", explore(scenario, 10));
  expect_held("switch", "random schedules", explore(with_lasting_copies(scenario), 5));
}

Result<std::unique_ptr<Server>> open_server(World& world, const SmallPool& pool) {
  return Server::open({.attach = [&world, &pool](const pool::AttachOptions& options) {
    return Result<std::unique_ptr<pool::Pool>>(pool.attach(world, options));
  }});
}

/// A switch dies while a rank that has asked it is stopped; the next one, of its host, serves the
/// rank. The rank waits for that one to let go.
void ask_the_next_one(World& world, const SmallPool& pool, Puppet& rank, Puppet& one) {
  Puppet next(world, pool, 1);
  Server* second = nullptr;
  std::shared_ptr<offload::Registration> asked;
  bool asks = false;
  one.does([&](SpaceUser&) { (void)open_server(world, pool)->release(); });
  rank.starts([&](SpaceUser& user) {
    const auto found = **offload::serving(*user.arena);
    const Shape shape{
        .ranks = 1, .slot_bytes = 256, .communicator = 1, .owner = user.pool->token()};
    const Region region(make_room(user, "region", shape)->offset, shape);
    offload::describe(*user.pool, region);
    asks = true;
    asked = *offload::Registration::ask(found, region);
  });
  wait_until(world, "an ask", [&] { return asks; });
  world.sleep(10'000'000);
  rank.process().stopped = true;
  world.kill(one.process());
  next.does([&](SpaceUser&) {
    auto opened = open_server(world, pool);
    world.require(opened.has_value(), opened ? "" : opened.error().message);
    second = opened->release();
    while (second->communicators() == 0)
      if (!second->poll()) world.sleep(100'000);
    second->pool().memory().full_fence();
  });
  rank.process().stopped = false;
  wait_until(world, "an answer", [&] { return asked != nullptr; });
  rank.does([&](SpaceUser&) {
    world.require(!asked->is_withdrawn(), "it is served, and counts as let go of");
  });
  next.does([&](SpaceUser&) {
    while (second->communicators() != 0)
      if (!second->poll()) world.sleep(100'000);
    second->pool().memory().full_fence();
  });
  rank.does([&](SpaceUser&) {
    world.require(asked->is_withdrawn(), "what was let go of counts as served");
    asked = nullptr;
  });
  next.does([&](SpaceUser&) { delete second; });
  next.end();
}

TEST(Directory, WhoIsServedByASuccessorWaitsForThatOne) {
  const SmallPool pool;
  const Scenario scenario = in_turn(pool, "asks of the next switch",
                                    [&pool](World& world, Puppet& rank, Puppet& one, Puppet&) {
                                      ask_the_next_one(world, pool, rank, one);
                                    });
  expect_held("switch", "random schedules", explore(scenario, 10));
  expect_held("switch", "random schedules", explore(with_lasting_copies(scenario), 12));
}

void let_look(World& world, Server& server) {
  for (int looks = 0; looks < 4; ++looks) {
    server.poll();
    world.yield();
  }
}

/// What a switch was asked that has died is no concern of the next one, which has looked at that
/// line before: the ranks go on without a switch.
void follow_one_that_served(World& world, const SmallPool& pool, Puppet& rank, Puppet& one,
                            Puppet& other) {
  Server* server = nullptr;
  std::shared_ptr<offload::Registration> asked;
  const auto serve = [&](SpaceUser&) {
    server = open_server(world, pool)->release();
    let_look(world, *server);
    world.require(server->communicators() == 0, "the next switch serves what another did");
  };
  other.does(serve);
  other.does([&](SpaceUser&) { delete server; });
  one.does(serve);
  rank.starts([&](SpaceUser& user) {
    const Shape shape{
        .ranks = 1, .slot_bytes = 256, .communicator = 1, .owner = user.pool->token()};
    const Region region(make_room(user, "region", shape)->offset, shape);
    offload::describe(*user.pool, region);
    asked = *offload::Registration::ask(**offload::serving(*user.arena), region);
    world.require(asked->served(), asked->why());
  });
  one.does([&](SpaceUser& user) {
    while (asked == nullptr)
      if (!server->poll()) world.sleep(100'000);
    user.pool->memory().full_fence();
  });
  world.kill(one.process());
  other.does(serve);
  other.does([&](SpaceUser&) { delete server; });
}

TEST(Directory, WhatAnEarlierSwitchServedIsNotServedByTheNext) {
  const SmallPool pool;
  const Scenario scenario =
      in_turn(pool, "asks of a dead switch",
              [&pool](World& world, Puppet& rank, Puppet& one, Puppet& other) {
                follow_one_that_served(world, pool, rank, one, other);
              });
  expect_held("switch", "random schedules", explore(scenario, 10));
  expect_held("switch", "random schedules", explore(with_lasting_copies(scenario), 5));
}

/// A process whose place in the table was another's asks for the same region: what that one was
/// answered is no answer to it, though its node has looked at the asks before.
void ask_in_anothers_place(World& world, const SmallPool& pool, Puppet& rank, Puppet& one,
                           Puppet& other) {
  Server* server = nullptr;
  Puppet first(world, pool, 0);
  std::uint32_t slot = 0;
  Shape shape{.ranks = 1, .slot_bytes = 256, .communicator = 1};
  Object room;
  int answered = 0;
  one.does([&](SpaceUser&) { server = open_server(world, pool)->release(); });
  rank.does([&](SpaceUser& user) { room = *make_room(user, "region", shape); });
  first.does([&](SpaceUser& user) { slot = user.pool->slot(); });
  other.does([&](SpaceUser& user) {
    const auto directory = **Directory::find(*user.arena);
    (void)user.pool->memory().observe_word(user.pool->base() + directory.ask_line(slot));
  });
  const auto ask = [&](Arena& arena) {
    const auto asked =
        *offload::Registration::ask(**offload::serving(arena), Region(room.offset, shape));
    ++answered;
    return asked->served();
  };
  const auto serve_until = [&](int wanted) {
    one.does([&world, &answered, server, wanted](SpaceUser& user) {
      while (answered < wanted)
        if (!server->poll()) world.sleep(100'000);
      user.pool->memory().full_fence();
    });
  };
  first.starts([&](SpaceUser& user) {
    world.require(!ask(*user.arena), "a region that is not described is served");
  });
  serve_until(1);
  first.end();
  wait_until(world, "a free place", [&] { return gone(first.process()); });
  other.starts([&](SpaceUser&) {
    std::vector<std::unique_ptr<pool::Pool>> places;
    while (places.empty() || places.back()->slot() != slot)
      places.push_back(pool.attach(world, {.job = "sim"}));
    places.erase(places.begin(), places.end() - 1);
    shape.owner = places.back()->token();
    offload::describe(*places.back(), Region(room.offset, shape));
    const auto arena = SmallPool::open_arena(world, *places.back());
    world.require(ask(*arena), "another's answer is taken");
  });
  serve_until(2);
  one.does([&](SpaceUser&) { delete server; });
}

TEST(Directory, WhatAnotherWasAnsweredIsNoAnswer) {
  const SmallPool pool;
  const Scenario scenario =
      in_turn(pool, "asks in another's place",
              [&pool](World& world, Puppet& rank, Puppet& one, Puppet& other) {
                ask_in_anothers_place(world, pool, rank, one, other);
              });
  expect_held("switch", "random schedules", explore(scenario, 10));
  expect_held("switch", "random schedules", explore(with_lasting_copies(scenario), 5));
}

/// A rank takes an ask of a dead switch back while the next one takes the claim: that one finds
/// that it was taken back, or the rank finds that it must wait.
void withdraw_while_one_claims(World& world, Puppet& rank, Puppet& one, Puppet& other) {
  std::uint64_t dead = 0, found = 0;
  bool withdrawn = false;
  int ready = 0;
  const auto begin = [&world, &ready] {
    for (++ready; ready != 2;) world.yield();
    for (std::uint64_t late = world.random() % 30; late != 0; --late) world.yield();
  };
  std::uint32_t slot = 0;
  std::shared_ptr<offload::Registration> asked;
  one.does([&](SpaceUser& user) {
    dead = user.pool->token();
    (void)Directory::find_or_make(*user.arena);
  });
  world.kill(one.process());
  rank.does([&](SpaceUser& user) {
    const auto directory = **Directory::find(*user.arena);
    wait_until(world, "a death", [&] { return !user.pool->alive(dead); });
    const Shape shape{.ranks = 1, .slot_bytes = 256, .communicator = 1};
    slot = user.pool->slot();
    asked = *offload::Registration::ask({directory, {dead}}, Region(64 << 10, shape));
    user.pool->memory().full_fence();
  });
  other.starts([&](SpaceUser& user) {
    const auto directory = **Directory::find(*user.arena);
    begin();
    (void)offload::take_claim(directory, {});
    found = user.pool->memory().observe_word(user.pool->base() + directory.ask_line(slot));
  });
  rank.does([&](SpaceUser&) {
    begin();
    withdrawn = asked->is_withdrawn();
  });
  other.await();
  world.require(!withdrawn || offload::Ask{found}.region() == 0, "what was taken back is found");
}

TEST(Directory, WhatIsTakenBackIsServedByNobody) {
  const SmallPool pool;
  Scenario scenario = in_turn(pool, "asks taken back", withdraw_while_one_claims);
  scenario.swarm = false;
  scenario.faults.deliver = 0;  // what no fence sends stays for long
  expect_held("switch", "random schedules", explore(scenario, 100));
}

// ---- from the ask to the next owner ------------------------------------------------------------

struct Life {
  bool over = false;
  const Process* serving = nullptr;  ///< the switch that has the claim
  std::uint32_t communicators = 0;   ///< ever
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
    // One that was taken for dead as it took the claim finds that out at its next look.
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
  user.world.require(member.has_value(), "it is served, and nobody says who serves");
  offload::publish_member(*user.pool, region, region.member_line(0), {.token = user.pool->token()});
  const std::uint64_t sent = 1 + user.world.random() % region.shape().window;
  const std::uint64_t awaited = user.world.random() % (sent + 1);
  for (std::uint64_t index = 0; index < sent; ++index) {
    const std::vector<std::uint64_t> values(8, index + 1);
    memory.publish_bulk(base + region.source(0, index), values.data(), 64);
    memory.store_fence();
    const offload::Packet packet = offload::seal(
        offload::Command{.operation = offload::Operation::all_reduce,
                         .datatype = static_cast<std::uint8_t>(coll::Datatype::uint64),
                         .communicator = region.shape().communicator,
                         .sequence = static_cast<std::uint32_t>(index),
                         .ranks = 1,
                         .source = region.source(0, index),
                         .elements = 8},
        region.submission_place(0, index));
    memory.publish_line(base + region.submission(0, index), &packet);
    memory.store_fence();
  }
  for (std::uint64_t index = 0; index < awaited; ++index) {
    offload::Packet packet;
    const auto has_come = [&] {
      memory.observe_line(&packet, base + region.completion(0, index));
      return offload::has_come(packet, region.completion_place(0, index));
    };
    wait_until(user.world, "an answer",
               [&] { return has_come() || !user.pool->alive(member->token); });
    if (!has_come()) return;  // it died
    const auto read = offload::read_completion(packet, region.completion_place(0, index));
    user.world.require(read && read->status == offload::Status::ok, "no right answer");
    user.world.require(memory.observe_word(base + region.result(0, index)) == index + 1,
                       "another result");
  }
}

/// Makes communicators until so many were served.
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

/// Space that was a region's is another's, and keeps what that one puts there.
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

/// Each node has a process that flushes for it, also one that was lost and came back.
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

/// Two ranks one after the other on node 0, switches on nodes 1 and 2, a stranger on node 3.
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

TEST(Directory, MemoryOfACommunicatorIsAnothersWhenTheSwitchHasLetGo) {
  const SmallPool pool;
  const Scenario scenario = lives(pool, Victim::none);
  expect_held("switch", "random schedules", explore(scenario, 20));
  expect_held("switch", "random schedules", explore(with_lasting_copies(scenario), 10));
}

TEST(Directory, ASwitchThatDiesIsFollowedByAnother) {
  const SmallPool pool;
  expect_held("switch", "crash points", crash_everywhere(lives(pool, Victim::the_switch), 30));
}

TEST(Directory, MemoryOfADeadRankIsAnothersWhenTheSwitchHasLetGo) {
  const SmallPool pool;
  expect_held("switch", "crash points", crash_everywhere(lives(pool, Victim::rank), 40));
}

/// It was taken for dead: another has its claim, and others the memory of what it served.
TEST(Directory, ASwitchThatGoesOnAfterALeaseHarmsNothing) {
  const SmallPool pool;
  Scenario scenario = lives(pool, Victim::none);
  scenario.name = "communicators of a switch that is stopped";
  scenario.body = [&pool, body = scenario.body](World& world) {
    body(world);
    constexpr std::size_t of_the_switch = 1;
    Process& one = *world.processes()[of_the_switch];
    one.may_exit = true;
    one.stops_at = 200 + world.random() % 6000;
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

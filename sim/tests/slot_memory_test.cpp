// Long messages of NCCL's GPUs pass through slots of the pool (plugins/nccl/slot_memory.hpp). The
// receiver gets each chunk as it was sent or learns that it may not; and when a rank has left, has
// died or was stopped for an hour, the next owner of its memory finds only its own bytes there.
// Notes are words of the pool, which nothing but the calls themselves puts behind the chunks.
#include <gtest/gtest.h>

#include <cstring>
#include <memory>

#include "capi/attachment.hpp"
#include "nccl/slot_memory.hpp"
#include "sim/tests/expect_held.hpp"
#include "sim/tests/hour.hpp"
#include "sim/tests/lasting_copies.hpp"
#include "sim/tests/late_stores.hpp"
#include "sim/tests/small_pool.hpp"
#include "sim/tests/stops.hpp"

using penstock::nccl::SlotMemory;
using penstock::nccl::SlotRing;

// Of src/capi/pool_calls.cpp.
extern "C" int penstock_pool_alive(const penstock_pool_t* pool, uint64_t token, char*, size_t) {
  return pool->attachment->pool->alive(token) ? 1 : 0;
}

namespace penstock::sim {
namespace {

constexpr std::uint64_t key = 0x5eed, slot_bytes = 192, chunk_bytes = 150, chunks = 14;
constexpr std::uint64_t note_at = 2 * 64;  ///< in the memory of its writer
constexpr std::uint32_t sender_node = 0, user_node = 1, receiver_node = 2;

/// The steps of the ranks, as channels of plugins/nccl take them. A test leaves out each in turn.
struct Steps {
  bool publish = true, observe = true, look_for_failure = true, write_back = true;
  bool give_up_first = true;  ///< before the streams run on
};

/// Facts outside the pool: those that ranks exchange when they meet, and those of the test.
struct Facts {
  std::uint64_t sender_at = 0, receiver_at = 0;  ///< offsets of their memory; 0: not made yet
  std::uint64_t sender_token = 0, receiver_token = 0;
  std::uint64_t gives_up_at = chunks;  ///< chunk at which the sender gives up; `chunks`: never
  Steps steps;
  Process *sender = nullptr, *receiver = nullptr;
  std::shared_ptr<Hour> hour;  ///< of one that is stopped, if any
  bool is_over = false;        ///< the next owner has seen enough
};

class Rank {
 public:
  Rank(World& world, const SimulatedPool& simulated, Facts& facts)
      : world_(world), facts_(facts), handle_{std::make_shared<capi::Attachment>()} {
    attachment().pool = simulated.attach(world, {.job = "job"});
    attachment().arena = SimulatedPool::open_arena(world, *attachment().pool);
  }

  void send() {
    const auto object = make("sender", SlotMemory::bytes(1, slot_bytes));
    SlotMemory mine(&handle_, object.data, key);
    begin(mine, object, facts_.sender_at, facts_.sender_token);
    wait([&] { return facts_.receiver_at != 0 || gone(*facts_.receiver); });
    const SlotMemory theirs(&handle_, pool().base() + facts_.receiver_at, key);
    const SlotRing ring = ring_of(mine);
    succeed(ring.drop_copies());
    for (std::uint64_t chunk = 0; chunk < chunks; ++chunk) {
      if (chunk == facts_.gives_up_at) {
        give_up(mine, ring);
        break;
      }
      wait([&] {
        return chunk < note(facts_.receiver_at) + SlotRing::slots ||
               is_lost(theirs, facts_.receiver_token);
      });
      if (is_lost(theirs, facts_.receiver_token)) break;
      std::memset(ring.slot(chunk), value_of(chunk), chunk_bytes);
      if (facts_.steps.publish) succeed(ring.publish(chunk, chunk_bytes));
      send_note(object, chunk + 1);
    }
    if (facts_.steps.write_back) mine.write_back(object.bytes);
    leave(mine, object, theirs, facts_.receiver_token);
  }

  void receive() {
    const auto object = make("receiver", SlotMemory::bytes(0, 0));
    SlotMemory mine(&handle_, object.data, key);
    begin(mine, object, facts_.receiver_at, facts_.receiver_token);
    wait([&] { return facts_.sender_at != 0 || gone(*facts_.sender); });
    const SlotMemory theirs(&handle_, pool().base() + facts_.sender_at, key);
    const SlotRing ring = ring_of(theirs);
    for (std::uint64_t chunk = 0; chunk < chunks; ++chunk) {
      wait([&] { return note(facts_.sender_at) > chunk || is_lost(theirs, facts_.sender_token); });
      if (note(facts_.sender_at) <= chunk) break;
      std::array<unsigned char, chunk_bytes> found;
      if (facts_.steps.observe) succeed(ring.observe(chunk, chunk_bytes));
      std::memcpy(found.data(), ring.slot(chunk), chunk_bytes);
      if (facts_.steps.look_for_failure && ring.has_failed()) break;
      for (const unsigned char byte : found)
        world_.require(
            byte == value_of(chunk),
            fmt::format("chunk {} has a byte {:#x}, and no failure is told", chunk, byte));
      send_note(object, chunk + 1);
    }
    if (note(object.offset) < chunks) mine.give_up();
    leave(mine, object, theirs, facts_.sender_token);
  }

 private:
  static unsigned char value_of(std::uint64_t chunk) {
    return static_cast<unsigned char>(chunk + 1);
  }
  capi::Attachment& attachment() { return *handle_.attachment; }
  pool::Pool& pool() { return *attachment().pool; }
  void succeed(nccl::Result result) { world_.require(result == nccl::success, "a call fails"); }
  void wait(const std::function<bool()>& holds) {
    constexpr std::uint64_t often_ns = 2'000'000, rarely_ns = 1'000'000'000;
    for (int looks = 0; !holds(); ++looks) {
      world_.require(looks < 10'000, "waited in vain for the other rank");
      world_.sleep(looks < 1000 ? often_ns : rarely_ns);
    }
  }
  bool is_stopped() const { return facts_.hour && facts_.hour->late == &world_.self(); }
  bool is_lost(const SlotMemory& other, std::uint64_t token) {
    return token == 0 || other.has_given_up() || other.has_left() || !pool().alive(token);
  }

  /// Its bytes are an earlier owner's.
  Object make(const char* name, std::uint64_t bytes) {
    const auto made = attachment().arena->create(
        name, bytes, {.lifetime = Lifetime::process, .alignment = 64, .zero = false});
    world_.require(made.has_value(), made ? "" : made.error().message);
    pool().memory().publish_word(made->data + note_at, 0);
    return *made;
  }
  void begin(SlotMemory& mine, const Object& object, std::uint64_t& at, std::uint64_t& token) {
    mine.begin();
    pool().memory().full_fence();  // the test's own words travel faster than the pool's
    token = pool().token();
    at = object.offset;
    if (is_stopped()) stop_within(world_, 200);
  }
  void send_note(const Object& object, std::uint64_t number) {
    pool().confirm();  // as a channel does
    pool().memory().publish_word(object.data + note_at, key << 32 | number);
    pool().memory().store_fence();
  }
  /// 0: the memory may have another owner.
  std::uint64_t note(std::uint64_t at) {
    const std::uint64_t word =
        at == 0 ? 0 : pool().memory().observe_word(pool().base() + at + note_at);
    return word >> 32 == key ? word & 0xffff : 0;
  }
  SlotRing ring_of(const SlotMemory& memory) {
    SlotRing ring = memory.ring(0, slot_bytes);
    ring.token = facts_.sender_token;
    ring.is_apart = true;
    return ring;
  }
  /// Its streams run on into slots that are not free.
  void give_up(SlotMemory& mine, const SlotRing& ring) {
    if (facts_.steps.give_up_first) mine.give_up();
    std::memset(ring.begin, 0xEE, ring.bytes());
    world_.sleep(world_.random() % 4'000'000);
    if (!facts_.steps.give_up_first) mine.give_up();
  }
  void leave(SlotMemory& mine, const Object& object, const SlotMemory& other, std::uint64_t token) {
    mine.leave();
    wait([&] { return token == 0 || other.has_left() || !pool().alive(token); });
    if (is_stopped()) stop_before_the_lock(other);
    (void)attachment().arena->destroy(object);
    wait([&] { return facts_.is_over; });
  }

  /// A process that is stopped alone while it holds the pool's lock keeps the others waiting.
  void stop_before_the_lock(const SlotMemory& other) {
    if (!facts_.hour->begun) stop_within(world_, 1);
    (void)other.has_left();
    never_stop(world_.self());
  }

  World& world_;
  Facts& facts_;
  penstock_pool handle_;
};

/// Lives on the node of the one that is stopped, and writes its stores back.
void stay(World& world, const SmallPool& pool, const Hour& hour) {
  const SpaceUser mate(world, pool, "mate");
  while (!hour.over_or_gone()) world.sleep(an_hour_ns / 20);
  world.sleep(2 * pool.lease_ns(world));  // it finds out by itself
  mate.pool->confirm();
}

/// Fills all space that is free, again and again, until both ranks have done what they can.
void own_next(World& world, const SmallPool& pool, Facts& facts) {
  constexpr int round_limit = 8;
  SpaceUser user(world, pool, "user");
  for (int round = 0; !facts.is_over; ++round) {
    const bool may_visit = facts.hour == nullptr || facts.hour->over_or_gone();
    const bool is_last = round >= round_limit && may_visit;
    if (is_last) pool.visit_nodes(world, nodes);
    (void)user.arena->collect();
    const auto made = fill_and_publish(world, user);
    world.sleep(20'000'000);
    for (const Object& object : made) user.require_whole(object, "in use");
    world.evict_left_dirty();
    world.evict_all_dirty();
    for (const Object& object : made) user.require_whole(object, "when all has left the caches");
    for (const Object& object : made) (void)user.arena->destroy(object);
    world.sleep(round < round_limit ? 50'000'000 : an_hour_ns / 6);
    facts.is_over = is_last;
  }
}

enum class Late : std::uint8_t { nobody, sender, receiver };

/// `stopped`: the victim is stopped for an hour, alone or with its node.
Scenario passing(const SmallPool& pool, std::string name, Late victim,
                 std::optional<Stopped> stopped = {}, Steps steps = {}) {
  Scenario scenario = pool.scenario("NCCL slots, " + std::move(name), nodes);
  scenario.max_steps = 8'000'000;
  scenario.body = [&pool, victim, stopped, steps](World& world) {
    auto facts = std::make_shared<Facts>();
    facts->steps = steps;
    if (world.random() % 2 == 0) facts->gives_up_at = world.random() % chunks;
    facts->sender =
        &world.spawn(sender_node, [&world, &pool, facts] { Rank(world, pool, *facts).send(); });
    facts->receiver = &world.spawn(receiver_node,
                                   [&world, &pool, facts] { Rank(world, pool, *facts).receive(); });
    if (victim == Late::sender) world.mark_victim(*facts->sender);
    if (victim == Late::receiver) world.mark_victim(*facts->receiver);
    world.spawn(user_node, [&world, &pool, facts] { own_next(world, pool, *facts); });
    if (stopped) {
      facts->hour = std::make_shared<Hour>();
      facts->hour->late = world.victim();
      facts->hour->late->may_exit = true;
      facts->hour->taken = true;
      Process& mate = world.spawn(facts->hour->late->node,
                                  [&world, &pool, facts] { stay(world, pool, *facts->hour); });
      mate.may_exit = *stopped == Stopped::with_its_node;
      spawn_clock(world, facts->hour, *stopped);
    }
  };
  return scenario;
}

TEST(SlotMemory, PassesChunksAndLeavesMemoryAtRest) {
  const SmallPool pool;
  const Scenario scenario = passing(pool, "both live", Late::nobody);
  expect_held("NCCL slots", "random schedules", explore(scenario, 20));
  expect_held("NCCL slots", "random schedules", explore(with_late_stores(scenario), 10));
  expect_held("NCCL slots", "random schedules", explore(with_lasting_copies(scenario), 20));
}

TEST(SlotMemory, NeedsEachStepOfTheRanks) {
  const SmallPool pool;
  const auto fails_without = [&](const char* what, const Steps& steps) {
    const Scenario scenario = passing(pool, what, Late::nobody, {}, steps);
    EXPECT_FALSE(explore(scenario, 20).held() && explore(with_lasting_copies(scenario), 20).held())
        << what;
  };
  fails_without("no publish", {.publish = false});
  fails_without("no observe", {.observe = false});
  fails_without("no look for a failure", {.look_for_failure = false});
  fails_without("no write-back at the end", {.write_back = false});
  fails_without("streams run on first", {.give_up_first = false});
}

TEST(SlotMemory, SenderMayDieAnywhere) {
  const SmallPool pool;
  expect_held("NCCL slots", "crash points",
              crash_everywhere(passing(pool, "the sender dies", Late::sender), 40));
}

TEST(SlotMemory, ReceiverMayDieAnywhere) {
  const SmallPool pool;
  expect_held("NCCL slots", "crash points",
              crash_everywhere(passing(pool, "the receiver dies", Late::receiver), 40));
}

TEST(SlotMemory, EitherRankMayStopForAnHour) {
  const SmallPool pool(room, usual_lease_ms);
  for (const Late late : {Late::sender, Late::receiver})
    for (const Stopped who : {Stopped::alone, Stopped::with_its_node})
      expect_held(
          "NCCL slots", "random schedules",
          explore(passing(pool,
                          fmt::format("the {} is stopped for an hour, {}",
                                      late == Late::sender ? "sender" : "receiver", text_of(who)),
                          late, who),
                  who == Stopped::alone ? 2 : 10));
}

}  // namespace
}  // namespace penstock::sim

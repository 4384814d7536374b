// A process is stopped for an hour while it takes a block of slots, opens an endpoint, makes tiles
// of mailboxes or moves a channel. It ends with an error or goes on; what others own by then stays
// theirs.
#include <gtest/gtest.h>

#include <cstring>
#include <map>
#include <set>

#include "base/environment_guard.hpp"
#include "pool/members.hpp"
#include "pool/reclaim.hpp"
#include "sim/tests/attachments.hpp"
#include "sim/tests/endpoint_tables.hpp"
#include "sim/tests/hour.hpp"
#include "sim/tests/ranks.hpp"
#include "sim/tests/stops.hpp"
#include "transport/test_tiles.hpp"

namespace penstock::sim {
namespace {

constexpr std::uint64_t ns_a_s = 1'000'000'000;

/// Looks for the dead for three leases, and declares them dead.
void give_up(World& world, const SimulatedPool& simulated, pool::Pool& attached) {
  for (int looks = 0; looks < 30; ++looks) {
    world.require(attached.reclaim().reap({}).has_value(), "the dead cannot be reaped");
    world.sleep(simulated.lease_ns(world) / 10);
  }
}

/// Each has the slot that it was given, and the pool shows it there.
void require_still_there(World& world, const Attachments& all) {
  std::map<std::uint32_t, std::uint64_t> shown;
  for (const auto& record : all.front()->members().processes())
    if (record.attached) shown[record.slot] = record.token();
  std::set<std::uint32_t> slots;
  for (const auto& each : all) {
    slots.insert(each->slot());
    world.require(shown[each->slot()] == each->token(),
                  "the table shows another process in its slot");
    world.require(each->alive(each->token()), "it has lost its slot");
  }
  world.require(slots.size() == all.size(), "two processes have the same slot");
}

/// Attaches on the node of the late process, before that one.
Process& spawn_mate(World& world, const SimulatedPool& pool, const std::shared_ptr<Hour>& hour,
                    Stopped who, const std::shared_ptr<bool>& there) {
  Process& mate = world.spawn(0, [&world, &pool, hour, there] {
    const auto attached = pool.attach(world, {.job = "mate"});
    world.memory().full_fence();  // a flock of the simulation does not pass stores on, as a mutex
                                  // does
    *there = true;
    while (!hour->over_or_gone()) world.sleep(ns_a_s / 2);
    world.sleep(2 * pool.lease_ns(world));  // it finds out by itself
    attached->confirm();
  });
  mate.may_exit = who == Stopped::with_its_node;
  return mate;
}

// ---- slots -------------------------------------------------------------------------------------

constexpr std::uint32_t slots = 24, hosts = 3;

/// It comes and goes on node 0, and takes fresh blocks as well as blocks of others; it is stopped
/// in one of its first operations.
void come_and_go(World& world, const SimulatedPool& pool, const Hour& hour,
                 const std::set<std::uint32_t>& held) {
  for (int rounds = 0; rounds < 4; ++rounds) {
    Attachments mine;
    for (int i = 0; i < 3; ++i) {
      auto next = try_to_attach(world, pool);
      const bool full = !next && hour.begun && next.error().code == ErrorCode::no_slots;
      world.require(next || full, next ? "" : next.error().message);
      if (!next) return;
      mine.push_back(std::move(*next));
      mine.back()->confirm();  // it may have been stopped after that
      world.require(!held.contains(mine.back()->slot()), "it got a slot that another process has");
    }
  }
}

Scenario while_attaching(const SimulatedPool& pool, Stopped who) {
  Scenario scenario = pool.scenario(fmt::format("an hour, attaching, {}", text_of(who)), hosts);
  scenario.max_steps = 20'000'000;
  scenario.body = [&pool, who](World& world) {
    auto hour = std::make_shared<Hour>();
    auto there = std::make_shared<bool>(false);
    auto held = std::make_shared<std::set<std::uint32_t>>();
    spawn_mate(world, pool, hour, who, there);
    Process& late = world.spawn(0, [&world, &pool, hour, held, there] {
      world.until([&] { return *there; });
      stop_within(world, 900);
      come_and_go(world, pool, *hour, *held);
    });
    late.may_exit = true;
    hour->late = &late;
    spawn_clock(world, hour, who);
    world.spawn(1, [&world, &pool, hour, held] {
      world.until([&] { return hour->begun || gone(*hour->late); });
      Attachments all;
      all.push_back(pool.attach(world));
      if (hour->begun) {
        give_up(world, pool, *all.front());
        world.sleep(an_hour_ns);
      }
      take_all_slots(world, pool, all);
      world.require(all.size() + 2 >= slots, fmt::format("{} slots only", all.size()));
      for (const auto& each : all) held->insert(each->slot());
      hour->taken = true;
      await_its_end(world, *hour);
      world.sleep(pool.lease_ns(world) / 2);  // all beat, and restore lines to which it has still
                                              // stored
      require_still_there(world, all);
      held->clear();
    });
  };
  scenario.after = [&pool](World& world) {
    Attachments all;
    all.push_back(pool.attach(world));
    give_up(world, pool, *all.front());
    take_all_slots(world, pool, all);
    world.require(all.size() == slots, fmt::format("{} slots are there", all.size()));
  };
  return scenario;
}

class AnHour : public testing::TestWithParam<Stopped> {};

TEST_P(AnHour, WhileItTakesASlot) {
  const SimulatedPool pool(
      {.max_processes = slots, .max_nodes = hosts, .lease_ms = usual_lease_ms});
  expect_held("pool", "random schedules", explore(while_attaching(pool, GetParam()), 40));
}

// ---- endpoints and tiles -----------------------------------------------------------------------

/// The user of one attachment: an endpoint, and words of mailboxes.
class EndpointUser {
 public:
  EndpointUser(World& world, pool::Pool& pool)
      : world_(world),
        arena_(SimulatedPool::open_arena(world, pool)),
        table_(table_of(world, *arena_)) {}

  void claim() {
    const auto address = table_.claim(1);
    world_.require(address.has_value(), address ? "" : address.error().message);
    addresses_.push_back(*address);
  }
  /// Records the lines as they must stay.
  void note_lines() {
    for (const auto& address : addresses_) {
      const auto line = table_.read(address.slot);
      world_.require(line && line->open() && line->token == arena_->pool().token(),
                     "it has a slot that belongs to another");
      lines_.push_back(*line);
    }
  }
  /// Makes words with a tile of its own for each.
  void make_words(std::uint32_t first, std::uint32_t number) {
    for (std::uint32_t owner = first; owner < first + number; ++owner) {
      const auto words = table_.words(owner, addresses_.front().slot);
      world_.require(words.has_value(), words ? "" : words.error().message);
      words_[owner] = words->announcement;
    }
  }
  void require_unchanged() const {
    for (std::size_t i = 0; i < lines_.size(); ++i) {
      const auto line = table_.read(addresses_[i].slot);
      world_.require(line && std::memcmp(&*line, &lines_[i], sizeof *line) == 0,
                     "the line of another process's endpoint has changed");
    }
    for (const auto& [owner, word] : words_)
      world_.require(table_.find_word(owner, addresses_.front().slot) == word,
                     "another process's word has moved");
    const std::string fault = transport::fault_of_tiles(*arena_);
    world_.require(fault.empty(), fault);
  }
  void change_and_release() {
    for (const auto& address : addresses_) {
      table_.set_user_word(address, 7);
      table_.release(address);
    }
    addresses_.clear();
    lines_.clear();
    words_.clear();
  }

 private:
  World& world_;
  std::unique_ptr<arena::Arena> arena_;
  transport::EndpointTable table_;
  std::vector<transport::Address> addresses_;
  std::vector<transport::EndpointLine> lines_;
  std::map<std::uint32_t, const void*> words_;
};

/// Others have all slots of processes and the endpoints in them; further endpoints; and mailboxes
/// in which it was about to make words.
void take_endpoints(World& world, const SimulatedPool& pool, Hour& hour) {
  Attachments all;
  all.push_back(pool.attach(world));
  EndpointUser stays(world, *all.front());
  stays.claim();
  stays.claim();
  if (hour.begun) {
    give_up(world, pool, *all.front());
    stays.make_words(20, 12);
    world.sleep(an_hour_ns);
  }
  take_all_slots(world, pool, all);
  std::vector<std::unique_ptr<EndpointUser>> users;
  for (std::size_t i = 1; i < all.size(); ++i) {
    users.push_back(std::make_unique<EndpointUser>(world, *all[i]));
    users.back()->claim();
    users.back()->note_lines();
  }
  stays.note_lines();
  stays.make_words(24, 12);
  world.memory().full_fence();
  hour.taken = true;
  await_its_end(world, hour);
  require_still_there(world, all);
  stays.require_unchanged();
  for (const auto& each : users) each->require_unchanged();
}

Scenario while_opening(const SimulatedPool& pool, Stopped who) {
  Scenario scenario =
      pool.scenario(fmt::format("an hour, opening an endpoint, {}", text_of(who)), 2);
  scenario.max_steps = 30'000'000;
  scenario.body = [&pool, who](World& world) {
    auto hour = std::make_shared<Hour>();
    auto there = std::make_shared<bool>(false);
    spawn_mate(world, pool, hour, who, there);
    Process& late = world.spawn(0, [&world, &pool, hour, there] {
      world.until([&] { return *there; });
      const auto attached = pool.attach(world, {.job = "late"});
      EndpointUser user(world, *attached);
      world.self().stops_after_load = world.self().loads + 1 + world.random() % 400;
      for (int rounds = 0; rounds < 3; ++rounds) {
        user.claim();
        user.claim();
        user.make_words(20 + 4 * static_cast<std::uint32_t>(rounds), 8);
        user.change_and_release();
      }
    });
    late.may_exit = true;
    hour->late = &late;
    spawn_clock(world, hour, who);
    world.spawn(1, [&world, &pool, hour] {
      world.until([&] { return hour->begun || gone(*hour->late); });
      hour->given_up = hour->begun;
      take_endpoints(world, pool, *hour);
    });
  };
  return scenario;
}

TEST_P(AnHour, WhileItOpensAnEndpoint) {
  const auto pool = pool_with_endpoints({.max_processes = 6, .lease_ms = usual_lease_ms});
  expect_held("endpoints", "random schedules", explore(while_opening(*pool, GetParam()), 30));
}

// ---- channels ----------------------------------------------------------------------------------

/// All free memory, with published contents.
class Hoard {
 public:
  Hoard(World& world, const SimulatedPool& pool)
      : world_(world), pool_(pool.attach(world, {.job = "hoard"})) {
    arena_ = SimulatedPool::open_arena(world, *pool_);
  }
  pool::Pool& pool() const { return *pool_; }
  void collect() { (void)arena_->collect(); }
  void take_all() {
    for (std::uint64_t bytes = 256 << 10; bytes >= 4096;) {
      const auto made = arena_->create(fmt::format("hoard.{}", all_.size()), bytes,
                                       {.lifetime = arena::Lifetime::process, .zero = false});
      if (!made) {
        bytes /= 2;
        continue;
      }
      const auto contents = pattern(*made);
      pool_->memory().publish_bulk(made->data, contents.data(), made->bytes);
      all_.push_back(*made);
    }
    pool_->memory().full_fence();
    world_.require(all_.size() > 2, "there is no free memory");
  }
  void require_whole() const {
    world_.evict_all_dirty();
    for (const auto& each : all_) {
      std::vector<std::uint64_t> found(each.bytes / 8);
      pool_->memory().observe_bulk(found.data(), each.data, each.bytes);
      world_.require(found == pattern(each), "another process's published data is overwritten");
    }
  }

 private:
  static std::vector<std::uint64_t> pattern(const arena::Object& object) {
    return std::vector<std::uint64_t>(object.bytes / 8, object.generation << 16 | 0x22);
  }
  World& world_;
  std::unique_ptr<pool::Pool> pool_;
  std::unique_ptr<arena::Arena> arena_;
  std::vector<arena::Object> all_;
};

/// Both send each other messages by which their channels move; one is stopped.
void talk(World& world, const SimulatedPool& pool, JobState& job, const Hour& hour,
          std::uint32_t self, std::uint64_t stops_within) {
  Rank rank(world, pool, {self, {1 - self}, {1 - self}, 60});
  job.enter(rank, self);
  world.until([&] { return job.opened[1 - self] || hour.may_be_missed(); });
  if (self == 0) stop_within(world, stops_within);
  if (!job.opened[1 - self]) return rank.leave();
  rank.meet(job.addresses, [&] { return hour.may_be_missed(); });
  while (!rank.finished()) {
    const bool sent = rank.send_and_complete();
    rank.progress();
    if (sent) continue;
    hour.begun ? world.sleep(20'000'000) : world.yield();
  }
  if (rank.peer_died()) world.require(hour.may_be_missed(), "taken for dead: " + rank.death());
  rank.leave();
}

/// Once the job has ended, except the stopped process.
void hoard(World& world, const SimulatedPool& pool, Hour& hour, const Process& peer) {
  wait_until(world, "the peer", [&] { return gone(peer); });
  world.until([&] { return hour.begun || gone(*hour.late); });
  {
    Hoard others(world, pool);
    if (hour.begun) {
      give_up(world, pool, others.pool());
      hour.given_up = true;
      world.sleep(an_hour_ns);
    }
    others.collect();
    others.take_all();
    hour.taken = true;
    await_its_end(world, hour);
    world.sleep(2 * pool.lease_ns(world));
    others.require_whole();
  }
}

Scenario while_moving(const SimulatedPool& pool, Stopped who, std::uint64_t stops_within) {
  Scenario scenario = pool.scenario(fmt::format("an hour, moving, {}", text_of(who)), 2);
  scenario.max_steps = 60'000'000;
  scenario.body = [&pool, who, stops_within](World& world) {
    auto hour = std::make_shared<Hour>();
    auto there = std::make_shared<bool>(false);
    auto job = std::make_shared<JobState>(2);
    spawn_mate(world, pool, hour, who, there);
    Process* ranks[2];
    for (std::uint32_t i = 0; i < 2; ++i)
      ranks[i] = &world.spawn(i, [&world, &pool, hour, job, i, stops_within] {
        talk(world, pool, *job, *hour, i, stops_within);
      });
    ranks[0]->may_exit = true;
    hour->late = ranks[0];
    spawn_clock(world, hour, who);
    world.spawn(1, [&world, &pool, hour, peer = ranks[1]] { hoard(world, pool, *hour, *peer); });
  };
  scenario.after = [&pool](World& world) { expect_clean(world, pool); };
  return scenario;
}

TEST_P(AnHour, WhileItsChannelMoves) {
  const auto pool = pool_with_endpoints({.max_processes = 6, .lease_ms = usual_lease_ms});
  const base::EnvironmentItems lines("PENSTOCK_CHANNELS", "first_lines=16");
  expect_held("channel", "random schedules", explore(while_moving(*pool, GetParam(), 6000), 8));
}

INSTANTIATE_TEST_SUITE_P(Stopped, AnHour, testing::Values(Stopped::alone, Stopped::with_its_node),
                         [](const auto& who) {
                           return who.param == Stopped::alone ? "Alone" : "WithItsNode";
                         });

}  // namespace
}  // namespace penstock::sim

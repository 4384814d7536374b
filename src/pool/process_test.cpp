// Attached processes, their liveness, and the reclaim of the dead.
#include <cerrno>
#include <chrono>
#include <thread>

#include "base/clock.hpp"
#include "base/environment_guard.hpp"
#include "pool/flush_table.hpp"
#include "pool/layout.hpp"
#include "pool/test_foreign.hpp"

namespace penstock::pool {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

class ProcessTest : public PoolTest {
 protected:
  void SetUp() override { create(); }

  static const ProcessRecord* find(const std::vector<ProcessRecord>& records, std::uint64_t token) {
    for (const ProcessRecord& record : records) {
      if (record.token() == token) return &record;
    }
    return nullptr;
  }
  /// The token of a killed process.
  std::uint64_t dead() const {
    const Child child = attached_child();
    return child.next_report();
  }
  /// Overwrites the line, as a foreign program that writes into the pool could.
  static void overwrite_state(const Pool& pool, std::uint64_t token, std::uint64_t word,
                              std::uint64_t value) {
    const auto& superblock = *reinterpret_cast<const device::Superblock*>(pool.base());
    const std::uint64_t line = superblock.states_offset + sizeof(StateLine) * (token & 0xffff);
    pool.memory().publish_word(pool.at(line + 8 * word, 8), value);
    pool.memory().store_fence();
  }
};

TEST_F(ProcessTest, RecordDescribesAttachedProcess) {
  const std::uint64_t before = base::wall_ns();
  auto pool = attach({.rank = 3, .job = "job-" + std::string(90, 'j')});
  const auto records = pool->members().processes();
  ASSERT_EQ(records.size(), 1u);
  const ProcessRecord& own = records[0];
  EXPECT_EQ(own.slot, pool->slot());
  EXPECT_EQ(own.generation, pool->generation());
  EXPECT_EQ(pool->token(), own.token());
  EXPECT_NE(pool->token(), 0u);
  EXPECT_EQ(own.pid, ::getpid());
  EXPECT_EQ(own.rank, 3);
  EXPECT_EQ(own.job, "job-" + std::string(90, 'j'));
  EXPECT_EQ(own.program, std::string(::program_invocation_short_name).substr(0, 15));
  char host[256] = {};
  ::gethostname(host, sizeof host - 1);
  EXPECT_EQ(own.host, std::string(host).substr(0, 56));
  EXPECT_EQ(own.boot_id, format_uuid(this_host()->boot_id));
  EXPECT_EQ(own.start_time, this_process()->start_time);
  EXPECT_EQ(own.scope, this_process()->scope);
  EXPECT_GE(own.attached_wall_ns, before);
  EXPECT_GE(own.lease_beat, 1u);
  EXPECT_TRUE(own.attached);
  EXPECT_TRUE(own.alive);
  EXPECT_EQ(pool->describe(pool->token()),
            fmt::format("rank 3 (pid {} on host {}, node 0)", ::getpid(), own.host));
}

TEST_F(ProcessTest, StatisticsOutliveAttachment) {
  auto watcher = attach();
  std::uint64_t token;
  {
    auto pool = attach();
    token = pool->token();
    pool->publish_stats(
        {.messages_sent = 1, .bytes_sent = 2, .messages_received = 3, .bytes_received = 4});
    pool->publish_activity("waits for rank 5\n" + std::string(100, 'x'));
  }
  const auto records = watcher->members().processes();
  const ProcessRecord* record = find(records, token);
  ASSERT_NE(record, nullptr);
  EXPECT_FALSE(record->attached);
  EXPECT_FALSE(record->alive);
  EXPECT_FALSE(watcher->alive(token));
  EXPECT_EQ(record->messages_sent, 1u);
  EXPECT_EQ(record->bytes_sent, 2u);
  EXPECT_EQ(record->messages_received, 3u);
  EXPECT_EQ(record->bytes_received, 4u);
  EXPECT_EQ(record->activity, "waits for rank 5?" + std::string(100, 'x'));
  EXPECT_EQ(watcher->members().local_processes(), 1u);
}

class ManyProcesses : public PoolTest {
 protected:
  void SetUp() override { create(64); }
};

/// With many processes /proc is read rarely; kill(pid, 0) is called each time.
TEST_F(ManyProcesses, FindsZombieSoonAndEndedProcessAtOnce) {
  constexpr std::size_t many = 20;
  auto pool = attach();
  std::vector<std::unique_ptr<Child>> children;
  std::vector<std::uint64_t> tokens;
  for (std::size_t i = 0; i < many; ++i) {
    children.emplace_back(new Child(attached_child()));
    tokens.push_back(children.back()->next_report());
  }
  for (const std::uint64_t token : tokens) ASSERT_TRUE(pool->alive(token));

  children[0]->kill(SIGKILL);
  children[0]->wait_until_zombie();
  children[1]->kill(SIGKILL);
  children[1]->wait();
  EXPECT_FALSE(pool->alive(tokens[1]));
  const std::uint64_t late_ns = base::now_ns() + 3'000'000'000;
  while (pool->alive(tokens[0]) && base::now_ns() < late_ns)
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  EXPECT_FALSE(pool->alive(tokens[0]));
  for (std::size_t i = 2; i < many; ++i) EXPECT_TRUE(pool->alive(tokens[i]));
}

TEST_F(ProcessTest, ReapsKilledProcessAndReusesSlot) {
  auto pool = attach();
  Child child = attached_child({.rank = 7});
  const std::uint64_t token = child.next_report();
  ASSERT_NE(token, 0u);
  EXPECT_TRUE(pool->alive(token));
  EXPECT_EQ(pool->members().local_processes(), 2u);

  child.kill(SIGKILL);
  child.wait_until_zombie();
  EXPECT_FALSE(pool->alive(token)) << "a zombie is dead";
  child.wait();
  EXPECT_FALSE(pool->alive(token));
  EXPECT_EQ(pool->members().local_processes(), 1u);
  EXPECT_THAT(pool->describe(token), HasSubstr("rank 7"));

  std::set<std::uint64_t> dead;
  auto reaped = pool->reclaim().reap([&](const auto& tokens) { dead = tokens; });
  ASSERT_TRUE(reaped) << reaped.error().message;
  EXPECT_EQ(*reaped, 1u);
  EXPECT_THAT(dead, ElementsAre(token));
  EXPECT_EQ(pool->reclaim().reap([](const auto&) { FAIL(); }).value(), 0u);

  // the other 14 slots are unused and come first, then this one
  std::vector<std::unique_ptr<Pool>> others;
  for (int i = 0; i < 15; ++i) others.push_back(attach());
  EXPECT_EQ(others.back()->slot(), token & 0xffff);
  EXPECT_EQ(others.back()->generation(), (token >> 16) + 1);
  EXPECT_FALSE(pool->alive(token));
  EXPECT_TRUE(pool->alive(others.back()->token()));
  EXPECT_THAT(pool->describe(token), HasSubstr("gone"));
}

TEST_F(ProcessTest, KeepsObjectsOfDeadRankWhileJobLives) {
  auto of_another_job = attach({.job = "other"});
  Child survivor = attached_child({.rank = 0, .job = "one"});
  Child killed = attached_child({.rank = 1, .job = "one"});
  const std::uint64_t survives = survivor.next_report(), dies = killed.next_report();
  ASSERT_NE(survives, 0u);
  ASSERT_NE(dies, 0u);
  killed.kill(SIGKILL);
  killed.wait();
  EXPECT_FALSE(of_another_job->alive(dies));
  EXPECT_EQ(of_another_job->reclaim().reap([](const auto&) { FAIL(); }).value(), 0u)
      << "the survivor may still write credits into its channels";
  survivor.kill(SIGKILL);
  survivor.wait();
  std::set<std::uint64_t> dead;
  EXPECT_EQ(of_another_job->reclaim().reap([&](const auto& tokens) { dead = tokens; }).value(), 2u);
  EXPECT_THAT(dead, testing::UnorderedElementsAre(survives, dies));
}

TEST_F(ProcessTest, ReapsManyInGroupsExceptLivingJobs) {
  spec_ = folder_.file("many");
  create(256);
  auto pool = attach({.job = "other"});
  auto survivor = attach({.job = "lives"});
  Child child([this](const Child::Report& report) -> int {
    std::vector<std::unique_ptr<Pool>> all;
    for (int i = 0; i < 200; ++i) all.push_back(attach({.job = i % 4 == 0 ? "lives" : "dies"}));
    report(1);
    sleep_until_killed();
  });
  ASSERT_EQ(child.next_report(), 1u);
  child.kill(SIGKILL);
  child.wait();
  std::set<std::uint64_t> dead;
  const auto free_objects = [&](const std::set<std::uint64_t>& tokens) {
    for (const std::uint64_t token : tokens) EXPECT_TRUE(dead.insert(token).second);
  };
  EXPECT_EQ(pool->reclaim().reap(free_objects).value(), 150u);
  EXPECT_EQ(dead.size(), 150u);
  survivor.reset();
  EXPECT_EQ(pool->reclaim().reap(free_objects).value(), 50u);
  EXPECT_EQ(dead.size(), 200u);
}

TEST_F(ProcessTest, ReclaimsDeferredSlotAfterJobEnds) {
  auto pool = attach({.job = "other"});
  auto mate = attach({.job = "one"});
  auto leaver = attach({.job = "one"});
  const std::uint64_t token = leaver->token();
  const std::byte* address = leaver->base() + leaver->info().arena_offset;
  pool->mappings().follow_attachments();
  EXPECT_TRUE(pool->mappings().attached_offset_of(address, 64));
  leaver->reclaim().defer();
  leaver.reset();
  EXPECT_FALSE(pool->mappings().attached_offset_of(address, 64)) << "mapped no more";
  EXPECT_FALSE(pool->alive(token));
  EXPECT_FALSE(pool->reclaim().declared_dead_still_runs());
  EXPECT_EQ(pool->reclaim().reap([](const auto&) { FAIL(); }).value(), 0u)
      << "its mate may store there";
  const auto records = pool->members().processes();
  ASSERT_NE(find(records, token), nullptr);
  EXPECT_FALSE(find(records, token)->attached) << "it did not die";
  mate.reset();
  std::set<std::uint64_t> reclaimed;
  EXPECT_EQ(pool->reclaim().reap([&](const auto& tokens) { reclaimed = tokens; }).value(), 1u);
  EXPECT_THAT(reclaimed, ElementsAre(token));
  EXPECT_EQ(pool->reclaim().reap([](const auto&) { FAIL(); }).value(), 0u);
  EXPECT_FALSE(pool->reclaim().declared_dead_still_runs())
      << "it lives on without the pool, and was not given up";
  EXPECT_EQ(pool->reclaim().flushes().clock().last_death, 0u)
      << "all of its job have left in order";
}

TEST_F(ProcessTest, DetachedProcessHasNotDied) {
  auto pool = attach();
  const auto record = [&](std::uint64_t token) {
    EXPECT_FALSE(pool->alive(token));
    const auto guard = pool->lock();
    EXPECT_TRUE(guard);
    pool->reclaim().record_known_deaths();
    return pool->reclaim().flushes().clock().last_death;
  };
  const std::uint64_t detached = attach()->token();
  EXPECT_EQ(record(detached), 0u);
  EXPECT_NE(record(dead()), 0u);
}

TEST_F(ProcessTest, ReusesUnreapedSlotsWhenNoneIsLeft) {
  std::vector<std::unique_ptr<Pool>> others;
  for (int i = 0; i < 15; ++i) others.push_back(attach());
  std::uint64_t dead;
  {
    Child child = attached_child();
    dead = child.next_report();
  }
  auto last = attach();
  ASSERT_TRUE(last);
  EXPECT_EQ(last->slot(), dead & 0xffff);
  EXPECT_FALSE(last->alive(dead));
}

TEST_F(ProcessTest, StoppedProcessIsAlive) {
  auto pool = attach();
  Child child = attached_child();
  const std::uint64_t token = child.next_report();
  child.kill(SIGSTOP);
  child.wait_until_stopped();
  EXPECT_TRUE(pool->alive(token));
  EXPECT_EQ(pool->reclaim().reap({}).value(), 0u);
}

TEST_F(ProcessTest, UnknownTokensAreNotAlive) {
  auto pool = attach();
  EXPECT_FALSE(pool->alive(0));
  EXPECT_FALSE(pool->alive(pool->token() + (1u << 16)));
  EXPECT_FALSE(pool->alive(1u << 16 | 5));
  EXPECT_FALSE(pool->alive(1u << 16 | 0x7fff));
  EXPECT_FALSE(pool->alive(1u << 16 | 0x8003));
  EXPECT_FALSE(pool->alive(UINT64_MAX));
  EXPECT_THAT(pool->describe(UINT64_MAX), HasSubstr("attaching"));
  EXPECT_THAT(pool->describe(1u << 16 | 0x7fff), HasSubstr("gone"));
}

TEST_F(ProcessTest, EndOfForkedChildDoesNotDetachParent) {
  auto pool = attach();
  Child child([&](const Child::Report&) {
    pool.reset();
    return 0;
  });
  EXPECT_EQ(child.wait(), 0);
  EXPECT_TRUE(pool->alive(pool->token()));
  EXPECT_TRUE(pool->lock());
}

TEST_F(ProcessTest, AttachesManyAtOnce) {
  std::vector<std::unique_ptr<Child>> children;
  for (int i = 0; i < 12; ++i) {
    children.push_back(std::make_unique<Child>([this](const Child::Report& report) {
      for (int round = 0; round < 10; ++round) {
        auto pool = attach();
        if (!pool) return 2;
        report(pool->token());
      }
      return 0;
    }));
  }
  std::vector<std::uint64_t> tokens;
  for (auto& child : children) {
    while (const std::uint64_t token = child->next_report()) tokens.push_back(token);
    EXPECT_EQ(child->wait(), 0);
  }
  EXPECT_EQ(tokens.size(), 120u);
  std::sort(tokens.begin(), tokens.end());
  EXPECT_EQ(std::adjacent_find(tokens.begin(), tokens.end()), tokens.end()) << "a token twice";
}

// ---- judged by heartbeat -----------------------------------------------------------------------

TEST_F(ForeignTest, LivesWhileHeartbeatMoves) {
  auto pool = attach();
  auto foreign = attach_from(9);
  EXPECT_EQ(foreign->node(), 1u);
  EXPECT_FALSE(dies_within(*pool, foreign->token(), 2 * second));
  EXPECT_FALSE(dies_within(*foreign, pool->token(), 2 * second));
  EXPECT_THAT(pool->describe(foreign->token()), HasSubstr("on host host9, node 1"));
  EXPECT_EQ(pool->members().local_processes(), 1u);
}

TEST_F(ForeignTest, ReapsAtOnceAfterMakingCertain) {
  {
    Child child = foreign_child(9);
    ASSERT_NE(child.next_report(), 0u);
  }
  const auto living = attach_from(8);
  const auto pool = attach();
  ASSERT_TRUE(pool->members().make_certain());
  std::vector<bool> alive;
  for (const ProcessRecord& record : pool->members().processes()) alive.push_back(record.alive);
  EXPECT_THAT(alive, ElementsAre(false, true, true));
  EXPECT_EQ(pool->reclaim().reap({}).value_or(0), 1u);
}

TEST_F(ForeignTest, DeadAfterLeaseWithoutBeat) {
  auto pool = attach();
  Child child = foreign_child(9);
  const std::uint64_t token = child.next_report();
  EXPECT_TRUE(pool->alive(token));
  EXPECT_EQ(pool->reclaim().reap({}).value(), 0u) << "the first look starts the clock";
  child.kill(SIGKILL);
  EXPECT_TRUE(dies_within(*pool, token, 60 * second));
  EXPECT_EQ(pool->reclaim().reap({}).value(), 1u);
}

TEST_F(ForeignTest, JudgesOtherPidNamespaceByHeartbeat) {
  auto pool = attach();
  Caller caller{*this_host(), *this_process()};
  caller.process.scope += 1;
  caller.process.pid = 1;  // exists here, but is another process there
  auto container = attach_as({.spec = spec_}, caller);
  ASSERT_TRUE(container);
  EXPECT_EQ((*container)->node(), pool->node());
  EXPECT_FALSE(dies_within(*pool, (*container)->token(), 1 * second));
  EXPECT_EQ(pool->members().local_processes(), 2u);
}

/// A reader in another time namespace sees another start time.
TEST_F(ForeignTest, JudgesOtherTimeNamespaceByHeartbeat) {
  auto pool = attach();
  Caller caller{*this_host(), *this_process()};
  caller.process.scope += 1;
  caller.process.start_time += 10'000'000;
  auto container = attach_as({.spec = spec_}, caller);
  ASSERT_TRUE(container);
  EXPECT_FALSE(dies_within(*pool, (*container)->token(), 1 * second));
  EXPECT_FALSE(pool->members().declared_dead((*container)->token()));
}

/// As if another /proc had been mounted since, or the reader had other clocks.
TEST_F(ForeignTest, JudgesByHeartbeatWhenProcChanged) {
  Caller caller{*this_host(), *this_process()};
  caller.process.start_time += 100;
  auto reader = attach_as({.spec = spec_}, caller);
  ASSERT_TRUE(reader);
  Child child([this](const Child::Report& report) {
    Caller later{*this_host(), *this_process()};
    later.process.start_time += 100;
    auto pool = attach_as({.spec = spec_}, later);
    if (!pool) return 2;
    report((*pool)->token());
    sleep_until_killed();
  });
  const std::uint64_t token = child.next_report();
  EXPECT_FALSE(dies_within(**reader, token, 1 * second));
  child.kill(SIGKILL);
  EXPECT_TRUE(dies_within(**reader, token, 60 * second));
}

TEST_F(ProcessTest, ScopeDependsOnMountedProc) {
  EXPECT_TRUE(shows_own_pid_namespace("Name:\tx\nNStgid:\t12\nNSpid:\t12\nNSpgid:\t12\n"));
  EXPECT_FALSE(shows_own_pid_namespace("Name:\tx\nNSpid:\t12\t1\nNSpgid:\t12\t1\n"));
  EXPECT_FALSE(shows_own_pid_namespace("Name:\tNSpid: 1\nNSpid:\t12 3 1\n"));
  EXPECT_TRUE(shows_own_pid_namespace("Name:\tx\n")) << "an older kernel";
}

TEST_F(ForeignTest, DeadHolderOnOtherHostLosesLock) {
  auto pool = attach();
  Child child = foreign_child(9, /*held=*/true);
  ASSERT_NE(child.next_report(), 0u);
  auto locked = pool->lock(50'000'000);
  ASSERT_FALSE(locked);
  EXPECT_EQ(locked.error().code, ErrorCode::deadline);
  child.kill(SIGKILL);
  child.wait();
  auto after = pool->lock(60 * second);
  EXPECT_TRUE(after) << after.error().message;
}

TEST_F(ForeignTest, RemovalWaitsUntilCertain) {
  {
    auto foreign = attach_from(9);
    auto removed = remove(spec_);
    ASSERT_FALSE(removed);
    EXPECT_THAT(removed.error().message, HasSubstr("of host host9 is attached"));
  }
  Child child = foreign_child(9);
  ASSERT_NE(child.next_report(), 0u);
  child.kill(SIGKILL);
  child.wait();
  auto removed = remove(spec_);
  EXPECT_TRUE(removed) << removed.error().message;
}

// ---- nodes -------------------------------------------------------------------------------------

using NodeTest = ForeignTest;

TEST_F(NodeTest, GivesOneNumberPerHostAndEmulatedNode) {
  auto here = attach();
  EXPECT_EQ(here->node(), 0u);
  EXPECT_EQ(attach()->node(), 0u);
  auto zero = attach({.emulated_node = 0});
  auto one = attach({.emulated_node = 1});
  EXPECT_EQ(zero->node(), 1u);
  EXPECT_EQ(one->node(), 2u);
  EXPECT_EQ(attach({.emulated_node = 1})->node(), 2u);
  EXPECT_EQ(attach_from(9)->node(), 3u);
  EXPECT_EQ(attach_from(9)->node(), 3u);
  EXPECT_EQ(here->members().local_processes(), 1u);  // however often it is attached
}

TEST_F(NodeTest, CountsNodesWithoutEntryBeforehand) {
  auto whole = attach();
  const auto most = whole->info().max_nodes;  // one of them is this host's own now
  EXPECT_EQ(whole->members().nodes_without_entry(most - 1), 0u);
  EXPECT_EQ(whole->members().nodes_without_entry(most + 1), 2u);
  auto zero = attach({.emulated_node = 0});
  EXPECT_EQ(zero->members().nodes_without_entry(most - 1), 0u) << "one of them has joined already";
  auto foreign = attach_from(9);
  EXPECT_EQ(zero->members().nodes_without_entry(most - 1), 1u);
  foreign.reset();
  EXPECT_EQ(zero->members().nodes_without_entry(most - 1), 0u)
      << "the other host needs its number no more";
}

TEST_F(NodeTest, RefusesTooManyEmulatedNodes) {
  EXPECT_TRUE(attach({.emulated_node = last_emulated_node}));
  const Error error = attach_error({.emulated_node = 0xffffffff});
  EXPECT_EQ(error.code, ErrorCode::invalid_argument);
  EXPECT_THAT(error.message, HasSubstr("the last that can be is 65535"));
}

TEST_F(NodeTest, RestartedHostKeepsNumber) {
  {
    Child child = foreign_child(9);
    ASSERT_NE(child.next_report(), 0u);
  }
  auto here = attach();
  EXPECT_EQ(here->node(), 1u);
  auto restarted = attach_from(10, /*machine=*/9);
  EXPECT_EQ(restarted->node(), 0u);
  EXPECT_EQ(attach_from(10, 9)->node(), 0u);
}

TEST_F(NodeTest, CloneOfLivingHostIsAnotherNode) {
  auto original = attach_from(9);
  auto clone = attach_from(10, /*machine=*/9);
  EXPECT_NE(original->node(), clone->node());
}

TEST_F(NodeTest, TooManyNodes) {
  std::vector<std::unique_ptr<Pool>> nodes;
  for (std::uint8_t host = 1; host <= 4; ++host) nodes.push_back(attach_from(host));
  auto fifth = attach_as({.spec = spec_}, caller_of_another_host(5));
  ASSERT_FALSE(fifth);
  EXPECT_EQ(fifth.error().code, ErrorCode::no_slots);
  EXPECT_THAT(fifth.error().message, HasSubstr("--nodes 8"));
  nodes.erase(nodes.begin() + 1);
  fifth = attach_as({.spec = spec_}, caller_of_another_host(5));
  ASSERT_TRUE(fifth) << fifth.error().message;
  EXPECT_EQ((*fifth)->node(), 1u) << "the number of the host that left";
}

TEST_F(NodeTest, AcceptsAnyNumberOfHostsOverTime) {
  for (std::uint8_t host = 1; host <= 12; ++host) {
    auto pool = attach_from(host);
    ASSERT_TRUE(pool);
    EXPECT_LT(pool->node(), 4u);
  }
}

/// Stores of a node's dead may reach the device late, and its number identifies the caches.
TEST_F(NodeTest, KeepsNumberUntilCachesAreFlushed) {
  auto here = attach();
  {
    Child child = foreign_child(9);
    ASSERT_NE(child.next_report(), 0u);
  }
  EXPECT_TRUE(here->members().make_certain());
  EXPECT_EQ(here->reclaim().reap([](const auto&) {}).value_or(9), 1u);
  for (std::uint8_t host = 1; host <= 6; ++host) EXPECT_GT(attach_from(host)->node(), 1u);
  here->reclaim().flushes().forget_deaths(1);
  std::set<std::uint32_t> numbers;
  for (std::uint8_t host = 10; host <= 15; ++host) numbers.insert(attach_from(host)->node());
  EXPECT_EQ(numbers.count(1), 1u);
}

TEST_F(ProcessTest, RestoresOverwrittenSlot) {
  const base::EnvironmentGuard lease("PENSTOCK_LEASE_MS", "800");
  Child child = attached_child();
  const std::uint64_t token = child.next_report();
  auto pool = attach();
  for (const std::uint64_t word : {0, 1, 2, 3, 7}) {
    overwrite_state(*pool, token, word, 77);
    for (int looks = 0; looks < 2000 && pool->members().local_processes() < 2; ++looks)
      std::this_thread::sleep_for(std::chrono::milliseconds(5));
    EXPECT_TRUE(pool->alive(token)) << "word " << word;
  }
}

/// Commands that open the pool for the first time find a process that died within its state line.
TEST_F(ProcessTest, ReapsProcessThatDiedWithinItsLine) {
  const base::EnvironmentGuard lease("PENSTOCK_LEASE_MS", "400");
  const std::uint64_t token = dead();
  auto pool = attach();
  overwrite_state(*pool, token, 7, 77);
  pool = attach();
  EXPECT_TRUE(pool->members().make_certain());
  std::set<std::uint64_t> reaped_tokens;
  const auto reaped =
      pool->reclaim().reap([&reaped_tokens](const auto& tokens) { reaped_tokens = tokens; });
  EXPECT_EQ(reaped.value_or(9), 1u);
  EXPECT_THAT(reaped_tokens, testing::ElementsAre(token));
}

TEST_F(ProcessTest, ReapsProcessOfUnknownNodeOnce) {
  const base::EnvironmentGuard lease("PENSTOCK_LEASE_MS", "400");
  const std::uint64_t token = dead();
  auto pool = attach();
  overwrite_state(*pool, token, 1, 0x7777'7777'0000'0001);
  EXPECT_TRUE(pool->members().make_certain());
  EXPECT_EQ(pool->reclaim().reap([](const auto&) {}).value_or(9), 1u);
  EXPECT_EQ(pool->reclaim().reap([](const auto&) {}).value_or(9), 0u);
}

}  // namespace
}  // namespace penstock::pool

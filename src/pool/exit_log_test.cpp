// The exit log: which processes ended without detaching, in the order of their ends.
#include <filesystem>

#include "base/environment_guard.hpp"
#include "pool/exit_log.hpp"
#include "pool/test_pool.hpp"

namespace penstock::pool {
namespace {

class ExitLogTest : public PoolTest {
 protected:
  void SetUp() override {
    create();
    exit_log_folder_ = folder_.file("exit_log");
    std::filesystem::create_directory(exit_log_folder_);
    guard_.emplace("PENSTOCK_EXIT_LOG", exit_log_folder_.c_str());
  }
  using Kind = ExitLog::Event::Kind;
  static std::vector<std::int64_t> pids_of(Kind what, const std::vector<ExitLog::Event>& events) {
    std::vector<std::int64_t> pids;
    for (const auto& event : events)
      if (event.kind == what) pids.push_back(event.pid);
    return pids;
  }
  static bool stayed(const ExitLog& exit_log, std::uint64_t token) {
    return exit_log.stayed(static_cast<std::uint32_t>(token & 0xffff), token >> 16);
  }

  std::string exit_log_folder_;
  std::optional<base::EnvironmentGuard> guard_;
};

TEST_F(ExitLogTest, ReportsOrderOfKillsEvenWhenReadLate) {
  auto exit_log = ExitLog::watch(exit_log_folder_, inspect(spec_)->id);
  ASSERT_TRUE(exit_log) << exit_log.error().message;
  Child first = attached_child(), second = attached_child(), third = attached_child();
  const std::uint64_t tokens[] = {first.next_report(), second.next_report(), third.next_report()};
  std::vector<std::int64_t> pids;
  for (Child* child : {&second, &third, &first}) {
    pids.push_back(child->pid());
    child->kill(SIGKILL);
    child->wait();
  }
  const auto events = exit_log->events();
  EXPECT_EQ(pids_of(Kind::ended, events), pids);
  EXPECT_THAT(pids_of(Kind::attached, events), testing::UnorderedElementsAreArray(pids));
  EXPECT_TRUE(exit_log->events().empty()) << "each is seen once";
  for (const std::uint64_t token : tokens) EXPECT_TRUE(stayed(*exit_log, token));
}

TEST_F(ExitLogTest, ReportsEndOfProcessThatLeft) {
  auto exit_log = ExitLog::watch(exit_log_folder_, inspect(spec_)->id);
  ASSERT_TRUE(exit_log) << exit_log.error().message;
  Child child([this](const Child::Report& report) {
    std::uint64_t token = 0;
    {
      auto pool = attach();
      token = pool->token();
    }
    report(token);
    ::pause();
    return 0;
  });
  const std::uint64_t token = child.next_report();
  const auto events = exit_log->events();
  EXPECT_TRUE(pids_of(Kind::ended, events).empty()) << "it has left the pool, and goes on";
  ASSERT_FALSE(events.empty());
  EXPECT_EQ(events.back().kind, Kind::left);
  EXPECT_EQ(events.back().generation << 16 | events.back().slot, token);
  EXPECT_FALSE(stayed(*exit_log, token));
  const std::int64_t pid = child.pid();
  child.kill(SIGKILL);
  child.wait();
  EXPECT_THAT(pids_of(Kind::ended, exit_log->events()), testing::ElementsAre(pid));
}

TEST_F(ExitLogTest, MpiErrorIsPendingUntilItReturns) {
  auto exit_log = ExitLog::watch(exit_log_folder_, inspect(spec_)->id);
  ASSERT_TRUE(exit_log) << exit_log.error().message;
  const auto failing = [&exit_log]() -> std::optional<ExitLog::Event> {
    for (const auto& event : exit_log->events())
      if (event.kind == Kind::fails) return event;
    return std::nullopt;
  };
  std::optional<ExitLog::Event> seen;
  {
    const ErrorNote error;
    { const ErrorNote nested; }
    seen = failing();
    ASSERT_TRUE(seen);
    EXPECT_EQ(seen->pid, ::getpid());
    EXPECT_TRUE(exit_log->error_pending(*seen)) << "one within it has returned, not it";
  }
  EXPECT_FALSE(exit_log->error_pending(*seen));
  Child child([](const Child::Report& report) {
    const ErrorNote error;
    report(0);
    ::pause();
    return 0;
  });
  child.next_report();
  child.kill(SIGKILL);
  child.wait();
  seen = failing();
  ASSERT_TRUE(seen);
  EXPECT_EQ(seen->pid, child.pid());
  EXPECT_TRUE(exit_log->error_pending(*seen));
}

TEST_F(ExitLogTest, ReportsAbortBeforeEndsItCauses) {
  auto exit_log = ExitLog::watch(exit_log_folder_, inspect(spec_)->id);
  ASSERT_TRUE(exit_log) << exit_log.error().message;
  note_abort(7);
  const auto events = exit_log->events();
  EXPECT_THAT(pids_of(Kind::aborts, events), testing::ElementsAre(::getpid()));
  EXPECT_EQ(events.front().abort_code, 7);
}

TEST_F(ExitLogTest, AttachesWithoutFolder) {
  const base::EnvironmentGuard absent("PENSTOCK_EXIT_LOG", "/nowhere/at/all");
  EXPECT_TRUE(attach());
  const auto exit_log = ExitLog::watch("/nowhere/at/all", 1);
  ASSERT_FALSE(exit_log);
  EXPECT_THAT(exit_log.error().message, testing::HasSubstr("/nowhere/at/all"));
}

}  // namespace
}  // namespace penstock::pool

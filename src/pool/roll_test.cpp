// Who left the pool without a word, in the order of the ends.
#include <filesystem>

#include "base/environment_guard.hpp"
#include "pool/roll.hpp"
#include "pool/test_pool.hpp"

namespace penstock::pool {
namespace {

class RollTest : public PoolTest {
 protected:
  void SetUp() override {
    create();
    roll_folder_ = folder_.file("roll");
    std::filesystem::create_directory(roll_folder_);
    guard_.emplace("PENSTOCK_ROLL", roll_folder_.c_str());
  }
  using Kind = Roll::Event::Kind;
  static std::vector<std::int64_t> those_that(Kind what, const std::vector<Roll::Event>& events) {
    std::vector<std::int64_t> pids;
    for (const auto& event : events)
      if (event.kind == what) pids.push_back(event.pid);
    return pids;
  }
  static bool stayed(const Roll& roll, std::uint64_t token) {
    return roll.stayed(static_cast<std::uint32_t>(token & 0xffff), token >> 16);
  }

  std::string roll_folder_;
  std::optional<base::EnvironmentGuard> guard_;
};

TEST_F(RollTest, TellsTheOrderInWhichTheyWereKilledHoweverLateItIsRead) {
  auto roll = Roll::watch(roll_folder_, inspect(spec_)->id);
  ASSERT_TRUE(roll) << roll.error().message;
  Child first = attached_child(), second = attached_child(), third = attached_child();
  const std::uint64_t tokens[] = {first.next_report(), second.next_report(), third.next_report()};
  std::vector<std::int64_t> pids;
  for (Child* child : {&second, &third, &first}) {
    pids.push_back(child->pid());
    child->kill(SIGKILL);
    child->wait();
  }
  const auto events = roll->events();
  EXPECT_EQ(those_that(Kind::ended, events), pids);
  EXPECT_THAT(those_that(Kind::attached, events), testing::UnorderedElementsAreArray(pids));
  EXPECT_TRUE(roll->events().empty()) << "each is told once";
  for (const std::uint64_t token : tokens) EXPECT_TRUE(stayed(*roll, token));
}

TEST_F(RollTest, WhoHasLeftThePoolIsToldOfWhenItEnds) {
  auto roll = Roll::watch(roll_folder_, inspect(spec_)->id);
  ASSERT_TRUE(roll) << roll.error().message;
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
  const auto events = roll->events();
  EXPECT_TRUE(those_that(Kind::ended, events).empty()) << "it has left the pool, and goes on";
  ASSERT_FALSE(events.empty());
  EXPECT_EQ(events.back().kind, Kind::left);
  EXPECT_EQ(events.back().generation << 16 | events.back().slot, token);
  EXPECT_FALSE(stayed(*roll, token));
  const std::int64_t pid = child.pid();
  child.kill(SIGKILL);
  child.wait();
  EXPECT_THAT(those_that(Kind::ended, roll->events()), testing::ElementsAre(pid));
}

TEST_F(RollTest, AnErrorOfMpiStandsUntilItHasReturned) {
  auto roll = Roll::watch(roll_folder_, inspect(spec_)->id);
  ASSERT_TRUE(roll) << roll.error().message;
  const auto failing = [&roll]() -> std::optional<Roll::Event> {
    for (const auto& event : roll->events())
      if (event.kind == Kind::fails) return event;
    return std::nullopt;
  };
  std::optional<Roll::Event> told;
  {
    const ErrorNote error;
    { const ErrorNote of_its_handler; }
    told = failing();
    ASSERT_TRUE(told);
    EXPECT_EQ(told->pid, ::getpid());
    EXPECT_TRUE(roll->stands(*told)) << "one within it has returned, not it";
  }
  EXPECT_FALSE(roll->stands(*told));
  Child child([](const Child::Report& report) {
    const ErrorNote error;
    report(0);
    ::pause();
    return 0;
  });
  child.next_report();
  child.kill(SIGKILL);
  child.wait();
  told = failing();
  ASSERT_TRUE(told);
  EXPECT_EQ(told->pid, child.pid());
  EXPECT_TRUE(roll->stands(*told));
}

TEST_F(RollTest, AnAbortIsToldOfBeforeTheEndsThatItBrings) {
  auto roll = Roll::watch(roll_folder_, inspect(spec_)->id);
  ASSERT_TRUE(roll) << roll.error().message;
  tell_of_abort(7);
  const auto events = roll->events();
  EXPECT_THAT(those_that(Kind::aborts, events), testing::ElementsAre(::getpid()));
  EXPECT_EQ(events.front().abort_code, 7);
}

TEST_F(RollTest, WithoutAFolderOneAttachesAllTheSame) {
  const base::EnvironmentGuard absent("PENSTOCK_ROLL", "/nowhere/at/all");
  EXPECT_TRUE(attach());
  const auto roll = Roll::watch("/nowhere/at/all", 1);
  ASSERT_FALSE(roll);
  EXPECT_THAT(roll.error().message, testing::HasSubstr("/nowhere/at/all"));
}

}  // namespace
}  // namespace penstock::pool

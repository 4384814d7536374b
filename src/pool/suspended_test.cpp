// Processes that are stopped for longer than a lease and then resume.
#include <fstream>

#include "pool/test_foreign.hpp"

namespace penstock::pool {
namespace {

using testing::HasSubstr;

/// The message and status of a child that exits because it was declared dead.
struct LastWords {
  int status = -1;
  std::string text;
};

class SuspendedTest : public ForeignTest {
 protected:
  /// A process of host 9 that attaches, reports 1, stops itself, then runs `afterwards`, and
  /// reports 2 at the end of that.
  Child stops_itself(const std::function<void(Pool&)>& afterwards,
                     const AttachOptions& options = {}) const {
    return Child([this, afterwards, options](const Child::Report& report) {
      const int said = ::open(words_.c_str(), O_WRONLY | O_CREAT | O_APPEND, 0600);
      ::dup2(said, STDERR_FILENO);
      auto pool = attach_from(9, 0, options);
      if (!pool) return 2;
      report(pool->token());
      afterwards(*pool);
      report(2);
      return 0;
    });
  }
  LastWords resume(Child& child) const {
    child.kill(SIGCONT);
    EXPECT_EQ(child.next_report(), 0u) << "it went on as if nothing had been";
    LastWords words{.status = child.wait(), .text = {}};
    std::ifstream file(words_);
    std::getline(file, words.text, '\0');
    return words;
  }
  std::string words_ = folder_.file("words");
};

TEST_F(SuspendedTest, DeclaredDeadProcessExitsAndKeepsOffSlot) {
  auto pool = attach({.rank = 3});
  Child child = stops_itself([](Pool& foreign) {
    ::raise(SIGSTOP);
    foreign.confirm();
  });
  const std::uint64_t token = child.next_report();
  child.wait_until_stopped();
  EXPECT_TRUE(dies_within(*pool, token, 60 * second));
  EXPECT_EQ(pool->reclaim().reap({}).value(), 1u);
  std::vector<std::unique_ptr<Pool>> others;  // take all slots, including that one
  for (int i = 0; i < 15; ++i) others.push_back(attach());
  const LastWords words = resume(child);
  EXPECT_EQ(words.status, declared_dead_status);
  EXPECT_THAT(words.text, HasSubstr("showed no life for a lease (400 ms)"));
  EXPECT_THAT(words.text, HasSubstr("declared dead by rank 3"));
  EXPECT_THAT(words.text, HasSubstr("PENSTOCK_LEASE_MS=1600"));
  for (const auto& other : others) EXPECT_TRUE(pool->alive(other->token()));
}

/// While its job lives, nobody reaps a member; the others only stop counting on it.
TEST_F(SuspendedTest, ProcessDeclaredDeadByItsJobExits) {
  auto pool = attach({.job = "one job"});
  Child child = stops_itself(
      [](Pool&) {
        ::raise(SIGSTOP);
        sleep_until_killed();  // only the heartbeat thread notices
      },
      {.job = "one job"});
  const std::uint64_t token = child.next_report();
  child.wait_until_stopped();
  EXPECT_TRUE(dies_within(*pool, token, 60 * second));
  EXPECT_EQ(pool->reclaim().reap({}).value(), 0u);
  EXPECT_EQ(resume(child).status, declared_dead_status);
  EXPECT_FALSE(pool->alive(token)) << "it beat once more, to find out";
}

TEST_F(SuspendedTest, UnnoticedStopIsHarmless) {
  auto pool = attach();
  Child child = stops_itself([](Pool& foreign) {
    ::raise(SIGSTOP);
    foreign.confirm();
  });
  const std::uint64_t token = child.next_report();
  child.wait_until_stopped();
  std::this_thread::sleep_for(std::chrono::milliseconds(800));
  child.kill(SIGCONT);
  EXPECT_EQ(child.next_report(), 2u);
  EXPECT_EQ(child.wait(), 0);
  EXPECT_FALSE(pool->alive(token));
}

/// A forked child has no part in the attachment: it neither keeps it alive nor exits because of it.
TEST_F(SuspendedTest, ForkedChildIsNotAffected) {
  auto pool = attach_from(9);
  Child child([&](const Child::Report&) {
    std::this_thread::sleep_for(std::chrono::milliseconds(600));
    pool->confirm();
    return 0;
  });
  EXPECT_EQ(child.wait(), 0);
}

/// As by scontrol suspend on two hosts: the first to resume finds the other one silent, but has not
/// watched it for a lease.
TEST_F(SuspendedTest, ProcessesStoppedTogetherBothLive) {
  ::setenv("PENSTOCK_LEASE_MS", "2000", 1);
  Child watched = foreign_child(9);
  const std::uint64_t token = watched.next_report();
  ASSERT_NE(token, 0u);
  Child watcher([&](const Child::Report& report) {
    auto pool = attach_from(8);
    if (!pool) return 2;
    for (int looks = 0; looks < 150; ++looks) {
      if (!pool->alive(token)) return 3;
      if (looks == 10) report(1);
      std::this_thread::sleep_for(std::chrono::milliseconds(20));
    }
    return 0;
  });
  ASSERT_EQ(watcher.next_report(), 1u);
  for (const Child* child : {&watcher, &watched}) child->kill(SIGSTOP);
  std::this_thread::sleep_for(std::chrono::seconds(3));
  for (const Child* child : {&watcher, &watched}) child->kill(SIGCONT);
  EXPECT_EQ(watcher.wait(), 0) << "3: it took the other for dead";
}

}  // namespace
}  // namespace penstock::pool

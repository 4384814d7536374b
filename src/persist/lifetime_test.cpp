// Objects that outlive their processes, and pools that cannot keep them.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/wait.h>

#include "persist/test_pool.hpp"

namespace penstock::persist {
namespace {

using arena::Lifetime;
using ::testing::HasSubstr;

/// Runs `body` in a child that is then killed.
template <class Body>
void killed(Body body) {
  const pid_t child = ::fork();
  if (child == 0) {
    body();
    ::kill(::getpid(), SIGKILL);
  }
  ::waitpid(child, nullptr, 0);
}

TEST(Lifetimes, APersistentObjectOutlivesItsProcesses) {
  const TestPool pool;
  if (pool.attach().pool->device().durability() == device::Durability::none)
    GTEST_SKIP() << "no folder on a disk: export TMPDIR";
  killed([&] {
    const auto mine = pool.attach();
    must(mine.arena->create("kept", 100, {.lifetime = Lifetime::persistent}));
    must(mine.arena->create("large", 20 << 10, {.lifetime = Lifetime::persistent}));
    must(mine.arena->create("lost", 100, {.lifetime = Lifetime::process}));
    const auto made = must(mine.arena->create("made so", 100, {.lifetime = Lifetime::process}));
    must(mine.arena->set_lifetime(made, Lifetime::persistent));
    const auto no_more =
        must(mine.arena->create("no more", 100, {.lifetime = Lifetime::persistent}));
    must(mine.arena->set_lifetime(no_more, Lifetime::process));
  });
  const auto self = pool.attach();
  must(self.arena->collect());
  EXPECT_TRUE(self.arena->open("kept"));
  EXPECT_TRUE(self.arena->open("large"));
  EXPECT_TRUE(self.arena->open("made so"));
  EXPECT_FALSE(self.arena->open("lost"));
  EXPECT_FALSE(self.arena->open("no more"));
  EXPECT_EQ(must(self.arena->lifetime(must(self.arena->open("made so")))), Lifetime::persistent);
}

TEST(Lifetimes, AnotherMayMakeItPersistent) {
  const TestPool pool;
  const auto self = pool.attach();
  if (self.pool->device().durability() == device::Durability::none) GTEST_SKIP() << "export TMPDIR";
  {
    const auto maker = pool.attach();
    const auto made = must(maker.arena->create("o", 100, {.lifetime = Lifetime::process}));
    must(self.arena->set_lifetime(must(self.arena->open("o")), Lifetime::persistent));
    EXPECT_EQ(must(maker.arena->lifetime(made)), Lifetime::persistent);
    EXPECT_EQ(maker.arena->create("o", 100).error().code, ErrorCode::already_exists);
  }
  const auto kept = must(self.arena->open("o"));
  must(self.arena->destroy(kept));
  EXPECT_EQ(self.arena->set_lifetime(kept, Lifetime::pool).error().code, ErrorCode::not_found);
}

TEST(Lifetimes, InAHostsMemoryNothingIsPersistent) {
  const TestPool pool(coherence::Mode::hardware, true);
  const auto self = pool.attach();
  EXPECT_EQ(self.pool->device().durability(), device::Durability::none);
  const auto refused = self.arena->create("o", 100, {.lifetime = Lifetime::persistent});
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, ErrorCode::unavailable);
  EXPECT_THAT(refused.error().message, HasSubstr("penstock pool create"));
  const auto object = must(self.arena->create("o", 100));
  EXPECT_FALSE(self.arena->set_lifetime(object, Lifetime::persistent));
  must(self.arena->set_lifetime(object, Lifetime::process));
}

}  // namespace
}  // namespace penstock::persist

// Misuse by a program: it is refused, and harms no other process.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/wait.h>

#include <cstring>
#include <vector>

#include "persist/checkpoint.hpp"
#include "persist/reader.hpp"
#include "persist/recovery.hpp"
#include "persist/test_pool.hpp"
#include "persist/undo_log.hpp"

namespace penstock::persist {
namespace {

using ::testing::HasSubstr;

class Misuse : public ::testing::Test {
 protected:
  Misuse() : pool_(coherence::Mode::software, true), self_(pool_.attach()) {
    object_ = must(self_.arena->create("o", 4096));
  }

  arena::Object only_log() const {
    for (const auto& each : self_.arena->list())
      if (each.name.starts_with("penstock.log.")) return each;
    throw std::runtime_error("there is no log");
  }
  static std::vector<std::byte> bytes_of(const arena::Object& object) {
    return {object.data, object.data + object.bytes};
  }

  TestPool pool_;
  Attached self_;
  arena::Object object_;
};

/// If it were destroyed, its space would have another owner when the old bytes are restored.
TEST_F(Misuse, AnObjectIsNotDestroyedInATransaction) {
  const auto other = pool_.attach();
  const auto log = must(UndoLog::open(*self_.arena));
  must(log->begin());
  must(log->add(object_, 0, 4096));
  for (arena::Arena* arena : {other.arena.get(), self_.arena.get()}) {
    const auto refused = destroy(*arena, object_);
    ASSERT_FALSE(refused);
    EXPECT_EQ(refused.error().code, ErrorCode::unavailable);
    EXPECT_THAT(refused.error().message, HasSubstr("given the object back"));
  }
  must(log->commit());
  EXPECT_FALSE(destroy(*other.arena, object_)) << "the log still holds the object";
  must(log->release(object_));
  must(destroy(*other.arena, object_));
  for (const auto& each : self_.arena->list())
    EXPECT_FALSE(each.name.starts_with("penstock.version.")) << each.name;
  EXPECT_EQ(destroy(*self_.arena, object_).error().code, ErrorCode::not_found);
}

TEST_F(Misuse, ADestroyedObjectIsNotAdded) {
  const auto log = must(UndoLog::open(*self_.arena));
  must(destroy(*self_.arena, object_));
  must(log->begin());
  EXPECT_EQ(log->add(object_, 0, 64).error().code, ErrorCode::not_found);
}

/// Users cannot destroy a log. If one is destroyed all the same, another object may get its space.
TEST_F(Misuse, ATransactionNoticesThatItsLogIsGone) {
  const auto log = must(UndoLog::open(*self_.arena, UndoLog::min_bytes));
  const arena::Object mine = only_log();
  must(self_.arena->destroy(mine));
  const auto others = must(self_.arena->create("others", mine.bytes, {.alignment = 4096}));
  ASSERT_EQ(others.offset, mine.offset);
  std::memset(others.data, 7, others.bytes);
  must(log->begin());
  const auto refused = log->add(object_, 0, 64);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, ErrorCode::unavailable);
  EXPECT_THAT(refused.error().message, HasSubstr("was destroyed while this process used it"));
  must(log->abort());
  EXPECT_THAT(bytes_of(others), testing::Each(std::byte{7}));
  must(must(UndoLog::open(*self_.arena))->begin());
}

TEST_F(Misuse, ClosingALogNoticesALostTable) {
  auto log = must(UndoLog::open(*self_.arena, UndoLog::min_bytes));
  const auto table = must(self_.arena->open("penstock.writers"));
  must(self_.arena->destroy(table));
  const auto others = must(self_.arena->create("others", table.bytes, {.alignment = 4096}));
  ASSERT_EQ(others.offset, table.offset);
  std::memset(others.data, 7, others.bytes);
  log.reset();
  EXPECT_THAT(bytes_of(others), testing::Each(std::byte{7}));
}

/// An object of lifetime process would be freed with its owner, within another process's
/// transaction.
TEST_F(Misuse, WhatTransactionsChangeOutlivesProcesses) {
  const auto log = must(UndoLog::open(*self_.arena));
  must(set_lifetime(*self_.arena, object_, arena::Lifetime::process));
  must(set_lifetime(*self_.arena, object_, arena::Lifetime::pool));
  must(log->begin());
  must(log->add(object_, 0, 64));
  EXPECT_EQ(set_lifetime(*self_.arena, object_, arena::Lifetime::process).error().code,
            ErrorCode::invalid_argument);
  must(log->commit());
}

/// As if a program called fork() within a transaction and the child returned.
TEST_F(Misuse, ForkedChildKeepsParentsTransaction) {
  const auto log = must(UndoLog::open(*self_.arena));
  must(log->begin());
  must(log->add(object_, 0, 64));
  std::memset(object_.data, 5, 64);
  const pid_t child = ::fork();
  if (child == 0) {
    const bool refused = !log->abort() && !log->commit() && !log->begin() && !log->release_all() &&
                         !log->add(object_, 64, 64);
    ::_exit(refused ? 0 : 1);
  }
  int status = -1;
  ::waitpid(child, &status, 0);
  EXPECT_EQ(status, 0);
  EXPECT_EQ(object_.data[0], std::byte{5});
  must(log->commit());
  std::byte read{};
  auto reader = must(Reader::open(*self_.arena, object_));
  EXPECT_EQ(must(reader.read(&read, 0, 1)), 2u);
  EXPECT_EQ(read, std::byte{5});
}

TEST_F(Misuse, ACheckpointIsNotMadeOverAnotherObject) {
  const auto array = must(self_.arena->create("array", pair_bytes + 2 * page_bytes));
  std::memset(array.data, 7, array.bytes);
  self_.pool->memory().write_back(array.data, array.bytes);
  self_.pool->memory().full_fence();
  const auto made = Checkpoint::create(*self_.arena, "array", 100, arena::Lifetime::pool);
  ASSERT_FALSE(made);
  EXPECT_EQ(made.error().code, ErrorCode::wrong_format);
  for (std::uint64_t at = 0; at < array.bytes; ++at) ASSERT_EQ(array.data[at], std::byte{7}) << at;
}

/// Between the making of the object and of its first line another process looks, or the maker dies.
TEST_F(Misuse, HidesUnfinishedCheckpoint) {
  (void)must(self_.arena->create("saved", pair_bytes + 2 * page_bytes));
  EXPECT_EQ(Checkpoint::open(*self_.arena, "saved").error().code, ErrorCode::not_found);
  (void)must(Checkpoint::create(*self_.arena, "saved", 100, arena::Lifetime::pool));
  EXPECT_EQ(must(must(Checkpoint::open(*self_.arena, "saved")).valid()).version, 0u);
}

TEST_F(Misuse, KeepsObjectNamedLikeVersion) {
  must(self_.arena->create("penstock.version.abc", 1 << 20, {}));
  must(collect(*self_.arena));
  EXPECT_TRUE(self_.arena->open("penstock.version.abc"));
}

}  // namespace
}  // namespace penstock::persist

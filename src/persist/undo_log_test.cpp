#include "persist/undo_log.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/wait.h>

#include <algorithm>
#include <cstring>
#include <thread>

#include "persist/reader.hpp"
#include "persist/test_pool.hpp"

namespace penstock::persist {
namespace {

using ::testing::HasSubstr;

class UndoLogs : public ::testing::TestWithParam<coherence::Mode> {
 protected:
  UndoLogs() : pool_(GetParam()), self_(pool_.attach()) {}

  arena::Object make(const char* name, std::uint64_t bytes = 4096) {
    return must(self_.arena->create(name, bytes, {.lifetime = lifetime_in(*self_.pool)}));
  }
  std::vector<std::byte> committed(const arena::Object& object) {
    std::vector<std::byte> bytes(object.bytes);
    auto reader = must(Reader::open(*self_.arena, object));
    must(reader.read(bytes.data(), 0, bytes.size()));
    return bytes;
  }
  static bool all(const std::vector<std::byte>& bytes, int value) {
    return std::all_of(bytes.begin(), bytes.end(),
                       [&](std::byte each) { return each == std::byte(value); });
  }

  TestPool pool_;
  Attached self_;
};

TEST_P(UndoLogs, CommitKeepsAndAbortRestores) {
  const auto object = make("o");
  const auto log = must(UndoLog::open(*self_.arena));
  must(log->begin());
  must(log->add(object, 0, object.bytes));
  std::memset(object.data, 1, object.bytes);
  must(log->commit());
  EXPECT_TRUE(all(committed(object), 1));
  must(log->begin());
  must(log->add(object, 100, 200));
  std::memset(object.data + 100, 2, 200);
  must(log->add(object, 90, 300));
  std::memset(object.data + 90, 3, 300);
  must(log->abort());
  EXPECT_TRUE(all(committed(object), 1));
  EXPECT_EQ(log->bytes_used(), 0u) << "the log does not grow";
}

TEST_P(UndoLogs, VersionsGrowWithEachTransaction) {
  const auto object = make("o");
  auto reader = must(Reader::open(*self_.arena, object));
  std::uint64_t word = 7;
  EXPECT_EQ(must(reader.read(&word, 0, 8)), 0u);
  const auto log = must(UndoLog::open(*self_.arena));
  for (std::uint64_t i = 1; i < 4; ++i) {
    must(log->begin());
    must(log->add(object, 0, 8));
    std::memcpy(object.data, &i, 8);
    must(log->commit());
    EXPECT_EQ(must(reader.read(&word, 0, 8)), 2 * i);
    EXPECT_EQ(word, i);
  }
}

TEST_P(UndoLogs, AnObjectHasOneWriter) {
  const auto object = make("o");
  const auto one = must(UndoLog::open(*self_.arena)), other = must(UndoLog::open(*self_.arena));
  must(one->begin());
  must(one->add(object, 0, 64));
  must(other->begin());
  const auto refused = other->add(object, 0, 64);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, ErrorCode::unavailable);
  EXPECT_THAT(refused.error().message, HasSubstr("one writer"));
  must(one->commit());
  EXPECT_FALSE(other->add(object, 0, 64)) << "the log holds the object until it is given back";
  must(one->release(object));
  must(other->add(object, 0, 64));
  must(other->commit());
}

TEST_P(UndoLogs, WhatCannotBeIsSaidInWords) {
  const auto object = make("o", 100'000);
  const auto log = must(UndoLog::open(*self_.arena, UndoLog::min_bytes));
  EXPECT_THAT(log->add(object, 0, 8).error().message, HasSubstr("no transaction is under way"));
  EXPECT_THAT(log->commit().error().message, HasSubstr("no transaction is under way"));
  must(log->begin());
  EXPECT_THAT(log->begin().error().message, HasSubstr("commit or abort it first"));
  EXPECT_THAT(log->add(object, 99'999, 2).error().message, HasSubstr("do not lie in object"));
  const auto full = log->add(object, 0, 50'000);
  EXPECT_EQ(full.error().code, ErrorCode::no_space);
  EXPECT_THAT(full.error().message, HasSubstr("open it with more"));
  EXPECT_THAT(log->release(object).error().message, HasSubstr("commit or abort it first"));
  must(log->commit());
  EXPECT_EQ(UndoLog::open(*self_.arena, 100).error().code, ErrorCode::invalid_argument);
  const auto mortal =
      must(self_.arena->create("mortal", 64, {.lifetime = arena::Lifetime::process}));
  must(log->begin());
  EXPECT_THAT(log->add(mortal, 0, 64).error().message, HasSubstr("ends with the process"));
}

TEST_P(UndoLogs, NothingIsLeftOfAClosedLog) {
  (void)make("o");
  (void)must(Writers::find_or_make(*self_.arena));
  const auto before = self_.arena->stats();
  for (int i = 0; i < 40; ++i) must(UndoLog::open(*self_.arena));
  EXPECT_EQ(self_.arena->stats().objects, before.objects);
  std::vector<std::unique_ptr<UndoLog>> logs;
  while (logs.size() < 16) logs.push_back(must(UndoLog::open(*self_.arena, UndoLog::min_bytes)));
  EXPECT_EQ(UndoLog::open(*self_.arena).error().code, ErrorCode::no_slots);
}

/// The log still holds the object when it is destroyed; its space has another owner when the log is
/// closed.
TEST_P(UndoLogs, ObjectMayBeDestroyedBeforeLogCloses) {
  const auto object = make("o");
  auto log = must(UndoLog::open(*self_.arena));
  must(log->begin());
  must(log->add(object, 0, 64));
  must(log->commit());
  must(destroy(*self_.arena, object));
  std::vector<arena::Object> later;
  for (int i = 0; i < 40; ++i) later.push_back(make(("later" + std::to_string(i)).c_str(), 64));
  log.reset();
  for (const auto& each : later) EXPECT_TRUE(all(committed(each), 0)) << each.name;
}

/// A child dies within a transaction; the next process finds the object as it was before.
TEST_P(UndoLogs, WhatADeadProcessBeganIsUndone) {
  const auto object = make("o");
  {
    const auto log = must(UndoLog::open(*self_.arena));
    must(log->begin());
    must(log->add(object, 0, object.bytes));
    std::memset(object.data, 1, object.bytes);
    must(log->commit());
  }
  const pid_t child = ::fork();
  if (child == 0) {
    const auto mine = pool_.attach();
    const auto found = must(mine.arena->open("o"));
    auto log = must(UndoLog::open(*mine.arena));
    must(log->begin());
    must(log->add(found, 0, found.bytes));
    std::memset(found.data, 2, found.bytes);
    mine.pool->memory().write_back(found.data, found.bytes);
    mine.pool->memory().full_fence();
    ::kill(::getpid(), SIGKILL);
  }
  ::waitpid(child, nullptr, 0);
  EXPECT_TRUE(all(committed(object), 1)) << "a reader undoes it";
  EXPECT_EQ(must(recover(*self_.arena)).logs, 1u);
  const auto objects = self_.arena->stats().objects;
  EXPECT_EQ(must(recover(*self_.arena)).logs, 0u);
  EXPECT_EQ(self_.arena->stats().objects, objects);
  const auto log = must(UndoLog::open(*self_.arena));
  must(log->begin());
  must(log->add(object, 0, 64));
  must(log->commit());
}

/// Each thread has a log of its own; they share the process's token, and no object.
TEST_P(UndoLogs, TwoThreadsHaveALogEach) {
  const arena::Object objects[] = {make("a"), make("b")};
  std::thread one([&] {
    const auto mine = must(UndoLog::open(*self_.arena, 64 << 10));
    for (int i = 1; i <= 50; ++i) {
      must(mine->begin());
      must(mine->add(objects[0], 0, 4096));
      std::memset(objects[0].data, i, 4096);
      must(i % 3 == 0 ? mine->abort() : mine->commit());
    }
  });
  const auto second = must(UndoLog::open(*self_.arena, 64 << 10));
  for (int i = 1; i <= 50; ++i) {
    must(second->begin());
    must(second->add(objects[1], 0, 4096));
    std::memset(objects[1].data, i, 4096);
    must(second->commit());
  }
  one.join();
  EXPECT_TRUE(all(committed(objects[0]), 50));
  EXPECT_TRUE(all(committed(objects[1]), 50));
}

INSTANTIATE_TEST_SUITE_P(Modes, UndoLogs,
                         ::testing::Values(coherence::Mode::hardware, coherence::Mode::software),
                         [](const auto& each) { return coherence::mode_name(each.param); });

}  // namespace
}  // namespace penstock::persist

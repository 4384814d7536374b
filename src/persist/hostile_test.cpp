// Damaged lines where recovery, readers and checkpoints look.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/wait.h>

#include <cstring>
#include <random>

#include "base/seed_in_tests.hpp"
#include "persist/checkpoint.hpp"
#include "persist/reader.hpp"
#include "persist/recovery.hpp"
#include "persist/test_pool.hpp"
#include "persist/undo_log.hpp"

namespace penstock::persist {
namespace {

using ::testing::HasSubstr;

class Hostile : public ::testing::Test {
 protected:
  Hostile() : pool_(coherence::Mode::software, true), self_(pool_.attach()) {
    object_ = must(self_.arena->create("o", 1024));
    leave_half_done();
    for (const auto& each : self_.arena->list())
      if (each.name.starts_with("penstock.log.")) log_ = each;
  }
  /// Leaves three entries of a transaction whose process was killed.
  void leave_half_done() {
    const pid_t child = ::fork();
    if (child == 0) {
      const auto mine = pool_.attach();
      const auto found = must(mine.arena->open("o"));
      auto log = must(UndoLog::open(*mine.arena, UndoLog::min_bytes));
      must(log->begin());
      for (const std::uint64_t at : {0, 256, 512}) {
        must(log->add(found, at, 128));
        std::memset(found.data + at, 9, 128);
      }
      mine.pool->memory().write_back(found.data, found.bytes);
      mine.pool->memory().full_fence();
      ::kill(::getpid(), SIGKILL);
    }
    ::waitpid(child, nullptr, 0);
  }
  /// Returns an entry of the log, by number.
  EntryHeader* entry(std::uint64_t number) {
    return reinterpret_cast<EntryHeader*>(log_.data + pair_bytes + number * (64 + 128));
  }
  void forge(EntryHeader& header) const {
    const std::uint64_t key = key_of(self_.pool->info().id, log_.generation, Kind::entry);
    header.checksum = checksum_of(header, base::xxh64(&header + 1, header.bytes, key));
  }
  std::string refused() {
    const auto recovered = recover(*self_.arena);
    return recovered ? "" : recovered.error().message;
  }

  TestPool pool_;
  Attached self_;
  arena::Object object_, log_;
};

TEST_F(Hostile, AnEntryOfAnotherPlaceIsRefused) {
  entry(1)->offset = 4096;
  forge(*entry(1));
  EXPECT_THAT(refused(), HasSubstr("do not lie in object \"o\""));
}

TEST_F(Hostile, ReportsDamagedEntryAndRestoresNothing) {
  entry(1)->offset = 64;
  EXPECT_THAT(refused(), HasSubstr("entry 1 of a transaction is damaged"));
  EXPECT_EQ(object_.data[0], std::byte{9});
  EXPECT_EQ(object_.data[600], std::byte{9});
}

TEST_F(Hostile, ADamagedLogIsDiscardedOnRequest) {
  entry(1)->offset = 64;
  EXPECT_THAT(refused(), HasSubstr("--discard-damaged-logs"));
  EXPECT_FALSE(collect(*self_.arena));
  const auto collected = must(collect(*self_.arena, DamagedLogs::discard));
  EXPECT_THAT(collected.discarded, testing::ElementsAre(log_.name));
  EXPECT_EQ(object_.data[600], std::byte{9}) << "as the process left it";
  EXPECT_EQ(refused(), "");
  const auto log = must(UndoLog::open(*self_.arena));
  must(log->begin());
  must(log->add(object_, 0, 64));
  must(log->commit());
}

TEST_F(Hostile, IgnoresDamagedLastEntry) {
  entry(2)->bytes = 1 << 20;
  EXPECT_EQ(refused(), "");
  EXPECT_EQ(object_.data[0], std::byte{0});
  EXPECT_EQ(object_.data[600], std::byte{9});
}

TEST_F(Hostile, SkipsEntryOfDestroyedObject) {
  must(self_.arena->destroy(object_));
  EXPECT_EQ(refused(), "");
}

TEST_F(Hostile, ATooSmallLogIsRefused) {
  const auto name = log_.name;
  must(self_.arena->destroy(log_));
  (void)must(self_.arena->create(name, 64));
  EXPECT_THAT(refused(), HasSubstr("which no undo log has"));
}

TEST_F(Hostile, AVersionThatNobodyEndsHasADeadline) {
  must(recover(*self_.arena));
  arena::Object version;
  for (const auto& each : self_.arena->list())
    if (each.name.starts_with("penstock.version.")) version = each;
  PairLine line;
  line.step = 1001;
  line.words[0] = 77;
  line.checksum =
      checksum_of(line, key_of(self_.pool->info().id, version.generation, Kind::version));
  std::memcpy(version.data + 64, &line, sizeof line);
  auto reader = must(Reader::open(*self_.arena, object_));
  std::uint64_t word;
  EXPECT_EQ(reader.read(&word, 0, 8, 20'000'000).error().code, ErrorCode::deadline);
}

/// Random words anywhere in this module's memory: an answer or an error, and no crash.
TEST_F(Hostile, RandomWordsEndNothing) {
  (void)must(Checkpoint::create(*self_.arena, "saved", 4096, arena::Lifetime::pool));
  std::mt19937_64 random(base::seed_in_tests());
  for (int round = 0; round < 300; ++round) {
    for (const auto& each : self_.arena->list()) {
      if (each.name == "o") continue;
      const std::uint64_t lines = std::min<std::uint64_t>(each.bytes, 20'000) / 8;
      auto* words = reinterpret_cast<std::uint64_t*>(each.data);
      words[random() % lines] = random() % 3 == 0 ? random() : random() % 5000;
    }
    (void)recover(*self_.arena);
    auto reader = must(Reader::open(*self_.arena, object_));
    std::uint64_t word;
    (void)reader.read(&word, 0, 8, 1'000'000);
    auto saved = Checkpoint::open(*self_.arena, "saved");
    if (!saved || !saved->begin()) continue;
    (void)saved->write(0, &word, 8);
    (void)saved->commit(1);
    const auto log = UndoLog::open(*self_.arena, UndoLog::min_bytes);
    if (!log || !(*log)->begin()) continue;
    (void)(*log)->add(object_, 0, 1024);
    (void)(*log)->commit();
  }
}

}  // namespace
}  // namespace penstock::persist

// A file system that cannot write: data that was not written does not count as durable.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/syscall.h>

#include <cerrno>
#include <cstring>
#include <mutex>
#include <utility>
#include <vector>

#include "persist/test_pool.hpp"
#include "persist/undo_log.hpp"

namespace {

std::mutex counting;  // tests of this program have threads
int good_syncs = -1;  // syncs that succeed before one fails; -1: none fails
std::vector<std::pair<std::uintptr_t, std::uintptr_t>> written;

}  // namespace

/// Replaces the C library's msync.
extern "C" int msync(void* at, std::size_t bytes,
                     int flags) noexcept(noexcept(::msync(at, bytes, flags))) {
  {
    const std::lock_guard lock(counting);
    if (good_syncs == 0) {
      errno = EIO;
      return -1;
    }
    if (good_syncs > 0) --good_syncs;
    const auto first = reinterpret_cast<std::uintptr_t>(at);
    written.emplace_back(first, first + bytes);
  }
  return static_cast<int>(::syscall(SYS_msync, at, bytes, flags));
}

namespace penstock::persist {
namespace {

class Syncs : public ::testing::Test {
 protected:
  Syncs() : self_(pool_.attach()) {}
  void SetUp() override {
    if (self_.pool->device().durability() != device::Durability::file)
      GTEST_SKIP() << "the pool is in no file that a page cache maps";
    object_ = must(self_.arena->create("o", 8192, {.lifetime = arena::Lifetime::persistent}));
    log_ = must(UndoLog::open(*self_.arena));
    must(log_->begin());
    must(log_->add(object_, 4096, 64));  // the log holds the object from here on
    must(log_->commit());
    must(log_->begin());
  }
  ~Syncs() override { good_syncs = -1; }

  /// True if all of this transaction's log, and its pair, were written.
  bool log_is_written(std::uint64_t bytes) const {
    for (const auto& each : self_.arena->list()) {
      if (!each.name.starts_with("penstock.log.")) continue;
      const auto from = reinterpret_cast<std::uintptr_t>(each.data) + pair_bytes;
      bool state = false, entries = false;
      for (const auto& [first, end] : written) {
        state = state || (first < from && end > from - pair_bytes);
        entries = entries || (first <= from && end >= from + bytes);
      }
      return state && entries;
    }
    return false;
  }

  TestPool pool_;
  Attached self_;
  arena::Object object_;
  std::unique_ptr<UndoLog> log_;
};

TEST_F(Syncs, NextAddWritesWhatFailedAddOmitted) {
  for (const int good : {0, 1}) {  // fails at the pair, then at the entry
    good_syncs = good;
    EXPECT_EQ(log_->add(object_, 0, 64).error().code, ErrorCode::unavailable);
    EXPECT_EQ(log_->add(object_, 0, 64).error().code, ErrorCode::unavailable)
        << "a second call does not make it durable";
    good_syncs = -1;
    written.clear();
    must(log_->add(object_, 0, 64));
    EXPECT_TRUE(log_is_written(3 * 128)) << good;
    std::memset(object_.data, 1 + good, 64);
    must(log_->commit());
    must(log_->begin());
  }
}

/// The caller may still abort, and may die while it does.
TEST_F(Syncs, ACommitThatFailsIsNone) {
  must(log_->add(object_, 0, 64));
  std::memset(object_.data, 1, 64);
  for (const int good : {0, 1}) {  // fails at the bytes, then at the pair
    good_syncs = good;
    EXPECT_EQ(log_->commit().error().code, ErrorCode::unavailable);
    good_syncs = -1;
    for (const auto& each : self_.arena->list()) {
      if (!each.name.starts_with("penstock.log.")) continue;
      const Lane lane(must(Device::of(*self_.pool)), each, self_.pool->info().id);
      EXPECT_TRUE(lane.active()) << good;
    }
  }
  must(log_->abort());
  EXPECT_EQ(object_.data[0], std::byte{0});
}

}  // namespace
}  // namespace penstock::persist

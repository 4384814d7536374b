// libpenstock.so as a program uses it: through the C headers only.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <cstdlib>
#include <cstring>
#include <numeric>
#include <string>
#include <thread>
#include <vector>

#include "base/environment_guard.hpp"
#include "base/fork_in_tests.hpp"
#include "penstock/cxl_memory.h"
#include "penstock/cxl_shm.h"
#include "penstock/penstock.h"
#include "penstock/persist.h"

extern "C" int c11_program(const char* name);

namespace {

class Abi : public ::testing::Test {
 protected:
  void SetUp() override {
    penstock_pool_options_t options{};
    options.struct_bytes = sizeof options;
    options.bytes = 16 << 20;
    options.max_processes = 16;
    options.max_nodes = 4;
    ASSERT_EQ(penstock_pool_create(spec_.c_str(), &options), PENSTOCK_OK) << penstock_last_error();
    ASSERT_EQ(penstock_pool_attach(spec_.c_str(), nullptr, &pool_), PENSTOCK_OK)
        << penstock_last_error();
  }
  void TearDown() override {
    penstock_pool_detach(pool_);
    penstock_pool_remove(spec_.c_str(), 1);
  }

  penstock_object_t* make(const char* name, std::uint64_t bytes) {
    penstock_object_t* object = nullptr;
    EXPECT_EQ(penstock_arena_create(pool_, name, bytes, nullptr, &object), PENSTOCK_OK)
        << penstock_last_error();
    return object;
  }

  static std::vector<std::string> names_in(penstock_pool_t* pool) {
    std::vector<std::string> names;
    const auto keep = [](const penstock_object_info_t* info, void* user) {
      static_cast<std::vector<std::string>*>(user)->push_back(info->name);
    };
    EXPECT_EQ(penstock_arena_list(pool, keep, &names), PENSTOCK_OK);
    return names;
  }

  std::string spec_ = "shm:penstock-abi-test-" + std::to_string(getpid());
  penstock_pool_t* pool_ = nullptr;
};

TEST_F(Abi, ReportsVersionAndStatusNames) {
  EXPECT_STREQ(penstock_version(), PENSTOCK_VERSION_TEXT);
  EXPECT_STREQ(penstock_status_name(PENSTOCK_OK), "ok");
  EXPECT_STREQ(penstock_status_name(PENSTOCK_NO_SPACE), "no_space");
  EXPECT_STREQ(penstock_status_name(1000), "unknown");
}

TEST_F(Abi, LastErrorIsPerThread) {
  penstock_object_t* object = reinterpret_cast<penstock_object_t*>(1);
  ASSERT_EQ(penstock_arena_open(pool_, "absent", &object), PENSTOCK_NOT_FOUND);
  EXPECT_EQ(object, nullptr);
  EXPECT_NE(std::string(penstock_last_error()).find("absent"), std::string::npos);
  std::string others = "unset";
  std::thread([&] { others = penstock_last_error(); }).join();
  EXPECT_EQ(others, "");
}

TEST_F(Abi, PoolInfo) {
  penstock_pool_info_t info{};
  ASSERT_EQ(penstock_pool_info(pool_, &info), PENSTOCK_OK);
  EXPECT_EQ(info.bytes, 16u << 20);
  EXPECT_EQ(info.mode, PENSTOCK_MODE_SOFTWARE);
  EXPECT_EQ(info.max_processes, 16u);
  EXPECT_NE(info.id, 0u);
  EXPECT_NE(info.token, 0u);
  EXPECT_EQ(info.objects, 0u);
  EXPECT_GT(info.object_bytes_largest_free, 8u << 20);
}

TEST_F(Abi, RefusesUnusableArguments) {
  penstock_pool_t* pool = nullptr;
  penstock_object_t* object = nullptr;
  EXPECT_EQ(penstock_pool_attach("shm:penstock-no-such-pool", nullptr, &pool), PENSTOCK_NOT_FOUND);
  EXPECT_EQ(pool, nullptr);
  EXPECT_EQ(penstock_pool_create(nullptr, nullptr), PENSTOCK_INVALID_ARGUMENT);
  EXPECT_EQ(penstock_pool_create(spec_.c_str(), nullptr), PENSTOCK_ALREADY_EXISTS)
      << penstock_last_error();
  penstock_pool_options_t foreign{};
  foreign.struct_bytes = 1 << 20;
  EXPECT_EQ(penstock_pool_create(spec_.c_str(), &foreign), PENSTOCK_INVALID_ARGUMENT);
  penstock_attach_options_t hardware{};
  hardware.struct_bytes = sizeof hardware;
  hardware.mode = PENSTOCK_MODE_HARDWARE;
  EXPECT_EQ(penstock_pool_attach(spec_.c_str(), &hardware, &pool), PENSTOCK_MISMATCH);
  EXPECT_EQ(penstock_arena_create(nullptr, "x", 1, nullptr, &object), PENSTOCK_INVALID_ARGUMENT);
  EXPECT_EQ(penstock_arena_create(pool_, nullptr, 1, nullptr, &object), PENSTOCK_INVALID_ARGUMENT);
  EXPECT_EQ(penstock_arena_create(pool_, "x", 1, nullptr, nullptr), PENSTOCK_INVALID_ARGUMENT);
  EXPECT_EQ(penstock_arena_create(pool_, "x", 1ull << 40, nullptr, &object), PENSTOCK_NO_SPACE);
  penstock_object_options_t options{};
  options.struct_bytes = sizeof options;
  options.lifetime = 9;
  EXPECT_EQ(penstock_arena_create(pool_, "x", 1, &options, &object), PENSTOCK_INVALID_ARGUMENT);
  EXPECT_EQ(penstock_arena_destroy(nullptr), PENSTOCK_INVALID_ARGUMENT);
  penstock_arena_close(nullptr);
  penstock_pool_detach(nullptr);
}

TEST_F(Abi, AcceptsOptionsOfOlderHeader) {
  penstock_object_options_t options{};
  options.struct_bytes = offsetof(penstock_object_options_t, alignment);
  options.lifetime = PENSTOCK_LIFETIME_POOL;
  options.alignment = 3;  // beyond the fields that the older program knows
  penstock_object_t* object = nullptr;
  ASSERT_EQ(penstock_arena_create(pool_, "x", 1, &options, &object), PENSTOCK_OK);
  penstock_arena_close(object);
}

TEST_F(Abi, ObjectsAreListedAndDestroyed) {
  penstock_arena_close(make("beta", 100));
  penstock_object_t* alpha = make("alpha", 200);
  EXPECT_THAT(names_in(pool_), testing::ElementsAre("alpha", "beta"));
  penstock_object_info_t info{};
  penstock_object_info(alpha, &info);
  EXPECT_STREQ(info.name, "alpha");
  EXPECT_EQ(info.bytes, 200u);
  EXPECT_EQ(info.data, penstock_object_data(alpha));
  EXPECT_EQ(info.offset % 64, 0u);
  ASSERT_EQ(penstock_arena_destroy(alpha), PENSTOCK_OK);
  EXPECT_EQ(penstock_arena_open(pool_, "alpha", &alpha), PENSTOCK_NOT_FOUND);
  std::uint32_t processes = 9, objects = 9;
  std::uint64_t bytes = 9;
  EXPECT_EQ(penstock_arena_collect(pool_, 1, &processes, &objects, &bytes), PENSTOCK_OK);
  EXPECT_EQ(processes + objects + bytes, 0u);
}

TEST_F(Abi, HandlesKeepTheAttachment) {
  penstock_object_t* object = make("x", 64);
  penstock_pool_detach(pool_);
  pool_ = nullptr;
  std::memset(penstock_object_data(object), 1, 64);
  EXPECT_EQ(penstock_arena_destroy(object), PENSTOCK_OK) << penstock_last_error();
}

TEST_F(Abi, WritesAndReadsAtAnyAlignment) {
  penstock_object_t* object = make("bytes", 4096);
  auto* data = static_cast<unsigned char*>(penstock_object_data(object));
  std::vector<unsigned char> model(4096), pattern(1000);
  std::iota(pattern.begin(), pattern.end(), static_cast<unsigned char>(1));
  for (const std::size_t offset : {0u, 1u, 63u, 64u, 100u, 2000u}) {
    for (const std::size_t count : {0u, 1u, 5u, 63u, 64u, 65u, 200u, 1000u}) {
      ASSERT_EQ(penstock_write(pool_, data + offset, pattern.data(), count), PENSTOCK_OK);
      std::copy_n(pattern.begin(), count, model.begin() + static_cast<long>(offset));
      std::vector<unsigned char> all(4096);
      ASSERT_EQ(penstock_read(pool_, all.data(), data, all.size()), PENSTOCK_OK);
      ASSERT_EQ(all, model) << count << " bytes at " << offset;
    }
  }
  unsigned char outside[8] = {};
  EXPECT_EQ(penstock_write(pool_, outside, pattern.data(), 8), PENSTOCK_INVALID_ARGUMENT);
  EXPECT_EQ(penstock_read(pool_, outside, data, 1ull << 40), PENSTOCK_INVALID_ARGUMENT);
  EXPECT_EQ(penstock_publish(pool_, outside, 8), PENSTOCK_INVALID_ARGUMENT);
  EXPECT_EQ(penstock_observe(pool_, outside, 8), PENSTOCK_INVALID_ARGUMENT);
  penstock_arena_close(object);
}

TEST_F(Abi, PlainStoresArePublishedAndObserved) {
  penstock_object_t* object = make("shared", 4096);
  auto* data = static_cast<unsigned char*>(penstock_object_data(object));
  std::memset(data, 7, 4096);
  ASSERT_EQ(penstock_publish(pool_, data, 4096), PENSTOCK_OK);
  penstock_pool_t* other = nullptr;
  penstock_object_t* seen = nullptr;
  ASSERT_EQ(penstock_pool_attach(spec_.c_str(), nullptr, &other), PENSTOCK_OK);
  ASSERT_EQ(penstock_arena_open(other, "shared", &seen), PENSTOCK_OK);
  ASSERT_EQ(penstock_observe(other, penstock_object_data(seen), 4096), PENSTOCK_OK);
  EXPECT_EQ(std::memcmp(penstock_object_data(seen), std::vector<char>(4096, 7).data(), 4096), 0);
  penstock_arena_close(seen);
  penstock_pool_detach(other);
  penstock_arena_close(object);
}

TEST_F(Abi, LockExcludesAndBarrierMeets) {
  constexpr std::uint32_t parties = 3;
  constexpr int rounds = 200;
  penstock_object_t* object =
      make("sync", 64 + penstock_lock_bytes(parties) + penstock_barrier_bytes(parties));
  const std::uint64_t lock_at = 64, barrier_at = 64 + penstock_lock_bytes(parties);
  // The lock guards it, so it needs no atomic addition. Atomic accesses satisfy the thread
  // sanitizer, which does not see the order given by fences and vector stores.
  std::atomic<int> inside = 0, total = 0;
  const auto add = [](std::atomic<int>& to, int what) {
    const int sum = to.load(std::memory_order_relaxed) + what;
    to.store(sum, std::memory_order_relaxed);
    return sum;
  };
  std::atomic<int> overlaps = 0, errors = 0, arrived = 0;
  std::vector<std::thread> threads;
  for (std::uint32_t self = 0; self < parties; ++self) {
    threads.emplace_back([&, self] {
      penstock_lock_t* lock = nullptr;
      penstock_barrier_t* barrier = nullptr;
      errors += penstock_lock_open(object, lock_at, parties, self, &lock) != PENSTOCK_OK;
      errors += penstock_barrier_open(object, barrier_at, parties, self, &barrier) != PENSTOCK_OK;
      for (int round = 0; round < rounds; ++round) {
        errors += penstock_lock_acquire(lock, 0) != PENSTOCK_OK;
        overlaps += add(inside, 1) != 1;
        add(total, 1);
        add(inside, -1);
        penstock_lock_release(lock);
      }
      ++arrived;
      errors += penstock_barrier_wait(barrier, 0) != PENSTOCK_OK;
      errors += arrived != static_cast<int>(parties);
      penstock_barrier_close(barrier);
      penstock_lock_close(lock);
    });
  }
  for (auto& thread : threads) thread.join();
  EXPECT_EQ(errors, 0);
  EXPECT_EQ(overlaps, 0);
  EXPECT_EQ(total, rounds * static_cast<int>(parties));
  penstock_arena_close(object);
}

TEST_F(Abi, SynchronizationStaysInsideItsObject) {
  penstock_object_t* object = make("small", 128);
  penstock_barrier_t* barrier = nullptr;
  penstock_lock_t* lock = nullptr;
  penstock_doorbell_t* doorbell = nullptr;
  EXPECT_EQ(penstock_barrier_open(object, 0, 3, 0, &barrier), PENSTOCK_INVALID_ARGUMENT);
  EXPECT_EQ(penstock_barrier_open(object, 0, 2, 2, &barrier), PENSTOCK_INVALID_ARGUMENT);
  EXPECT_EQ(penstock_barrier_open(object, 1, 1, 0, &barrier), PENSTOCK_INVALID_ARGUMENT);
  EXPECT_EQ(penstock_lock_open(object, ~0ull - 63, 2, 0, &lock), PENSTOCK_INVALID_ARGUMENT);
  EXPECT_EQ(penstock_doorbell_open(object, 128, &doorbell), PENSTOCK_INVALID_ARGUMENT);
  EXPECT_EQ(penstock_doorbell_open(nullptr, 0, &doorbell), PENSTOCK_INVALID_ARGUMENT);
  EXPECT_EQ(barrier, nullptr);
  EXPECT_EQ(lock, nullptr);
  EXPECT_EQ(doorbell, nullptr);
  penstock_arena_close(object);
}

TEST_F(Abi, LockIsNotRecursiveAndTimesOut) {
  penstock_object_t* object = make("lock", penstock_lock_bytes(2));
  penstock_lock_t *first = nullptr, *second = nullptr;
  ASSERT_EQ(penstock_lock_open(object, 0, 2, 0, &first), PENSTOCK_OK);
  ASSERT_EQ(penstock_lock_open(object, 0, 2, 1, &second), PENSTOCK_OK);
  ASSERT_EQ(penstock_lock_acquire(first, 0), PENSTOCK_OK);
  EXPECT_EQ(penstock_lock_acquire(first, 0), PENSTOCK_INVALID_ARGUMENT);
  EXPECT_EQ(penstock_lock_acquire(second, 5'000'000), PENSTOCK_DEADLINE);
  EXPECT_EQ(penstock_lock_acquire_shared(second, 5'000'000), PENSTOCK_DEADLINE);
  penstock_lock_release(first);
  ASSERT_EQ(penstock_lock_acquire_shared(first, 0), PENSTOCK_OK);
  EXPECT_EQ(penstock_lock_acquire_shared(first, 0), PENSTOCK_INVALID_ARGUMENT);
  EXPECT_EQ(penstock_lock_acquire(second, 5'000'000), PENSTOCK_DEADLINE);
  EXPECT_EQ(penstock_lock_acquire_shared(second, 0), PENSTOCK_OK);
  penstock_lock_release(second);
  penstock_lock_close(first);  // releases
  EXPECT_EQ(penstock_lock_acquire(second, 0), PENSTOCK_OK);
  penstock_lock_close(second);
  penstock_arena_close(object);
}

TEST_F(Abi, DoorbellRefusesASmallerNumber) {
  penstock_object_t* object = make("bell", penstock_doorbell_bytes());
  penstock_doorbell_t *first = nullptr, *later = nullptr;
  ASSERT_EQ(penstock_doorbell_open(object, 0, &first), PENSTOCK_OK);
  ASSERT_EQ(penstock_doorbell_open(object, 0, &later), PENSTOCK_OK);
  ASSERT_EQ(penstock_doorbell_ring(first, 7), PENSTOCK_OK);
  for (penstock_doorbell_t* const bell : {first, later}) {
    EXPECT_EQ(penstock_doorbell_ring(bell, 6), PENSTOCK_INVALID_ARGUMENT);
    EXPECT_THAT(penstock_last_error(),
                testing::HasSubstr("the doorbell's number is 7, and 6 is smaller"));
    EXPECT_EQ(penstock_doorbell_read(bell), 7u);
  }
  EXPECT_EQ(penstock_doorbell_ring(later, 7), PENSTOCK_OK);
  EXPECT_EQ(penstock_doorbell_ring(later, 8), PENSTOCK_OK);
  EXPECT_EQ(penstock_doorbell_read(first), 8u);
  penstock_doorbell_close(first);
  penstock_doorbell_close(later);
  penstock_arena_close(object);
}

TEST_F(Abi, DoorbellWakesAndNoticesTheDead) {
  penstock::base::skip_unless_fork_is_followed();
  penstock_object_t* object = make("bell", penstock_doorbell_bytes());
  penstock_doorbell_t* bell = nullptr;
  ASSERT_EQ(penstock_doorbell_open(object, 0, &bell), PENSTOCK_OK);
  EXPECT_EQ(penstock_doorbell_read(bell), 0u);
  penstock_doorbell_ring(bell, 5);
  EXPECT_EQ(penstock_doorbell_read(bell), 5u);
  EXPECT_EQ(penstock_doorbell_wait(bell, 4, 0, 0), PENSTOCK_OK);
  EXPECT_EQ(penstock_doorbell_wait(bell, 6, 5'000'000, 0), PENSTOCK_DEADLINE);
  int to_parent[2];
  ASSERT_EQ(pipe(to_parent), 0);
  const pid_t child = fork();
  if (child == 0) {
    penstock_pool_t* mine = nullptr;
    penstock_pool_info_t info{};
    if (penstock_pool_attach(spec_.c_str(), nullptr, &mine) != PENSTOCK_OK) _exit(1);
    if (penstock_pool_info(mine, &info) != PENSTOCK_OK) _exit(2);
    if (write(to_parent[1], &info.token, sizeof info.token) != sizeof info.token) _exit(3);
    _exit(0);  // dies attached
  }
  std::uint64_t token = 0;
  ASSERT_EQ(read(to_parent[0], &token, sizeof token), static_cast<ssize_t>(sizeof token));
  int status = 0;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  EXPECT_EQ(penstock_doorbell_wait(bell, 6, 0, token), PENSTOCK_PEER_DEAD) << penstock_last_error();
  EXPECT_THAT(penstock_last_error(), testing::HasSubstr(std::to_string(child) + " on host"));
  close(to_parent[0]);
  close(to_parent[1]);
  penstock_doorbell_close(bell);
  penstock_arena_close(object);
}

TEST_F(Abi, SixPublishedCalls) {
  cxl_shm_obj_t object{}, again{};
  EXPECT_EQ(cxl_shm_create("early", 64, &object), -1);
  EXPECT_EQ(errno, ENXIO);
  ASSERT_EQ(setenv("PENSTOCK_POOL", spec_.c_str(), 1), 0);
  ASSERT_EQ(cxl_shm_init(), 0) << penstock_last_error();
  ASSERT_EQ(cxl_shm_init(), 0) << "counted";
  ASSERT_EQ(cxl_shm_create("window", 1000, &object), 0) << penstock_last_error();
  EXPECT_EQ(object.size, 1000u);
  EXPECT_EQ(cxl_shm_create("window", 1000, &again), -1);
  EXPECT_EQ(errno, EEXIST);
  std::memset(object.addr, 3, 1000);
  EXPECT_EQ(cxl_shm_publish(&object, 0, 1000), 0);
  EXPECT_EQ(cxl_shm_publish(&object, 1, 1000), -1);
  EXPECT_EQ(errno, EINVAL);
  ASSERT_EQ(cxl_shm_open("window", &again), 0);
  EXPECT_EQ(cxl_shm_observe(&again, 0, 1000), 0);
  EXPECT_EQ(static_cast<char*>(again.addr)[999], 3);
  EXPECT_EQ(cxl_shm_destroy(&object), 0);
  EXPECT_EQ(object.handle, nullptr);
  EXPECT_EQ(cxl_shm_destroy(&again), -1) << "destroyed already";
  EXPECT_EQ(errno, ENOENT);
  EXPECT_EQ(cxl_shm_open("window", &again), -1);
  EXPECT_EQ(errno, ENOENT);
  EXPECT_EQ(cxl_shm_create("penstock.endpoints", 64, &again), -1);
  EXPECT_EQ(errno, EINVAL);
  EXPECT_EQ(cxl_shm_create("huge", 1ull << 40, &again), -1);
  EXPECT_EQ(errno, ENOMEM);
  EXPECT_EQ(cxl_shm_finalize(), 0);
  EXPECT_NE(penstock_default_pool(), nullptr);
  EXPECT_EQ(c11_program("from-c"), 0);
  EXPECT_EQ(cxl_shm_finalize(), 0);
  EXPECT_EQ(penstock_default_pool(), nullptr);
  EXPECT_EQ(cxl_shm_finalize(), -1);
}

/// If a user destroyed a living process's undo log, that process would go on writing there.
TEST_F(Abi, HidesPenstocksOwnObjects) {
  penstock_undo_log_t* log = nullptr;
  ASSERT_EQ(penstock_undo_log_open(pool_, 0, &log), PENSTOCK_OK) << penstock_last_error();
  penstock_object_t* object = nullptr;
  penstock_checkpoint_t* checkpoint = nullptr;
  for (const char* name : {"penstock.writers", "penstock.log.1.0", "penstock."}) {
    EXPECT_EQ(penstock_arena_open(pool_, name, &object), PENSTOCK_INVALID_ARGUMENT) << name;
    EXPECT_THAT(penstock_last_error(), testing::HasSubstr("one of Penstock's own"));
    EXPECT_EQ(penstock_arena_create(pool_, name, 64, nullptr, &object), PENSTOCK_INVALID_ARGUMENT);
    EXPECT_EQ(penstock_checkpoint_open(pool_, name, &checkpoint), PENSTOCK_INVALID_ARGUMENT);
    EXPECT_EQ(penstock_checkpoint_create(pool_, name, 64, PENSTOCK_LIFETIME_POOL, &checkpoint),
              PENSTOCK_INVALID_ARGUMENT);
  }
  penstock_arena_close(make("penstock", 64));
  EXPECT_THAT(names_in(pool_), testing::ElementsAre("penstock"));
  penstock_undo_log_close(log);
}

TEST_F(Abi, ShowsOwnObjectsToPenstocksLibraries) {
  penstock_attach_options_t options{};
  options.struct_bytes = sizeof options;
  options.reserved_names = 1;
  penstock_pool_t* of_library = nullptr;
  ASSERT_EQ(penstock_pool_attach(spec_.c_str(), &options, &of_library), PENSTOCK_OK);
  penstock_object_t* object = nullptr;
  EXPECT_EQ(penstock_arena_create(of_library, "penstock.x", 64, nullptr, &object), PENSTOCK_OK);
  EXPECT_THAT(names_in(of_library), testing::ElementsAre("penstock.x"));
  EXPECT_THAT(names_in(pool_), testing::IsEmpty());
  EXPECT_EQ(penstock_arena_destroy(object), PENSTOCK_OK);
  penstock_pool_detach(of_library);
}

TEST_F(Abi, DealsRanksOfAJobToEmulatedNodes) {
  const penstock::base::EnvironmentGuard nodes("PENSTOCK_NODES", "2");
  const auto node_of = [this](std::int32_t rank, std::uint32_t ranks) {
    penstock_attach_options_t options{};
    options.struct_bytes = sizeof options;
    options.rank = rank;
    options.ranks = ranks;
    penstock_pool_t* pool = nullptr;
    penstock_pool_info_t info{};
    EXPECT_EQ(penstock_pool_attach(spec_.c_str(), &options, &pool), PENSTOCK_OK)
        << penstock_last_error();
    EXPECT_EQ(penstock_pool_info(pool, &info), PENSTOCK_OK);
    penstock_pool_detach(pool);
    return info.node;
  };
  penstock_pool_info_t own{};
  ASSERT_EQ(penstock_pool_info(pool_, &own), PENSTOCK_OK);
  const std::uint32_t first = node_of(0, 3);
  EXPECT_EQ(node_of(1, 3), first);
  EXPECT_NE(node_of(2, 3), first);
  EXPECT_EQ(node_of(2, 0), own.node);  // without the number of ranks there are no blocks
  EXPECT_EQ(node_of(-1, 3), own.node);
  const penstock::base::EnvironmentGuard named("PENSTOCK_NODE", "0");
  EXPECT_EQ(node_of(2, 3), first);
}

/// Two ranks of a job in one process; between processes: examples/allgather.
TEST_F(Abi, FiveCallsForMemoryOfAJob) {
  cxl_memory_t first, second, other;
  std::uint64_t at = 0, same = 1;
  const std::string text = "what one rank writes the other reads";
  char found[64] = {};
  ASSERT_EQ(cxlinit(spec_.c_str(), "job", 0, 2, &first), PENSTOCK_OK) << penstock_last_error();
  EXPECT_EQ(cxlinit(spec_.c_str(), "job", 0, 2, &other), PENSTOCK_ALREADY_EXISTS);
  ASSERT_EQ(cxlinit(spec_.c_str(), "job", 1, 2, &second), PENSTOCK_OK) << penstock_last_error();
  ASSERT_EQ(cxlalloc(&first, "data", 4096, &at), PENSTOCK_OK) << penstock_last_error();
  ASSERT_EQ(cxlalloc(&second, "data", 4096, &same), PENSTOCK_OK) << penstock_last_error();
  EXPECT_EQ(at, same);
  EXPECT_EQ(cxlalloc(&first, "data", 4096, &same), PENSTOCK_ALREADY_EXISTS);
  EXPECT_EQ(cxlwrite(&first, at + 100, text.c_str(), text.size()), PENSTOCK_OK);
  EXPECT_EQ(cxlread(&second, found, at + 100, text.size()), PENSTOCK_OK);
  EXPECT_EQ(found, text);
  for (const std::uint64_t outside : {(16ull << 20) - 8, 1ull << 60, ~0ull}) {
    EXPECT_EQ(cxlwrite(&first, outside, found, 16), PENSTOCK_INVALID_ARGUMENT);
    EXPECT_EQ(cxlread(&first, found, outside, 16), PENSTOCK_INVALID_ARGUMENT);
  }
  EXPECT_EQ(cxlfinal(&second), PENSTOCK_OK) << penstock_last_error();
  EXPECT_EQ(cxlfinal(&first), PENSTOCK_OK) << penstock_last_error();
  penstock_object_t* object = nullptr;
  EXPECT_EQ(penstock_arena_open(pool_, "job.data", &object), PENSTOCK_NOT_FOUND);
}

TEST_F(Abi, DefaultPoolMustBeNamed) {
  unsetenv("PENSTOCK_POOL");
  EXPECT_EQ(cxl_shm_init(), -1);
  EXPECT_EQ(errno, EINVAL);
  EXPECT_NE(std::string(penstock_last_error()).find("PENSTOCK_POOL"), std::string::npos);
}

}  // namespace

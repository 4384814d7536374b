// Handles in a forked child, handles that are closed while other threads use them, and handles that
// are open at the end of the process.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <cstdlib>
#include <cstring>
#include <string>
#include <thread>
#include <vector>

#include "base/fork_in_tests.hpp"
#include "penstock/collectives.h"
#include "penstock/gpu.h"
#include "penstock/messages.h"
#include "penstock/persist.h"

namespace {

using ::testing::HasSubstr;

constexpr std::uint64_t an_hour_ns = 3'600'000'000'000;

int exchange_alone(void*, const void* mine, void* all, std::uint64_t bytes) {
  std::memcpy(all, mine, bytes);
  return 0;
}

/// One handle of each kind.
struct Handles {
  penstock_pool_t* pool = nullptr;
  penstock_object_t* object = nullptr;
  penstock_barrier_t* barrier = nullptr;
  penstock_lock_t *lock = nullptr, *other = nullptr;
  penstock_doorbell_t* doorbell = nullptr;
  penstock_undo_log_t* log = nullptr;
  penstock_checkpoint_t* checkpoint = nullptr;
  penstock_comm_t* comm = nullptr;
  penstock_messenger_t* messenger = nullptr;
  penstock_request_t* request = nullptr;

  void open(const std::string& spec) {
    ASSERT_EQ(penstock_pool_attach(spec.c_str(), nullptr, &pool), PENSTOCK_OK)
        << penstock_last_error();
    ASSERT_EQ(penstock_arena_create(pool, "object", 4096, nullptr, &object), PENSTOCK_OK);
    ASSERT_EQ(penstock_barrier_open(object, 0, 2, 0, &barrier), PENSTOCK_OK);
    ASSERT_EQ(penstock_lock_open(object, 128, 2, 0, &lock), PENSTOCK_OK);
    ASSERT_EQ(penstock_lock_open(object, 128, 2, 1, &other), PENSTOCK_OK);
    ASSERT_EQ(penstock_doorbell_open(object, 256, &doorbell), PENSTOCK_OK);
  }
  void open_the_rest() {
    ASSERT_EQ(penstock_undo_log_open(pool, 0, &log), PENSTOCK_OK) << penstock_last_error();
    ASSERT_EQ(penstock_checkpoint_create(pool, "saved", 4096, PENSTOCK_LIFETIME_POOL, &checkpoint),
              PENSTOCK_OK);
    penstock_comm_options_t options{};
    options.struct_bytes = sizeof options;
    options.ranks = 1;
    options.exchange = exchange_alone;
    ASSERT_EQ(penstock_comm_open(pool, &options, &comm), PENSTOCK_OK) << penstock_last_error();
    penstock_messenger_options_t peers{};
    peers.struct_bytes = sizeof peers;
    peers.ranks = 1;
    ASSERT_EQ(penstock_messenger_open(pool, &peers, &messenger), PENSTOCK_OK)
        << penstock_last_error();
    std::uint64_t unused = 0;
    ASSERT_EQ(penstock_message_receive(messenger, 0, 1, &unused, 0, &request), PENSTOCK_OK);
  }
  void close() const {
    penstock_request_free(request);
    penstock_messenger_close(messenger);
    penstock_comm_close(comm);
    penstock_checkpoint_close(checkpoint);
    penstock_undo_log_close(log);
    penstock_doorbell_close(doorbell);
    penstock_lock_close(other);
    penstock_lock_close(lock);
    penstock_barrier_close(barrier);
    penstock_arena_close(object);
    penstock_pool_detach(pool);
  }
};

class Handle : public ::testing::Test {
 protected:
  void SetUp() override {
    penstock::base::skip_unless_fork_is_followed();
    penstock_pool_options_t options{};
    options.struct_bytes = sizeof options;
    options.bytes = 64 << 20;
    options.max_processes = 16;
    options.max_nodes = 2;
    ASSERT_EQ(penstock_pool_create(spec_.c_str(), &options), PENSTOCK_OK) << penstock_last_error();
    handles_.open(spec_);
  }
  void TearDown() override {
    handles_.close();
    penstock_pool_remove(spec_.c_str(), 1);
  }
  /// The child's exit status.
  template <class Body>
  static int in_child(const Body& body) {
    const pid_t child = fork();
    if (child == 0) _exit(body());
    int status = 0;
    waitpid(child, &status, 0);
    return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
  }
  penstock_object_t* made_by_child() {
    penstock_object_t* found = nullptr;
    EXPECT_EQ(penstock_arena_open(handles_.pool, "child", &found), PENSTOCK_OK)
        << penstock_last_error();
    return found;
  }

  std::string spec_ = "shm:penstock-handle-test-" + std::to_string(getpid());
  Handles handles_;
};

using Results = std::vector<penstock_status_t>;

Results calls_of_pool_and_object(const Handles& of) {
  std::uint64_t word = 0;
  auto lifetime = PENSTOCK_LIFETIME_POOL;
  penstock_pool_info_t info;
  penstock_object_t* object = nullptr;
  const auto visit = [](const penstock_object_info_t*, void*) {};
  return {penstock_pool_info(of.pool, &info),
          penstock_arena_create(of.pool, "x", 64, nullptr, &object),
          penstock_arena_open(of.pool, "object", &object),
          penstock_arena_list(of.pool, visit, nullptr),
          penstock_arena_collect(of.pool, 1, nullptr, nullptr, nullptr),
          penstock_arena_remove(of.object),
          penstock_publish(of.pool, &word, 8),
          penstock_observe(of.pool, &word, 8),
          penstock_write(of.pool, &word, &word, 8),
          penstock_read(of.pool, &word, &word, 8),
          penstock_object_set_lifetime(of.object, lifetime),
          penstock_object_lifetime(of.object, &lifetime)};
}

Results calls_of_synchronization(const Handles& of) {
  penstock_barrier_t* barrier = nullptr;
  penstock_lock_t* lock = nullptr;
  penstock_doorbell_t* doorbell = nullptr;
  return {penstock_barrier_open(of.object, 0, 2, 1, &barrier),
          penstock_barrier_wait(of.barrier, 1),
          penstock_lock_open(of.object, 0, 2, 1, &lock),
          penstock_lock_acquire(of.lock, 1),
          penstock_lock_acquire_shared(of.lock, 1),
          penstock_lock_release(of.lock),
          penstock_doorbell_open(of.object, 0, &doorbell),
          penstock_doorbell_ring(of.doorbell, 1),
          penstock_doorbell_wait(of.doorbell, 1, 1, 0)};
}

Results calls_of_persistence(const Handles& of) {
  std::uint64_t word = 0;
  penstock_checkpoint_info_t valid;
  penstock_undo_log_t* log = nullptr;
  penstock_checkpoint_t* saved = nullptr;
  return {penstock_undo_log_open(of.pool, 0, &log),
          penstock_tx_begin(of.log),
          penstock_tx_add(of.log, of.object, 0, 64),
          penstock_tx_commit(of.log),
          penstock_tx_abort(of.log),
          penstock_tx_release(of.log, nullptr),
          penstock_tx_read(of.object, &word, 0, 8, 1, nullptr),
          penstock_tx_recover(of.pool, nullptr, nullptr),
          penstock_checkpoint_create(of.pool, "y", 64, PENSTOCK_LIFETIME_POOL, &saved),
          penstock_checkpoint_open(of.pool, "saved", &saved),
          penstock_checkpoint_info(of.checkpoint, &valid),
          penstock_checkpoint_begin(of.checkpoint, &word),
          penstock_checkpoint_write(of.checkpoint, 0, &word, 8),
          penstock_checkpoint_flush(of.checkpoint),
          penstock_checkpoint_commit(of.checkpoint, 1),
          penstock_checkpoint_read(of.checkpoint, 1, &word, 0, 8),
          penstock_checkpoint_remove(of.checkpoint)};
}

Results calls_of_ranks(const Handles& of) {
  std::uint64_t word = 0;
  penstock_comm_t* comm = nullptr;
  penstock_messenger_t* messenger = nullptr;
  penstock_request_t* request = nullptr;
  penstock_comm_options_t ranks{};
  ranks.struct_bytes = sizeof ranks;
  penstock_messenger_options_t peers{};
  peers.struct_bytes = sizeof peers;
  penstock_call_t call{};
  call.struct_bytes = sizeof call;
  penstock_address_t address{};
  return {penstock_comm_open(of.pool, &ranks, &comm),
          penstock_comm_run(of.comm, &call),
          penstock_comm_enqueue(of.comm, &call, nullptr),
          penstock_comm_error(of.comm),
          penstock_comm_drain(of.comm),
          penstock_comm_abort(of.comm),
          penstock_messenger_open(of.pool, &peers, &messenger),
          penstock_messenger_meet(of.messenger, 0, &address),
          penstock_message_send(of.messenger, 0, 1, &word, 8, &request),
          penstock_message_receive(of.messenger, 0, 1, &word, 8, &request),
          penstock_request_test(of.request, nullptr)};
}

/// Checks calls that return no status: 0 or NULL.
bool returns_nothing(const Handles& of) {
  return penstock_object_data(of.object) == nullptr && penstock_object_bytes(of.object) == 0 &&
         penstock_doorbell_read(of.doorbell) == 0 &&
         penstock_pool_alive(of.pool, 1, nullptr, 0) == 0 && penstock_comm_token(of.comm, 0) == 0 &&
         penstock_messenger_progress(of.messenger) == 0;
}

/// 0 if every call of the child is refused; otherwise the kind and number of a call that is not.
int refused(const Handles& of) {
  int kind = 0;
  for (const auto calls :
       {calls_of_pool_and_object, calls_of_synchronization, calls_of_persistence, calls_of_ranks}) {
    const Results results = calls(of);
    kind += 50;
    for (std::size_t i = 0; i < results.size(); ++i)
      if (results[i] != PENSTOCK_INVALID_ARGUMENT) return kind + static_cast<int>(i);
  }
  if (std::strstr(penstock_last_error(), "forked from") == nullptr) return 1;
  return returns_nothing(of) ? 0 : 2;
}

TEST_F(Handle, IsRefusedInForkedChild) {
  handles_.open_the_rest();
  penstock_doorbell_ring(handles_.doorbell, 5);
  EXPECT_EQ(in_child([&] { return refused(handles_); }), 0);
  EXPECT_EQ(in_child([&] {
              Handles own;
              return penstock_pool_attach(spec_.c_str(), nullptr, &own.pool) == PENSTOCK_OK &&
                             penstock_arena_open(own.pool, "object", &own.object) == PENSTOCK_OK
                         ? 0
                         : 1;
            }),
            0)
      << "a child attaches by itself";
}

TEST_F(Handle, StaysOpenWhenForkedChildCloses) {
  handles_.open_the_rest();
  ASSERT_EQ(penstock_lock_acquire(handles_.lock, 0), PENSTOCK_OK);
  ASSERT_EQ(penstock_tx_begin(handles_.log), PENSTOCK_OK);
  ASSERT_EQ(penstock_tx_add(handles_.log, handles_.object, 1024, 8), PENSTOCK_OK);
  auto* const word = static_cast<char*>(penstock_object_data(handles_.object)) + 1024;
  *word = 7;
  EXPECT_EQ(in_child([&] {
              handles_.close();
              return penstock_arena_destroy(handles_.object) == PENSTOCK_OK ? 1 : 0;
            }),
            0);
  EXPECT_EQ(penstock_lock_acquire(handles_.other, 5'000'000), PENSTOCK_DEADLINE)
      << "the child gave its parent's lock back";
  EXPECT_EQ(*word, 7) << "the child has undone it";
  EXPECT_EQ(penstock_tx_commit(handles_.log), PENSTOCK_OK) << penstock_last_error();
  EXPECT_EQ(penstock_lock_release(handles_.lock), PENSTOCK_OK) << penstock_last_error();
  EXPECT_EQ(penstock_request_test(handles_.request, nullptr), PENSTOCK_OK);
  penstock_checkpoint_info_t valid;
  EXPECT_EQ(penstock_checkpoint_info(handles_.checkpoint, &valid), PENSTOCK_OK);
}

TEST_F(Handle, DefaultPoolIsNotInherited) {
  ASSERT_EQ(setenv("PENSTOCK_POOL", spec_.c_str(), 1), 0);
  ASSERT_EQ(penstock_default_attach(), PENSTOCK_OK) << penstock_last_error();
  penstock_pool_info_t ours;
  ASSERT_EQ(penstock_pool_info(penstock_default_pool(), &ours), PENSTOCK_OK);
  EXPECT_EQ(in_child([&] {
              penstock_pool_info_t theirs;
              if (penstock_default_pool() != nullptr) return 1;
              if (penstock_default_attach() != PENSTOCK_OK) return 2;
              if (penstock_pool_info(penstock_default_pool(), &theirs) != PENSTOCK_OK) return 3;
              penstock_default_detach();
              return theirs.token != ours.token && penstock_default_pool() == nullptr ? 0 : 4;
            }),
            0);
  EXPECT_EQ(penstock_pool_info(penstock_default_pool(), &ours), PENSTOCK_OK);
  penstock_default_detach();
  unsetenv("PENSTOCK_POOL");
}

/// Runs `wait` on a new thread, and `meanwhile` once that thread waits. Returns the status of
/// `wait`.
template <class Wait, class Meanwhile>
penstock_status_t status_of_wait(const Wait& wait, const Meanwhile& meanwhile) {
  std::atomic<bool> waits{false};
  penstock_status_t status = PENSTOCK_OK;
  std::thread waiting([&] {
    penstock_interrupt_by(
        [](void* user) {
          *static_cast<std::atomic<bool>*>(user) = true;
          return 0;
        },
        &waits);
    status = wait();
  });
  while (!waits) std::this_thread::yield();
  meanwhile();
  waiting.join();
  return status;
}

TEST_F(Handle, WaitEndsWhenAnotherThreadCloses) {
  Handles& of = handles_;
  EXPECT_EQ(status_of_wait([&] { return penstock_doorbell_wait(of.doorbell, 5, an_hour_ns, 0); },
                           [&] { penstock_doorbell_close(of.doorbell); }),
            PENSTOCK_UNAVAILABLE);
  EXPECT_EQ(status_of_wait([&] { return penstock_barrier_wait(of.barrier, an_hour_ns); },
                           [&] { penstock_barrier_close(of.barrier); }),
            PENSTOCK_UNAVAILABLE);
  ASSERT_EQ(penstock_lock_acquire(of.other, 0), PENSTOCK_OK);
  EXPECT_EQ(status_of_wait([&] { return penstock_lock_acquire(of.lock, an_hour_ns); },
                           [&] { penstock_lock_close(of.lock); }),
            PENSTOCK_UNAVAILABLE);
  of.doorbell = nullptr;
  of.barrier = nullptr;
  of.lock = nullptr;
  EXPECT_EQ(penstock_lock_release(of.other), PENSTOCK_OK);
}

TEST_F(Handle, KeepsAttachmentWhileThreadWaits) {
  Handles& of = handles_;
  EXPECT_EQ(status_of_wait([&] { return penstock_barrier_wait(of.barrier, an_hour_ns); },
                           [&] {
                             of.close();
                             of = {};
                           }),
            PENSTOCK_UNAVAILABLE);
}

TEST_F(Handle, WaitsEndWhenCancelled) {
  Handles& of = handles_;
  EXPECT_EQ(status_of_wait([&] { return penstock_doorbell_wait(of.doorbell, 5, an_hour_ns, 0); },
                           [&] { penstock_doorbell_cancel(of.doorbell); }),
            PENSTOCK_UNAVAILABLE);
  EXPECT_EQ(penstock_doorbell_wait(of.doorbell, 5, an_hour_ns, 0), PENSTOCK_UNAVAILABLE);
  EXPECT_EQ(penstock_doorbell_ring(of.doorbell, 5), PENSTOCK_OK);
  EXPECT_EQ(penstock_doorbell_wait(of.doorbell, 5, an_hour_ns, 0), PENSTOCK_OK) << "no wait";
}

TEST_F(Handle, LockRefusesSecondThread) {
  Handles& of = handles_;
  ASSERT_EQ(penstock_lock_acquire(of.other, 0), PENSTOCK_OK);
  EXPECT_EQ(status_of_wait([&] { return penstock_lock_acquire(of.lock, an_hour_ns); },
                           [&] {
                             EXPECT_EQ(penstock_lock_acquire(of.lock, 0),
                                       PENSTOCK_INVALID_ARGUMENT);
                             EXPECT_THAT(penstock_last_error(), HasSubstr("another thread"));
                             EXPECT_EQ(penstock_lock_release(of.lock), PENSTOCK_INVALID_ARGUMENT);
                             EXPECT_EQ(penstock_lock_release(of.other), PENSTOCK_OK);
                           }),
            PENSTOCK_OK);
  EXPECT_EQ(penstock_lock_release(of.lock), PENSTOCK_OK);
  EXPECT_EQ(penstock_lock_release(of.lock), PENSTOCK_INVALID_ARGUMENT) << "it is free";
}

TEST_F(Handle, WaitEndsWhenProgramInterrupts) {
  struct Look {
    penstock_doorbell_t* bell;
    int looks = 0;
    penstock_status_t nested = PENSTOCK_OK;
  } look{handles_.doorbell};
  penstock_interrupt_by(
      [](void* user) {
        auto& of = *static_cast<Look*>(user);
        ++of.looks;
        of.nested = penstock_doorbell_wait(of.bell, 5, 50'000'000, 0);
        return 1;
      },
      &look);
  EXPECT_EQ(penstock_doorbell_wait(handles_.doorbell, 5, an_hour_ns, 0), PENSTOCK_UNAVAILABLE);
  EXPECT_THAT(penstock_last_error(), HasSubstr("interrupted"));
  EXPECT_EQ(look.looks, 1);
  EXPECT_EQ(look.nested, PENSTOCK_DEADLINE);
  penstock_interrupt_by(nullptr, nullptr);
  EXPECT_EQ(penstock_doorbell_wait(handles_.doorbell, 5, 50'000'000, 0), PENSTOCK_DEADLINE);
}

/// A child that exits with open handles leaves the pool in order.
TEST_F(Handle, ClosesWhenProcessExits) {
  const int status = in_child([&] {
    Handles own;
    penstock_object_options_t options{};
    options.struct_bytes = sizeof options;
    options.lifetime = PENSTOCK_LIFETIME_PROCESS;
    penstock_object_t *object = nullptr, *mine = nullptr;
    if (penstock_pool_attach(spec_.c_str(), nullptr, &own.pool) != PENSTOCK_OK ||
        penstock_arena_create(own.pool, "child", 4096, nullptr, &object) != PENSTOCK_OK ||
        penstock_arena_create(own.pool, "mine", 4096, &options, &mine) != PENSTOCK_OK ||
        penstock_lock_open(object, 128, 2, 1, &own.lock) != PENSTOCK_OK ||
        penstock_lock_acquire(own.lock, 0) != PENSTOCK_OK ||
        penstock_undo_log_open(own.pool, 0, &own.log) != PENSTOCK_OK ||
        penstock_tx_begin(own.log) != PENSTOCK_OK ||
        penstock_tx_add(own.log, object, 0, 8) != PENSTOCK_OK)
      return 1;
    *static_cast<char*>(penstock_object_data(object)) = 7;
    static void* data = penstock_object_data(object);
    std::atexit([] {  // runs before the pool is left
      if (*static_cast<char*>(data) != 7) _exit(2);
    });
    std::exit(3);
  });
  ASSERT_EQ(status, 3);
  std::uint32_t processes = 9;
  EXPECT_EQ(penstock_arena_collect(handles_.pool, 1, &processes, nullptr, nullptr), PENSTOCK_OK);
  EXPECT_EQ(processes, 0u) << "it died in place of leaving";
  penstock_object_t* found = nullptr;
  EXPECT_EQ(penstock_arena_open(handles_.pool, "mine", &found), PENSTOCK_NOT_FOUND);
  penstock_object_t* const object = made_by_child();
  ASSERT_NE(object, nullptr);
  penstock_lock_t* lock = nullptr;
  ASSERT_EQ(penstock_lock_open(object, 128, 2, 0, &lock), PENSTOCK_OK);
  EXPECT_EQ(penstock_lock_acquire(lock, 0), PENSTOCK_OK) << penstock_last_error();
  char byte = 9;
  EXPECT_EQ(penstock_read(handles_.pool, &byte, penstock_object_data(object), 1), PENSTOCK_OK);
  EXPECT_EQ(byte, 0) << "its transaction was not undone";
  penstock_lock_close(lock);
  penstock_arena_close(object);
}

/// The process then stays attached for other ranks, and releases the rest.
TEST_F(Handle, ClosesAlthoughCommunicatorIsOpen) {
  const int status = in_child([&] {
    Handles own;
    penstock_object_t* object = nullptr;
    if (penstock_pool_attach(spec_.c_str(), nullptr, &own.pool) != PENSTOCK_OK ||
        penstock_arena_create(own.pool, "child", 4096, nullptr, &object) != PENSTOCK_OK)
      return 1;
    own.open_the_rest();
    if (penstock_tx_begin(own.log) != PENSTOCK_OK ||
        penstock_tx_add(own.log, object, 0, 8) != PENSTOCK_OK)
      return 2;
    *static_cast<char*>(penstock_object_data(object)) = 7;
    std::exit(3);
  });
  ASSERT_EQ(status, 3);
  penstock_object_t* const object = made_by_child();
  ASSERT_NE(object, nullptr);
  char byte = 9;
  EXPECT_EQ(penstock_read(handles_.pool, &byte, penstock_object_data(object), 1), PENSTOCK_OK);
  EXPECT_EQ(byte, 0) << "its transaction was not undone";
  penstock_arena_close(object);
}

}  // namespace

// penstock_comm_* as programs use them; here ranks are threads, each with its own attachment.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <cstring>
#include <functional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "penstock/collectives.h"
#include "penstock/messages.h"

namespace {

using ::testing::HasSubstr;

constexpr std::uint32_t ranks = 3;

/// Exchanges all ranks' bytes between the threads, with barriers before and after.
class Table {
 public:
  int exchange(std::uint32_t rank, const void* mine, void* all, std::uint64_t bytes) {
    std::memcpy(bytes_.data() + rank * bytes, mine, bytes);
    ++entered_;
    while (entered_ < ranks) std::this_thread::yield();
    std::memcpy(all, bytes_.data(), ranks * bytes);
    if (rank == 0 && one_is_dead_for_rank_0 != 0)
      std::memcpy(static_cast<std::byte*>(all) + bytes + 8, &one_is_dead_for_rank_0, 8);
    if (rank != fails_on) return 0;
    while (fails_after_close && closed < ranks - 1) std::this_thread::yield();
    return 5;
  }
  std::uint32_t fails_on = ranks;     ///< on this rank alone
  std::uint32_t compares_on = ranks;  ///< this rank alone asks for its calls to be compared
  bool fails_after_close = false;     ///< once the others have closed the communicator
  std::atomic<std::uint32_t> closed{0};
  std::uint64_t one_is_dead_for_rank_0 = 0;  ///< a killed process, which rank 0 takes for rank 1

 private:
  std::array<std::byte, 4096> bytes_{};
  std::atomic<std::uint32_t> entered_{0};
};

class Comms : public ::testing::Test {
 protected:
  void SetUp() override {
    penstock_pool_options_t options{};
    options.struct_bytes = sizeof options;
    options.bytes = 66 << 20;  // whole pages also on each of three parts
    ASSERT_EQ(penstock_pool_create(spec_.c_str(), &options), PENSTOCK_OK) << penstock_last_error();
  }
  void TearDown() override { penstock_pool_remove(spec_.c_str(), 1); }

  struct Rank {
    std::uint32_t number;
    penstock_pool_t* pool;
    penstock_comm_t* comm;
  };
  /// Bytes of the pool's objects.
  static std::uint64_t used(penstock_pool_t* pool) {
    penstock_pool_info_t info{};
    EXPECT_EQ(penstock_pool_info(pool, &info), PENSTOCK_OK);
    return info.object_bytes_used;
  }
  /// Runs `body` on every rank.
  void on_all(const std::function<void(Rank&)>& body) {
    Table table;
    open_on_all(table, [&body](Rank& rank, int opened, const std::string& error) {
      ASSERT_EQ(opened, PENSTOCK_OK) << error;
      body(rank);
    });
  }
  /// The same for `body` that gets the result of penstock_comm_open(), which may be an error.
  void open_on_all(Table& table, const std::function<void(Rank&, int, const std::string&)>& body) {
    std::vector<std::thread> threads;
    for (std::uint32_t rank = 0; rank < ranks; ++rank)
      threads.emplace_back([&, rank] { run(rank, table, body); });
    for (auto& thread : threads) thread.join();
  }

  /// The token, in the second word of its offer, of a process that was killed.
  std::uint64_t token_of_killed() {
    std::array<int, 2> ends{};
    EXPECT_EQ(pipe(ends.data()), 0);
    const pid_t child = fork();
    if (child == 0) {
      Rank rank{0, nullptr, nullptr};
      penstock_comm_options_t options{};
      options.struct_bytes = sizeof options;
      options.ranks = 1;
      options.user = ends.data();
      options.exchange = [](void* user, const void* mine, void*, std::uint64_t) {
        const auto* bytes = static_cast<const std::byte*>(mine);
        while (write(static_cast<int*>(user)[1], bytes + 8, 8) == 8) pause();
        return 1;
      };
      if (penstock_pool_attach(spec_.c_str(), nullptr, &rank.pool) == PENSTOCK_OK)
        (void)penstock_comm_open(rank.pool, &options, &rank.comm);
      _exit(1);
    }
    close(ends[1]);
    std::uint64_t token = 0;
    EXPECT_EQ(read(ends[0], &token, sizeof token), 8);
    close(ends[0]);
    kill(child, SIGKILL);
    waitpid(child, nullptr, 0);
    return token;
  }

  /// The ranks close and detach one after the other.
  void leave_in_turn(bool upwards);

  std::string spec_ = "shm:penstock-comms-test-" + std::to_string(getpid());

 private:
  struct Seat {
    Table* table;
    std::uint32_t rank;
  };
  static int exchange(void* user, const void* mine, void* all, std::uint64_t bytes) {
    const auto* seat = static_cast<Seat*>(user);
    return seat->table->exchange(seat->rank, mine, all, bytes);
  }
  void run(std::uint32_t number, Table& table,
           const std::function<void(Rank&, int, const std::string&)>& body) {
    Rank rank{number, nullptr, nullptr};
    ASSERT_EQ(penstock_pool_attach(spec_.c_str(), nullptr, &rank.pool), PENSTOCK_OK)
        << penstock_last_error();
    Seat seat{&table, number};
    penstock_comm_options_t options{};
    options.struct_bytes = sizeof options;
    options.rank = number;
    options.ranks = ranks;
    options.name = "group of the test";
    options.exchange = exchange;
    options.check = number == table.compares_on ? 1 : 0;
    options.user = &seat;
    const int opened = penstock_comm_open(rank.pool, &options, &rank.comm);
    body(rank, opened, opened == PENSTOCK_OK ? "" : penstock_last_error());
    penstock_comm_close(rank.comm);
    penstock_pool_detach(rank.pool);
  }
};

penstock_call_t reduction(std::int32_t datatype, std::int32_t operation, void* data,
                          const penstock_block_t* whole) {
  penstock_call_t call{};
  call.struct_bytes = sizeof call;
  call.collective = PENSTOCK_ALLREDUCE;
  call.datatype = datatype;
  call.operation = operation;
  call.input = call.output = data;
  call.input_blocks = call.output_blocks = whole;
  call.input_count = call.output_count = 1;
  call.max_block_bytes = whole->bytes;
  call.max_is_known = 1;
  return call;
}

TEST(TemporaryPool, IsMadeAndRemoved) {
  char spec[64] = "";
  EXPECT_EQ(penstock_pool_create_temporary(2, spec, 3), PENSTOCK_INVALID_ARGUMENT);
  ASSERT_EQ(penstock_pool_create_temporary(2, spec, sizeof spec), PENSTOCK_OK);
  EXPECT_THAT(spec,
              testing::MatchesRegex("shm:run-[0-9]+-[0-9a-f]+"));  // a form that a sweep knows
  penstock_pool_t* pool = nullptr;
  ASSERT_EQ(penstock_pool_attach(spec, nullptr, &pool), PENSTOCK_OK) << penstock_last_error();
  penstock_pool_info_t info{};
  ASSERT_EQ(penstock_pool_info(pool, &info), PENSTOCK_OK);
  EXPECT_GE(info.bytes, 32u << 20);
  // it takes only as much of /dev/shm as it uses
  struct stat file {};
  ASSERT_EQ(stat(("/dev/shm/penstock." + std::string(spec).substr(4)).c_str(), &file), 0);
  EXPECT_LT(static_cast<std::uint64_t>(file.st_blocks) * 512, info.bytes / 4);
  penstock_pool_detach(pool);
  EXPECT_EQ(penstock_pool_remove(spec, 0), PENSTOCK_OK) << penstock_last_error();
}

TEST(TemporaryPool, IsCoherentUnlessNodesAreEmulated) {
  const auto mode = [](const char* name, const char* value) {
    if (name != nullptr) setenv(name, value, 1);
    char spec[64] = "";
    EXPECT_EQ(penstock_pool_create_temporary(2, spec, sizeof spec), PENSTOCK_OK)
        << penstock_last_error();
    if (name != nullptr) unsetenv(name);
    penstock_pool_t* pool = nullptr;
    EXPECT_EQ(penstock_pool_attach(spec, nullptr, &pool), PENSTOCK_OK) << penstock_last_error();
    penstock_pool_info_t info{};
    EXPECT_EQ(penstock_pool_info(pool, &info), PENSTOCK_OK);
    penstock_pool_detach(pool);
    penstock_pool_remove(spec, 0);
    return info.mode;
  };
  EXPECT_EQ(mode(nullptr, ""), PENSTOCK_MODE_HARDWARE);
  EXPECT_EQ(mode("PENSTOCK_NODES", "2"), PENSTOCK_MODE_SOFTWARE);
  EXPECT_EQ(mode("PENSTOCK_NODE", "0"), PENSTOCK_MODE_SOFTWARE);
  EXPECT_EQ(mode("PENSTOCK_MODE", "software"), PENSTOCK_MODE_SOFTWARE);
  char spec[64] = "";
  setenv("PENSTOCK_MODE", "fast", 1);
  EXPECT_EQ(penstock_pool_create_temporary(2, spec, sizeof spec), PENSTOCK_INVALID_ARGUMENT);
  unsetenv("PENSTOCK_MODE");
  EXPECT_THAT(penstock_last_error(), HasSubstr("fast"));
}

TEST_F(Comms, ReduceInPlace) {
  on_all([](Rank& rank) {
    for (const std::size_t n : {1u, 100u, 50'000u}) {
      std::vector<float> data(n, static_cast<float>(rank.number + 1));
      const penstock_block_t whole{0, n * sizeof(float)};
      auto call = reduction(PENSTOCK_FLOAT32, PENSTOCK_SUM, data.data(), &whole);
      ASSERT_EQ(penstock_comm_run(rank.comm, &call), PENSTOCK_OK) << penstock_last_error();
      EXPECT_EQ(data, std::vector<float>(n, 6.f));
      call = reduction(PENSTOCK_FLOAT32, PENSTOCK_PREMULTIPLIED_SUM, data.data(), &whole);
      call.factor = 0.5;
      ASSERT_EQ(penstock_comm_run(rank.comm, &call), PENSTOCK_OK) << penstock_last_error();
      EXPECT_EQ(data, std::vector<float>(n, 9.f));
    }
  });
}

TEST_F(Comms, GatherUnevenBlocks) {
  on_all([](Rank& rank) {
    const std::array<penstock_block_t, ranks> blocks{{{0, 3}, {3, 0}, {3, 5}}};
    std::string all(8, '?');
    std::memset(all.data() + blocks[rank.number].offset, 'a' + static_cast<int>(rank.number),
                blocks[rank.number].bytes);
    penstock_call_t call{};
    call.struct_bytes = sizeof call;
    call.collective = PENSTOCK_ALLGATHER;
    call.input = call.output = all.data();
    call.input_blocks = &blocks[rank.number];
    call.input_count = 1;
    call.output_blocks = blocks.data();
    call.output_count = ranks;
    ASSERT_EQ(penstock_comm_run(rank.comm, &call), PENSTOCK_OK) << penstock_last_error();
    EXPECT_EQ(all, "aaaccccc");
  });
}

TEST_F(Comms, RefuseImpossibleCalls) {
  on_all([](Rank& rank) {
    std::int32_t value = 1;
    const penstock_block_t whole{0, sizeof value};
    auto call = reduction(99, PENSTOCK_SUM, &value, &whole);
    EXPECT_EQ(penstock_comm_run(rank.comm, &call), PENSTOCK_INVALID_ARGUMENT);
    EXPECT_THAT(penstock_last_error(), HasSubstr("datatype 99"));
    call = reduction(PENSTOCK_FLOAT32, PENSTOCK_BIT_AND, &value, &whole);
    EXPECT_EQ(penstock_comm_run(rank.comm, &call), PENSTOCK_INVALID_ARGUMENT);
    call = reduction(PENSTOCK_INT32, PENSTOCK_SUM, &value, &whole);
    call.root = ranks;
    EXPECT_EQ(penstock_comm_run(rank.comm, &call), PENSTOCK_INVALID_ARGUMENT);
    call.root = 0;
    call.input_blocks = nullptr;
    EXPECT_EQ(penstock_comm_run(rank.comm, &call), PENSTOCK_INVALID_ARGUMENT);
    // the refused call has done nothing, so the next one succeeds
    call = reduction(PENSTOCK_INT32, PENSTOCK_SUM, &value, &whole);
    ASSERT_EQ(penstock_comm_run(rank.comm, &call), PENSTOCK_OK) << penstock_last_error();
    EXPECT_EQ(value, 3);
  });
  penstock_comm_t* comm = nullptr;
  EXPECT_EQ(penstock_comm_open(nullptr, nullptr, &comm), PENSTOCK_INVALID_ARGUMENT);
  EXPECT_EQ(penstock_comm_run(nullptr, nullptr), PENSTOCK_INVALID_ARGUMENT);
  penstock_comm_options_t options{};
  options.struct_bytes = sizeof options;
  options.ranks = 1;
  options.slot_bytes = 100;
  options.exchange = [](void*, const void*, void*, uint64_t) { return 0; };
  penstock_pool_t* pool = nullptr;
  ASSERT_EQ(penstock_pool_attach(spec_.c_str(), nullptr, &pool), PENSTOCK_OK);
  EXPECT_EQ(penstock_comm_open(pool, &options, &comm), PENSTOCK_INVALID_ARGUMENT);
  EXPECT_THAT(penstock_last_error(), testing::HasSubstr("a multiple of 64 is needed"));
  penstock_pool_detach(pool);
  penstock_comm_close(nullptr);
}

void expect_told(const std::string& which, const char* why) {
  EXPECT_THAT(penstock_last_error(), HasSubstr(which));
  EXPECT_THAT(penstock_last_error(), HasSubstr(why));
}

int sum_up(penstock_comm_t* comm) {
  std::int32_t value = 1;
  const penstock_block_t whole{0, sizeof value};
  auto call = reduction(PENSTOCK_INT32, PENSTOCK_SUM, &value, &whole);
  call.timeout_ns = 60'000'000'000;
  return penstock_comm_run(comm, &call);
}

TEST_F(Comms, TellOthersWhenOneFindsADeadRank) {
  Table table;
  table.one_is_dead_for_rank_0 = token_of_killed();
  std::atomic<std::uint32_t> done{0};
  open_on_all(table, [&](Rank& rank, int opened, const std::string& error) {
    if (rank.number == 0) {
      EXPECT_EQ(opened, PENSTOCK_NOT_FOUND);
      EXPECT_THAT(error, HasSubstr("has died, and its memory may have been freed"));
      while (done != ranks - 1) std::this_thread::yield();
      return;
    }
    ASSERT_EQ(opened, PENSTOCK_OK) << error;
    EXPECT_EQ(sum_up(rank.comm), PENSTOCK_UNAVAILABLE);
    expect_told("rank 0", "has given the group of the test up");
    ++done;
  });
}

/// The others may have opened the communicator: they store to its memory, so no object may lie
/// there.
TEST_F(Comms, TellOthersWhenExchangeFailsOnOneRank) {
  for (std::uint32_t failing = 0; failing < ranks; ++failing) {
    Table table;
    table.fails_on = failing;
    std::atomic<std::uint32_t> done{0};
    std::atomic<bool> made{false};
    open_on_all(table, [&](Rank& rank, int opened, const std::string& error) {
      if (rank.number != failing) {
        ASSERT_EQ(opened, PENSTOCK_OK) << error;
        while (!made) std::this_thread::yield();
        EXPECT_EQ(sum_up(rank.comm), PENSTOCK_UNAVAILABLE);
        expect_told("rank " + std::to_string(failing), "has given the group of the test up");
        ++done;
        return;
      }
      EXPECT_EQ(opened, PENSTOCK_UNAVAILABLE);
      EXPECT_THAT(error, HasSubstr("the exchange function failed (5)"));
      constexpr std::uint64_t each = 4096;
      std::vector<penstock_object_t*> objects(60);
      for (std::size_t i = 0; i < objects.size(); ++i) {
        const std::string name = "after." + std::to_string(i);
        ASSERT_EQ(penstock_arena_create(rank.pool, name.c_str(), each, nullptr, &objects[i]),
                  PENSTOCK_OK)
            << penstock_last_error();
        std::memset(penstock_object_data(objects[i]), 0x5A, each);
      }
      made = true;
      while (done != ranks - 1) std::this_thread::yield();
      const std::vector<std::byte> wanted(each, std::byte{0x5A});
      for (penstock_object_t* const object : objects) {
        EXPECT_EQ(std::memcmp(penstock_object_data(object), wanted.data(), each), 0);
        EXPECT_EQ(penstock_arena_destroy(object), PENSTOCK_OK) << penstock_last_error();
      }
    });
  }
}

/// The rank whose exchange fails does not know that, and says in the memory that it gives up. It
/// may have looked for the memory before rank 0 failed.
TEST_F(Comms, KeepMemoryWhenRank0AloneFindsAMismatch) {
  Table table;
  table.fails_on = 1;
  table.compares_on = 2;
  table.fails_after_close = true;
  penstock_pool_t* pool = nullptr;
  ASSERT_EQ(penstock_pool_attach(spec_.c_str(), nullptr, &pool), PENSTOCK_OK);
  const std::uint64_t before = used(pool);
  open_on_all(table, [&](Rank& rank, int opened, const std::string& error) {
    EXPECT_EQ(opened, rank.number == 1 ? PENSTOCK_UNAVAILABLE : PENSTOCK_MISMATCH) << error;
    if (rank.number == 0) {
      EXPECT_GT(used(pool), before);
    }
    ++table.closed;
  });
  penstock_pool_detach(pool);
}

/// The memory has passed to that rank.
TEST_F(Comms, FreeMemoryWhenExchangeFailsAfterOthersClosed) {
  penstock_pool_t* pool = nullptr;
  ASSERT_EQ(penstock_pool_attach(spec_.c_str(), nullptr, &pool), PENSTOCK_OK);
  const std::uint64_t before = used(pool);
  for (std::uint32_t failing = 1; failing < ranks; ++failing) {
    Table table;
    table.fails_on = failing;
    table.fails_after_close = true;
    std::atomic<bool> done{false};
    open_on_all(table, [&](Rank& rank, int opened, const std::string& error) {
      if (rank.number != failing) {
        ASSERT_EQ(opened, PENSTOCK_OK) << error;
        penstock_comm_close(std::exchange(rank.comm, nullptr));
        ++table.closed;
        while (!done) std::this_thread::yield();
        return;
      }
      EXPECT_EQ(opened, PENSTOCK_UNAVAILABLE);
      EXPECT_EQ(used(pool), before);
      done = true;
    });
  }
  penstock_pool_detach(pool);
}

TEST_F(Comms, WaitsEndAtTimeoutOrCancel) {
  std::atomic<int> over{0};
  on_all([&](Rank& rank) {
    penstock_call_t call{};
    call.struct_bytes = sizeof call;
    call.collective = PENSTOCK_BARRIER;
    call.name = "step 7";
    volatile int cancelled = 0;
    std::thread other;
    if (rank.number == 0) call.timeout_ns = 50'000'000;
    if (rank.number == 1) {
      call.cancelled = &cancelled;
      other = std::thread([&] {
        while (over == 0) std::this_thread::yield();
        __atomic_store_n(&cancelled, 1, __ATOMIC_RELEASE);
      });
    }
    if (rank.number != 2) {
      const auto status = penstock_comm_run(rank.comm, &call);
      const std::string words = penstock_last_error();
      EXPECT_THAT(words, HasSubstr("step 7"));
      EXPECT_THAT(words, HasSubstr(rank.number == 0 ? "rank 2 of the group of the test" : "rank"));
      // the cancelled rank may learn first that rank 0 gave up
      EXPECT_THAT(status,
                  testing::AnyOf(rank.number == 0 ? PENSTOCK_DEADLINE : PENSTOCK_UNAVAILABLE,
                                 PENSTOCK_UNAVAILABLE));
      ++over;
    } else {
      while (over < 2) std::this_thread::yield();
    }
    if (other.joinable()) other.join();
    // the others have entered this call; none enters the next one
    if (rank.number == 2) (void)penstock_comm_run(rank.comm, &call);
    EXPECT_NE(penstock_comm_run(rank.comm, &call), PENSTOCK_OK) << "after a failure";
  });
}

TEST_F(Comms, WorkBesideMessages) {
  std::array<penstock_address_t, ranks> addresses{};
  std::atomic<std::uint32_t> known{0}, ended{0};
  on_all([&](Rank& rank) {
    penstock_messenger_options_t options{};
    options.struct_bytes = sizeof options;
    options.rank = rank.number;
    options.ranks = ranks;
    penstock_messenger_t* messenger = nullptr;
    ASSERT_EQ(penstock_messenger_open(rank.pool, &options, &messenger), PENSTOCK_OK)
        << penstock_last_error();
    penstock_messenger_address(messenger, &addresses[rank.number]);
    ++known;
    while (known < ranks) std::this_thread::yield();
    const std::uint32_t next = (rank.number + 1) % ranks;
    ASSERT_EQ(penstock_messenger_meet(messenger, next, &addresses[next]), PENSTOCK_OK);
    const std::vector<std::uint32_t> data(100'000, rank.number);
    std::vector<std::uint32_t> got(100'000, 99);
    std::array<penstock_request_t*, 2> requests{};
    ASSERT_EQ(penstock_message_receive(messenger, PENSTOCK_ANY_RANK, 4, got.data(), got.size() * 4,
                                       requests.data()),
              PENSTOCK_OK);
    ASSERT_EQ(penstock_message_send(messenger, next, 4, data.data(), data.size() * 4, &requests[1]),
              PENSTOCK_OK);
    for (penstock_request_t* const request : requests) {
      penstock_request_info_t info{};
      while (penstock_request_test(request, &info) == PENSTOCK_OK && info.done == 0) {
        if (penstock_messenger_progress(messenger) == 0) std::this_thread::yield();
      }
      EXPECT_EQ(penstock_request_test(request, &info), PENSTOCK_OK) << penstock_last_error();
      penstock_request_free(request);
    }
    EXPECT_EQ(got, std::vector<std::uint32_t>(100'000, (rank.number + ranks - 1) % ranks));
    ++ended;
    while (ended < ranks) {
      penstock_messenger_progress(messenger);
      std::this_thread::yield();
    }
    penstock_messenger_close(messenger);
  });
}

TEST_F(Comms, ReturnTheirSpace) {
  for (int turn = 0; turn < 40; ++turn) on_all([](Rank&) {});
  penstock_pool_t* pool = nullptr;
  ASSERT_EQ(penstock_pool_attach(spec_.c_str(), nullptr, &pool), PENSTOCK_OK);
  penstock_pool_info_t info{};
  ASSERT_EQ(penstock_pool_info(pool, &info), PENSTOCK_OK);
  EXPECT_EQ(info.objects, 0u);
  char who[64] = "";
  EXPECT_EQ(penstock_pool_alive(pool, info.token, who, sizeof who), 1);
  EXPECT_THAT(who, HasSubstr("pid " + std::to_string(getpid())));
  EXPECT_EQ(penstock_pool_alive(pool, info.token + (1 << 16), who, 4), 0);
  penstock_pool_detach(pool);
}

/// A job has one for each group of its ranks, and most make short calls alone.
TEST_F(Comms, TakeTheirSlotsInTheirFirstLongCall) {
  penstock_pool_t* watching = nullptr;
  ASSERT_EQ(penstock_pool_attach(spec_.c_str(), nullptr, &watching), PENSTOCK_OK);
  std::atomic<std::uint32_t> entered{0};
  const auto meet = [&](std::uint32_t times) {
    ++entered;
    while (entered < times * ranks) std::this_thread::yield();
  };
  const auto add = [](Rank& rank, std::size_t count) {
    std::vector<float> values(count, 1.0f);
    const penstock_block_t whole{0, values.size() * sizeof(float)};
    auto call = reduction(PENSTOCK_FLOAT32, PENSTOCK_SUM, values.data(), &whole);
    EXPECT_EQ(penstock_comm_run(rank.comm, &call), PENSTOCK_OK) << penstock_last_error();
    EXPECT_EQ(values, std::vector<float>(count, ranks));
  };
  on_all([&](Rank& rank) {
    add(rank, 10);
    meet(1);
    EXPECT_LT(used(watching), std::uint64_t{ranks} * 64 << 10);
    meet(2);
    add(rank, 100'000);
    EXPECT_GT(used(watching), 1u << 20);
    meet(3);
  });
  penstock_pool_detach(watching);
}

/// No process attaches meanwhile: that would free memory of processes that have left.
void Comms::leave_in_turn(bool upwards) {
  penstock_pool_t* watching = nullptr;
  ASSERT_EQ(penstock_pool_attach(spec_.c_str(), nullptr, &watching), PENSTOCK_OK);
  const auto objects = [&] {
    penstock_pool_info_t info{};
    EXPECT_EQ(penstock_pool_info(watching, &info), PENSTOCK_OK);
    return info.objects;
  };
  std::atomic<std::uint32_t> gone{0};
  on_all([&](Rank& rank) {
    std::vector<float> values(100'000, 1.0f);
    const penstock_block_t whole{0, values.size() * sizeof(float)};
    auto call = reduction(PENSTOCK_FLOAT32, PENSTOCK_SUM, values.data(), &whole);
    ASSERT_EQ(penstock_comm_run(rank.comm, &call), PENSTOCK_OK) << penstock_last_error();
    const std::uint32_t place = upwards ? rank.number : ranks - 1 - rank.number;
    while (gone != place) std::this_thread::yield();
    penstock_comm_close(std::exchange(rank.comm, nullptr));
    penstock_pool_detach(std::exchange(rank.pool, nullptr));
    EXPECT_EQ(objects() == 0, place + 1 == ranks) << "rank " << rank.number << " has gone";
    ++gone;
  });
  penstock_pool_detach(watching);
}

TEST_F(Comms, FreedWhenLastRankCloses) {
  for (const bool upwards : {true, false}) leave_in_turn(upwards);
}

/// A pool of three parts.
class CommsOnDevices : public Comms {
 protected:
  CommsOnDevices() {
    const std::string name = spec_;
    spec_ = name + "-a," + name + "-b," + name + "-c";
  }
};

TEST_F(CommsOnDevices, FreedWhenLastRankCloses) {
  for (const bool upwards : {true, false}) leave_in_turn(upwards);
}

/// Its slots are separate objects, each on one part.
TEST_F(CommsOnDevices, SpreadSlotsOverParts) {
  constexpr std::size_t count = 300'000;
  on_all([&](Rank& rank) {
    std::vector<float> values(count, static_cast<float>(rank.number + 1));
    const penstock_block_t whole{0, count * sizeof(float)};
    auto call = reduction(PENSTOCK_FLOAT32, PENSTOCK_SUM, values.data(), &whole);
    ASSERT_EQ(penstock_comm_run(rank.comm, &call), PENSTOCK_OK) << penstock_last_error();
    EXPECT_EQ(values, std::vector<float>(count, 6.0f));
    penstock_pool_info_t info{};
    ASSERT_EQ(penstock_pool_info(rank.pool, &info), PENSTOCK_OK);
    EXPECT_GE(info.objects, 4u);  // the words, and slots on each part
    // no rank leaves while others count
    ASSERT_EQ(penstock_comm_run(rank.comm, &call), PENSTOCK_OK) << penstock_last_error();
  });
  penstock_pool_t* pool = nullptr;
  ASSERT_EQ(penstock_pool_attach(spec_.c_str(), nullptr, &pool), PENSTOCK_OK);
  penstock_pool_info_t info{};
  ASSERT_EQ(penstock_pool_info(pool, &info), PENSTOCK_OK);
  EXPECT_EQ(info.objects, 0u);
  penstock_pool_detach(pool);
}

}  // namespace

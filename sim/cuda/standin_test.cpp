// The stand-in GPU behaves like a GPU, and detects errors that a GPU would not forgive.
#include <gtest/gtest.h>

#include <atomic>
#include <cstdlib>
#include <cstring>
#include <numeric>
#include <thread>
#include <vector>

#include "gpu/driver.hpp"

namespace penstock::cuda {
namespace {

constexpr std::size_t count = 1000, bytes = count * sizeof(int);

class StandinGpu : public testing::Test {
 protected:
  void SetUp() override {
    setenv("PENSTOCK_SIM_SEED", "1", 1);
    auto loaded = driver(STANDIN);
    ASSERT_TRUE(loaded) << loaded.error().message;
    gpu_ = *loaded;
    Context context = nullptr;
    ok(gpu_->primary_retain(&context, 0));
    ok(gpu_->context_push(context));
  }
  void TearDown() override { ok(gpu_->context_pop(nullptr)); }

  void ok(Status status) const { ASSERT_EQ(status, success) << gpu_->words(status); }
  Stream stream() const {
    Stream made = nullptr;
    ok(gpu_->stream_create(&made, stream_non_blocking));
    return made;
  }
  Event event() const {
    Event made = nullptr;
    ok(gpu_->event_create(&made, event_disable_timing));
    return made;
  }
  DevicePointer memory() const {
    DevicePointer made = 0;
    ok(gpu_->mem_alloc(&made, bytes));
    return made;
  }
  std::vector<int> numbers(int first) const {
    std::vector<int> made(count);
    std::iota(made.begin(), made.end(), first);
    return made;
  }

  const Driver* gpu_ = nullptr;
};

TEST_F(StandinGpu, StreamsHaveThePriorityAskedFor) {
  int least = 0, greatest = 0, found = 0;
  ok(gpu_->context_priorities(&least, &greatest));
  ok(gpu_->stream_priority(stream(), &found));
  EXPECT_EQ(found, least);
  Stream first = nullptr;
  ok(gpu_->stream_create_with_priority(&first, stream_non_blocking, greatest - 10));
  ok(gpu_->stream_priority(first, &found));
  EXPECT_EQ(found, greatest);
}

TEST_F(StandinGpu, CopiesThereAndBack) {
  const DevicePointer a = memory(), b = memory();
  const Stream s = stream();
  const auto in = numbers(5);
  std::vector<int> out(count);
  ok(gpu_->copy_to_device(a, in.data(), bytes, s));
  ok(gpu_->copy_on_device(b, a, bytes, s));
  ok(gpu_->copy_to_host(out.data(), b, bytes, s));
  ok(gpu_->stream_synchronize(s));
  EXPECT_EQ(out, in);
  unsigned kind = 0;
  ok(gpu_->pointer_attribute(&kind, pointer_memory_type, a + 8));
  EXPECT_EQ(kind, memory_device);
  EXPECT_EQ(gpu_->pointer_attribute(&kind, pointer_memory_type,
                                    reinterpret_cast<DevicePointer>(in.data())),
            invalid_value);
  ok(gpu_->stream_destroy(s));
  ok(gpu_->mem_free(a));
  EXPECT_EQ(gpu_->mem_free(a), invalid_value);
  ok(gpu_->mem_free(b));
}

TEST_F(StandinGpu, HostsAndKernelsFaultOnEachOthersAddresses) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  const DevicePointer a = memory();
  EXPECT_DEATH(std::memset(reinterpret_cast<void*>(a), 0, bytes), "");
  std::vector<int> host(count);
  const auto exits_with_error = [&](DevicePointer to, DevicePointer from) {
    const Stream s = stream();
    (void)gpu_->copy_on_device(to, from, bytes, s);
    std::exit(gpu_->stream_synchronize(s) == illegal_address &&
                      gpu_->mem_free(to) != illegal_address &&
                      gpu_->stream_query(s) == illegal_address
                  ? 0
                  : 1);
  };
  EXPECT_EXIT(exits_with_error(a, reinterpret_cast<DevicePointer>(host.data())),
              testing::ExitedWithCode(0), "");
  EXPECT_EXIT(exits_with_error(a, a + 8), testing::ExitedWithCode(0), "");
  ok(gpu_->mem_free(a));
}

TEST_F(StandinGpu, RegisteredMemoryHasAnAddressOfItsOwn) {
  auto host = numbers(1);
  ok(gpu_->host_register(host.data(), bytes, host_register_portable | host_register_device_map));
  EXPECT_EQ(gpu_->host_register(host.data() + 1, 4, 0), already_registered);
  DevicePointer at = 0;
  ok(gpu_->host_device_pointer(&at, host.data() + 3, 0));
  EXPECT_NE(at, reinterpret_cast<DevicePointer>(host.data() + 3));
  unsigned kind = 0;
  ok(gpu_->pointer_attribute(&kind, pointer_memory_type, at));
  EXPECT_EQ(kind, memory_host);
  const Stream s = stream();
  int found = 0;
  ok(gpu_->copy_to_host(&found, at, sizeof found, s));
  ok(gpu_->stream_synchronize(s));
  EXPECT_EQ(found, 4);
  ok(gpu_->host_unregister(host.data()));
  EXPECT_EQ(gpu_->host_unregister(host.data()), not_registered);
  ok(gpu_->stream_destroy(s));
}

TEST_F(StandinGpu, StreamsWaitForWordsThatOthersWrite) {
  alignas(64) std::uint64_t word = ~1ull;  // just before the numbers wrap around
  ok(gpu_->host_register(&word, sizeof word, host_register_device_map));
  DevicePointer at = 0;
  ok(gpu_->host_device_pointer(&at, &word, 0));
  const Stream waits = stream(), writes = stream();
  std::atomic<int> order{0};
  const auto after = [](void* user) { static_cast<std::atomic<int>*>(user)->store(1); };
  ok(gpu_->wait_value(waits, at, 2, wait_value_geq));
  ok(gpu_->launch_host_function(waits, after, &order));
  EXPECT_EQ(gpu_->stream_query(waits), not_ready);
  EXPECT_EQ(order, 0);
  ok(gpu_->write_value(writes, at, ~0ull, write_value_default));
  ok(gpu_->stream_synchronize(writes));
  EXPECT_EQ(gpu_->stream_query(waits), not_ready);
  ok(gpu_->write_value(writes, at, 3, write_value_default));
  ok(gpu_->stream_synchronize(waits));
  EXPECT_EQ(order, 1);
  ok(gpu_->host_unregister(&word));
  ok(gpu_->stream_destroy(waits));
  ok(gpu_->stream_destroy(writes));
}

TEST_F(StandinGpu, EventsOrderStreams) {
  const DevicePointer a = memory();
  const Stream first = stream(), second = stream();
  const Event done = event();
  EXPECT_EQ(gpu_->event_query(done), success);
  for (int turn = 0; turn < 50; ++turn) {
    const auto in = numbers(turn);
    std::vector<int> out(count);
    ok(gpu_->copy_to_device(a, in.data(), bytes, first));
    ok(gpu_->event_record(done, first));
    ok(gpu_->stream_wait_event(second, done, 0));
    ok(gpu_->copy_to_host(out.data(), a, bytes, second));
    ok(gpu_->event_record(done, second));
    ok(gpu_->event_synchronize(done));
    ASSERT_EQ(out, in);
  }
  ok(gpu_->event_destroy(done));
  ok(gpu_->stream_destroy(first));
  ok(gpu_->stream_destroy(second));
  ok(gpu_->mem_free(a));
}

TEST_F(StandinGpu, GraphRunsAtEachLaunch) {
  const DevicePointer a = memory(), b = memory();
  const Stream main = stream(), side = stream();
  const Event forked = event(), joined = event();
  auto in = numbers(0);
  std::vector<int> out(count);
  ok(gpu_->stream_begin_capture(main, capture_thread_local));
  ok(gpu_->copy_to_device(a, in.data(), bytes, main));
  ok(gpu_->event_record(forked, main));
  ok(gpu_->stream_wait_event(side, forked, 0));
  int status = capture_none;
  ok(gpu_->stream_is_capturing(side, &status));
  EXPECT_EQ(status, capture_active);
  ok(gpu_->copy_on_device(b, a, bytes, side));
  ok(gpu_->event_record(joined, side));
  ok(gpu_->stream_wait_event(main, joined, 0));
  ok(gpu_->copy_to_host(out.data(), b, bytes, main));
  Graph graph = nullptr;
  ok(gpu_->stream_end_capture(main, &graph));
  EXPECT_EQ(out, std::vector<int>(count));  // capturing alone does nothing
  GraphExec exec = nullptr;
  ok(gpu_->graph_instantiate(&exec, graph, 0));
  for (int turn = 1; turn < 4; ++turn) {
    std::iota(in.begin(), in.end(), turn);
    ok(gpu_->graph_launch(exec, main));
    ok(gpu_->stream_synchronize(main));
    EXPECT_EQ(out, in);
  }
  ok(gpu_->graph_exec_destroy(exec));
  ok(gpu_->graph_destroy(graph));
}

TEST_F(StandinGpu, ACaptureThatIsNotJoinedIsRefused) {
  const Stream main = stream(), side = stream();
  const Event forked = event();
  const DevicePointer a = memory();
  ok(gpu_->stream_begin_capture(main, capture_thread_local));
  ok(gpu_->event_record(forked, main));
  ok(gpu_->stream_wait_event(side, forked, 0));
  ok(gpu_->copy_on_device(a, a, bytes, side));
  Graph graph = nullptr;
  EXPECT_EQ(gpu_->stream_synchronize(main), capture_unsupported);
  EXPECT_EQ(gpu_->stream_end_capture(main, &graph), capture_unjoined);
}

TEST_F(StandinGpu, DevicesHaveContextsOfTheirOwn) {
  setenv("STANDIN_DEVICES", "2", 1);
  int count_found = 0, number = -1;
  Device missing = 0;
  ok(gpu_->device_count(&count_found));
  EXPECT_EQ(count_found, 2);
  EXPECT_EQ(gpu_->device_get(&missing, 2), invalid_device);
  const Stream of_first = stream();
  const Event event_of_first = event();
  const DevicePointer first = memory();
  Context second_context = nullptr, found = nullptr;
  ok(gpu_->primary_retain(&second_context, 1));
  ok(gpu_->context_push(second_context));
  ok(gpu_->context_device(&number));
  EXPECT_EQ(number, 1);
  const DevicePointer second = memory();
  ok(gpu_->pointer_attribute(&number, pointer_device_ordinal, second));
  EXPECT_EQ(number, 1);
  ok(gpu_->stream_context(nullptr, &found));
  EXPECT_EQ(found, second_context);
  ok(gpu_->stream_context(of_first, &found));
  EXPECT_NE(found, second_context);
  const Stream of_second = stream();
  EXPECT_EQ(gpu_->event_record(event_of_first, of_second), invalid_handle);
  ok(gpu_->event_record(event_of_first, of_first));
  ok(gpu_->stream_wait_event(of_second, event_of_first, 0));
  ok(gpu_->copy(second, first, bytes, of_second));  // copies go between devices
  ok(gpu_->stream_synchronize(of_second));
  for (const DevicePointer at : {first, second}) ok(gpu_->mem_free(at));
  ok(gpu_->context_pop(nullptr));
  unsetenv("STANDIN_DEVICES");
}

/// A host that queues more than a GPU takes must wait; it hangs if the same thread should open
/// the gate later.
TEST_F(StandinGpu, AFullQueueHoldsItsCaller) {
  alignas(64) std::uint64_t word = 0;
  ok(gpu_->host_register(&word, sizeof word, host_register_device_map));
  DevicePointer at = 0;
  ok(gpu_->host_device_pointer(&at, &word, 0));
  const Stream s = stream();
  ok(gpu_->wait_value(s, at, 1, wait_value_geq));
  std::atomic<int> queued{0};
  std::thread host([&] {
    Context context = nullptr;
    ok(gpu_->primary_retain(&context, 0));
    ok(gpu_->context_push(context));
    for (; queued < 2000; ++queued) ok(gpu_->write_value(s, at, 2, write_value_default));
  });
  while (queued < 1000) std::this_thread::yield();
  std::this_thread::sleep_for(std::chrono::milliseconds(20));
  EXPECT_LT(queued, 1100);
  __atomic_store_n(&word, 1ull, __ATOMIC_RELEASE);
  host.join();
  ok(gpu_->stream_synchronize(s));
  EXPECT_EQ(word, 2ull);
  ok(gpu_->host_unregister(&word));
}

TEST_F(StandinGpu, CallsNeedAContext) {
  Context context = nullptr;
  ok(gpu_->context_pop(&context));
  DevicePointer a = 0;
  EXPECT_EQ(gpu_->mem_alloc(&a, 8), invalid_context);
  ok(gpu_->context_push(context));
  EXPECT_EQ(gpu_->check(illegal_address, "a copy").error().message,
            "the GPU: a copy: an illegal memory access was encountered (700, "
            "CUDA_ERROR_ILLEGAL_ADDRESS)");
}

}  // namespace
}  // namespace penstock::cuda

// penstock_comm_enqueue as programs use it, on two stand-in GPUs.
#include "penstock/gpu.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdlib>
#include <cstring>
#include <string>
#include <vector>

#include "gpu/driver.hpp"

namespace {

using ::testing::HasSubstr;
namespace cuda = penstock::cuda;

constexpr std::uint64_t count = 1000, bytes = count * sizeof(int);

int exchange_alone(void*, const void* mine, void* all, std::uint64_t exchanged) {
  std::memcpy(all, mine, exchanged);
  return 0;
}

class GpuCalls : public ::testing::Test {
 protected:
  void SetUp() override {
    setenv("STANDIN_DEVICES", "2", 1);
    const auto found = cuda::driver(STANDIN);
    ASSERT_TRUE(found) << found.error().message;
    driver_ = *found;
    penstock_pool_options_t options{};
    options.struct_bytes = sizeof options;
    options.bytes = 64 << 20;
    ASSERT_EQ(penstock_pool_create(spec_.c_str(), &options), PENSTOCK_OK) << penstock_last_error();
    ASSERT_EQ(penstock_pool_attach(spec_.c_str(), nullptr, &pool_), PENSTOCK_OK);
    set_device(0);
  }
  void TearDown() override {
    ASSERT_EQ(driver_->context_pop(nullptr), cuda::success);
    penstock_pool_detach(pool_);
    penstock_pool_remove(spec_.c_str(), 1);
  }
  void set_device(int ordinal) const {
    cuda::Context context = nullptr, left = nullptr;
    ASSERT_EQ(driver_->context_current(&context), cuda::success);
    if (context != nullptr) {
      ASSERT_EQ(driver_->context_pop(&left), cuda::success);
    }
    ASSERT_EQ(driver_->primary_retain(&context, ordinal), cuda::success);
    ASSERT_EQ(driver_->context_push(context), cuda::success);
  }
  cuda::Stream stream() const {
    cuda::Stream made = nullptr;
    EXPECT_EQ(driver_->stream_create(&made, cuda::stream_non_blocking), cuda::success);
    return made;
  }
  penstock_comm_t* communicator_of_one() const {
    penstock_comm_options_t options{};
    options.struct_bytes = sizeof options;
    options.ranks = 1;
    options.exchange = exchange_alone;
    options.gpu = 1;
    penstock_comm_t* made = nullptr;
    EXPECT_EQ(penstock_comm_open(pool_, &options, &made), PENSTOCK_OK) << penstock_last_error();
    return made;
  }

  const cuda::Driver* driver_ = nullptr;
  penstock_pool_t* pool_ = nullptr;
  std::string spec_ = "shm:penstock-gpu-calls-test-" + std::to_string(getpid());
};

/// An average is done by a kernel, which reaches memory of its own GPU alone.
struct Average {
  explicit Average(const cuda::Driver& driver, cuda::Stream its_stream)
      : gpu(driver), stream(its_stream) {
    EXPECT_EQ(gpu.mem_alloc(&in, bytes), cuda::success);
    EXPECT_EQ(gpu.mem_alloc(&out, bytes), cuda::success);
    EXPECT_EQ(gpu.copy_to_device(in, given.data(), bytes, stream), cuda::success);
    EXPECT_EQ(gpu.stream_synchronize(stream), cuda::success);
  }
  penstock_status_t enqueue(penstock_comm_t* comm, cuda::Stream on) const {
    const penstock_block_t block{0, bytes};
    penstock_call_t call{};
    call.struct_bytes = sizeof call;
    call.name = "average";
    call.collective = PENSTOCK_ALLREDUCE;
    call.datatype = PENSTOCK_INT32;
    call.operation = PENSTOCK_AVERAGE;
    call.input = reinterpret_cast<const void*>(in);
    call.output = reinterpret_cast<void*>(out);
    call.input_blocks = call.output_blocks = &block;
    call.input_count = call.output_count = 1;
    return penstock_comm_enqueue(comm, &call, on);
  }
  void expect_result(penstock_comm_t* comm) const {
    EXPECT_EQ(penstock_comm_drain(comm), PENSTOCK_OK) << penstock_last_error();
    std::vector<int> found(count);
    EXPECT_EQ(gpu.copy_to_host(found.data(), out, bytes, stream), cuda::success);
    EXPECT_EQ(gpu.stream_synchronize(stream), cuda::success);
    EXPECT_EQ(found, given);
  }

  const cuda::Driver& gpu;
  cuda::Stream stream;
  cuda::DevicePointer in = 0, out = 0;
  const std::vector<int> given = std::vector<int>(count, 7);
};

TEST_F(GpuCalls, TakeGpuOfFirstStream) {
  penstock_comm_t* const comm = communicator_of_one();
  const cuda::Stream of_first = stream();
  set_device(1);
  const cuda::Stream of_second = stream();
  const Average average(*driver_, of_second);
  set_device(0);
  ASSERT_EQ(average.enqueue(comm, of_second), PENSTOCK_OK) << penstock_last_error();
  EXPECT_EQ(average.enqueue(comm, of_first), PENSTOCK_INVALID_ARGUMENT);
  EXPECT_THAT(penstock_last_error(), HasSubstr("average: the stream belongs to GPU 0, and the "
                                               "communicator to GPU 1"));
  EXPECT_EQ(average.enqueue(comm, nullptr), PENSTOCK_INVALID_ARGUMENT);
  set_device(1);
  EXPECT_EQ(average.enqueue(comm, nullptr), PENSTOCK_OK) << penstock_last_error();
  average.expect_result(comm);
  penstock_comm_close(comm);
}

/// Kernels are loaded at the first call, and a capture in this mode forbids that to all threads.
TEST_F(GpuCalls, BeginDuringCaptureOfOtherStream) {
  const cuda::Stream captures = stream(), plain = stream();
  const Average average(*driver_, plain);
  penstock_comm_t* const comm = communicator_of_one();
  ASSERT_EQ(driver_->stream_begin_capture(captures, cuda::capture_global), cuda::success);
  EXPECT_EQ(average.enqueue(comm, plain), PENSTOCK_OK) << penstock_last_error();
  cuda::Graph graph = nullptr;
  EXPECT_EQ(driver_->stream_end_capture(captures, &graph), cuda::success);
  average.expect_result(comm);
  penstock_comm_close(comm);
}

}  // namespace

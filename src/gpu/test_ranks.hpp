// Ranks that are threads, each with the stand-in GPU, for tests of GPU collectives.
#pragma once

#include <gtest/gtest.h>

#include <atomic>
#include <barrier>
#include <cstdlib>
#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "arena/arena.hpp"
#include "gpu/communicator.hpp"
#include "gpu/test_driver.hpp"
#include "pool/test_pool.hpp"

namespace penstock::gpu {

inline constexpr coll::Shape small{
    .slots = 4, .slot_bytes = 1024, .eager_blocks = 4, .eager_bytes = 6 * 56};

/// The modes of a pool, and the form that a communicator has there.
struct Form {
  const char* name;
  coherence::Mode mode;
  coll::Shape shape;
  const char* fused_bytes = "0";
};
constexpr coll::Shape small_direct(std::uint64_t flagged_bytes = 0) {
  coll::Shape shape = small;
  shape.direct = true;
  shape.flagged_bytes = flagged_bytes;
  return shape;
}
/// Payload of a flagged block: of more bytes than a launch has threads for in one turn.
inline constexpr std::uint64_t small_flagged = 5 * 224;
inline constexpr Form forms[] = {
    {"proxy", coherence::Mode::software, small},
    {"proxy", coherence::Mode::hardware, small},
    {"direct", coherence::Mode::hardware, small_direct()},
    {"direct", coherence::Mode::uncached, small_direct()},
    {"one launch", coherence::Mode::hardware, small_direct(), "64K"},
    {"one launch", coherence::Mode::uncached, small_direct(), "64K"},
    {"one launch by proxy", coherence::Mode::software, small, "64K"},
    {"flagged", coherence::Mode::hardware, small_direct(small_flagged), "64K"}};

/// Memory of a GPU for all ranks of a job. Freeing memory waits for all streams of the process, and
/// those of other ranks may wait for this rank's next call: so memory is freed after all ranks have
/// ended. On the stand-in each rank allocates and frees its own, which reveals any use after the
/// free.
class JobMemory {
 public:
  JobMemory() {
    if (!on_a_gpu()) return;
    device_ = *Device::current();
    const Device::Scope scope(*device_);
    EXPECT_EQ(device_->driver().mem_alloc(&begin_, bytes), cuda::success);
    next_ = begin_;
    end_ = begin_ + bytes;
  }
  ~JobMemory() {
    if (device_ == nullptr) return;
    const Device::Scope scope(*device_);
    EXPECT_EQ(device_->driver().mem_free(begin_), cuda::success);
    next_ = end_ = 0;
  }
  JobMemory(const JobMemory&) = delete;
  JobMemory& operator=(const JobMemory&) = delete;

  static cuda::DevicePointer take(std::size_t wanted) {
    constexpr std::size_t alignment = 512;
    const cuda::DevicePointer taken =
        next_.fetch_add((wanted + alignment - 1) / alignment * alignment);
    EXPECT_LE(taken + wanted, end_);
    return taken;
  }

 private:
  static constexpr std::size_t bytes = 256 << 20;
  static inline std::atomic<cuda::DevicePointer> next_{0}, end_{0};
  std::shared_ptr<const Device> device_;
  cuda::DevicePointer begin_ = 0;
};

/// Memory of the GPU, filled by the host.
class DeviceBytes {
 public:
  DeviceBytes(const Device& device, const std::vector<std::byte>& content, cuda::Stream stream)
      : device_(device), stream_(stream), bytes_(content.size()), content_(content) {
    const Device::Scope scope(device);
    if (on_a_gpu())
      at_ = JobMemory::take(bytes_ + 64);
    else
      EXPECT_EQ(device.driver().mem_alloc(&at_, bytes_ + 64), cuda::success);
    EXPECT_EQ(device.driver().copy_to_device(at_, content_.data(), bytes_, stream), cuda::success);
  }
  ~DeviceBytes() {
    if (on_a_gpu()) return;
    const Device::Scope scope(device_);
    EXPECT_EQ(device_.driver().mem_free(at_), cuda::success);
  }
  DeviceBytes(const DeviceBytes&) = delete;
  DeviceBytes& operator=(const DeviceBytes&) = delete;

  cuda::DevicePointer at() const { return at_; }
  std::vector<std::byte> read() const {
    const Device::Scope scope(device_);
    std::vector<std::byte> out(bytes_);
    // A copy to memory that is not pinned waits within the driver, and must not wait for other
    // ranks too.
    if (on_a_gpu()) {
      EXPECT_EQ(device_.driver().stream_synchronize(stream_), cuda::success);
    }
    EXPECT_EQ(device_.driver().copy_to_host(out.data(), at_, bytes_, stream_), cuda::success);
    EXPECT_EQ(device_.driver().stream_synchronize(stream_), cuda::success);
    return out;
  }

 private:
  const Device& device_;
  cuda::Stream stream_;
  std::size_t bytes_;
  std::vector<std::byte> content_;
  cuda::DevicePointer at_ = 0;
};

struct Rank {
  coll::Communicator& core;
  Communicator& gpu;
  const Device& device;
  cuda::Stream stream;
  std::function<void()> close;  ///< ends `gpu`
};

class GpuCommunicator : public testing::Test {
 protected:
  static void SetUpTestSuite() {
    setenv("PENSTOCK_SIM_SEED", "1", 1);
    setenv("PENSTOCK_SPIN", "1", 1);  // streams are threads, and need the cores
    setenv("PENSTOCK_GPU_FUSED_BYTES", "0", 1);
    ASSERT_TRUE(open_test_driver());
    if (on_a_gpu()) held_ = *Device::current();  // else each job would make and destroy its context
  }
  static void TearDownTestSuite() { held_.reset(); }
  void make_pool(const Form& form) {
    setenv("PENSTOCK_GPU_FUSED_BYTES", form.fused_bytes, 1);
    make_pool(form.mode);
  }
  void make_pool(coherence::Mode mode) {
    auto made = pool::create({.spec = spec_,
                              .bytes = 48 << 20,
                              .mode = mode,
                              .max_processes = 16,
                              .max_nodes = 8,
                              .overwrite = true});
    ASSERT_TRUE(made) << made.error().message;
  }
  void run(std::uint32_t ranks, std::uint32_t nodes, const coll::Shape& shape,
           const std::function<void(const Rank&)>& body) {
    std::vector<std::unique_ptr<pool::Pool>> pools;
    coll::Options options{.shape = shape,
                          .plan_override = plan_override_,
                          .direct = shape.direct,
                          .flagged_bytes = shape.flagged_bytes,
                          .by_gpus = true};
    for (std::uint32_t r = 0; r < ranks; ++r) {
      auto attached = pool::Pool::attach(
          {.spec = spec_, .rank = static_cast<int>(r), .job = "gpu", .emulated_node = r % nodes});
      ASSERT_TRUE(attached) << attached.error().message;
      pools.push_back(*std::move(attached));
      options.tokens.push_back(pools.back()->token());
      options.nodes.push_back(r % nodes);
    }
    auto arena = *arena::Arena::open(*pools[0]);
    const std::uint64_t bytes = coll::Communicator::bytes(ranks, shape);
    const auto area = arena->create("area", bytes, {.alignment = 4096});
    ASSERT_TRUE(area) << area.error().message;
    options.area = area->offset;
    const JobMemory memory;
    std::barrier<> all(static_cast<std::ptrdiff_t>(ranks));
    std::vector<std::thread> threads;
    for (std::uint32_t r = 0; r < ranks; ++r) {
      threads.emplace_back([&, r] {
        coll::Options own = options;
        own.self = r;
        auto core = coll::Communicator::open(*pools[r], own);
        ASSERT_TRUE(core) << core.error().message;
        as_rank(**core, {pools[r]->base() + own.area, bytes}, body, all);
      });
    }
    for (auto& thread : threads) thread.join();
    ASSERT_TRUE(arena->destroy(*area));
    arena.reset();
  }

  coll::PlanOverride plan_override_;

 private:
  static void as_rank(coll::Communicator& core, const Communicator::Area& area,
                      const std::function<void(const Rank&)>& body, std::barrier<>& all) {
    const auto device = Device::current();
    ASSERT_TRUE(device) << device.error().message;
    auto gpu = Communicator::open(core, {area}, *device);
    ASSERT_TRUE(gpu) << gpu.error().message;
    cuda::Stream stream = nullptr;
    {
      const Device::Scope scope(**device);
      ASSERT_EQ((*device)->driver().stream_create(&stream, cuda::stream_non_blocking),
                cuda::success);
    }
    // Calls that register, allocate and free may wait for all streams of the process.
    if (on_a_gpu()) all.arrive_and_wait();
    body({core, **gpu, **device, stream, [&gpu] { gpu->reset(); }});
    if (on_a_gpu()) all.arrive_and_wait();
    gpu->reset();
    const Device::Scope scope(**device);
    ASSERT_EQ((*device)->driver().stream_destroy(stream), cuda::success);
  }

  static inline std::shared_ptr<const Device> held_;
  pool::TestFolder folder_;
  std::string spec_ = folder_.file("pool");
};

}  // namespace penstock::gpu

// Collectives of GPUs through the pool: the data is moved by two streams of this rank, straight
// between the GPU's memory and the communicator's slots; a thread of the host keeps the protocol,
// writes back and invalidates (coll/lane_run.cpp). Protocol: docs/protocols/collectives.md, "Data
// that a GPU moves". Source: CCCL, section 4; gpu.md, "CUDA".
#pragma once

#include <atomic>
#include <condition_variable>
#include <deque>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "coll/communicator.hpp"
#include "coll/prepared.hpp"
#include "gpu/combining.hpp"
#include "gpu/lanes.hpp"

namespace penstock::gpu {

/// A collective call of this rank. Buffers are memory of the GPU, or of the host as the GPU reaches
/// it.
struct Call {
  std::string name;
  coll::Problem problem;
  cuda::DevicePointer input = 0, output = 0;  ///< the same: in place
  std::optional<Reducing> reducing;
  std::uint64_t fingerprint = 0, timeout_ns = 0;  ///< as coll::Call
};

/// What a rank of a communicator does by a GPU. enqueue(): one thread at a time; the rest: any
/// thread. All ranks enqueue the same calls in the same order; the calls are done in that order,
/// whichever streams they are enqueued on. Ordering: as that of kernels on the user's stream.
///
///     auto gpu = gpu::Communicator::open(core, {{area, bytes}}, *gpu::Device::current());
///     (*gpu)->enqueue({.name = "sum", .problem = problem, .input = in, .output = out,
///                      .reducing = gpu::Reducing{}}, stream);
class Communicator {
 public:
  struct Area {
    std::byte* begin = nullptr;
    std::uint64_t bytes = 0;
  };
  /// `core` outlives it, and makes no call by itself while one is under way. `areas`: all that the
  /// communicator has in the pool. Errors: what the driver says.
  static Result<std::unique_ptr<Communicator>> open(coll::Communicator& core,
                                                    const std::vector<Area>& areas,
                                                    std::shared_ptr<const Device> device);
  /// Waits until all that was enqueued is done, or has failed.
  ~Communicator();

  /// Does not wait for other ranks, unless a thousand operations are queued already. Errors: that
  /// of an earlier call; invalid_argument, those of coll::build(), and a stream that captures a
  /// graph; unavailable, where the driver refuses something, after which the communicator has
  /// failed.
  Result<void> enqueue(const Call& call, cuda::Stream stream);
  /// The first error of a call that was enqueued, by which the communicator has failed: nothing of
  /// it waits any more, and results of calls that were not done are undefined.
  std::optional<Error> error() const;
  /// Ends all calls with an error, on the other ranks too.
  void abort();
  /// Waits until all that was enqueued is done.
  Result<void> drain();

 private:
  struct Submission {
    std::string name;
    std::shared_ptr<const coll::Prepared> prepared;
    std::uint64_t number = 0;                            ///< of the collective
    std::array<std::uint64_t, coll::lane_count> base{};  ///< segments before it
    std::uint64_t last = 0;  ///< of the read lane: a gate that opens when the call is over
    std::uint64_t fingerprint = 0, timeout_ns = 0;
  };
  class Gates;

  Communicator(coll::Communicator& core, std::shared_ptr<const Device> device)
      : core_(core), device_(std::move(device)) {}
  Result<Submission> prepare(const Call& call);
  Result<void> issue(const Call& call, const Submission& submitted, cuda::Stream stream);
  Result<void> move(const Call& call, const Submission& submitted, const coll::Step& step);
  Result<void> combine(const Call& call, const Submission& submitted, const coll::Step& step);
  Result<void> copy(cuda::DevicePointer to, cuda::DevicePointer from, std::uint64_t bytes,
                    Lane lane);
  Result<void> ensure_scratch(std::uint64_t bytes);
  cuda::DevicePointer at(const Call& call, const coll::Span& span) const;
  cuda::DevicePointer chunk_at(const Submission& submitted, std::uint32_t rank, std::uint64_t chunk,
                               std::uint64_t at) const;
  void run_proxy();
  void run(const Submission& submitted);
  void fail_with(const Error& error);
  /// Ends the call under way.
  void cancel() { __atomic_store_n(&cancelled_, 1, __ATOMIC_RELEASE); }

  coll::Communicator& core_;
  std::shared_ptr<const Device> device_;
  std::vector<Pinned> pinned_;
  std::unique_ptr<Lanes> lanes_;
  std::vector<cuda::DevicePointer> scratch_;  ///< the last one is in use
  std::uint64_t scratch_bytes_ = 0;
  std::uint64_t number_ = 0;
  std::array<std::uint64_t, coll::lane_count> segments_{};

  mutable std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<Submission> queue_;  ///< the first one is under way
  std::optional<Error> error_;
  bool others_know_ = false;  ///< of the error
  std::atomic<std::uint64_t> submitted_{0};
  bool ends_ = false;
  volatile int cancelled_ = 0;
  std::thread proxy_;
};

}  // namespace penstock::gpu

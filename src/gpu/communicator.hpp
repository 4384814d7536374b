// Collectives of GPUs through the pool: the data is moved by two streams of this rank, straight
// between the GPU's memory and the communicator's slots, in one of two forms. Protocol:
// docs/protocols/collectives.md, "Data that a GPU moves". Source: CCCL, section 4; gpu.md, "CUDA".
#pragma once

#include <memory>
#include <optional>
#include <vector>

#include "gpu/movement.hpp"

namespace penstock::gpu {

/// What a rank of a communicator does by a GPU. enqueue(): one thread at a time; the rest: any
/// thread. All ranks enqueue the same calls in the same order; the calls are done in that order,
/// whichever streams they are enqueued on. Ordering: as that of kernels on the user's stream.
///
///     auto gpu = gpu::Communicator::open(core, {{area, bytes}}, *gpu::Device::current());
///     (*gpu)->enqueue({.name = "sum", .problem = problem, .input = in, .output = out,
///                      .reducing = gpu::Reducing{}}, stream);
class Communicator {
 public:
  using Area = gpu::Area;
  /// `core` outlives it, and makes no call by itself while one is under way: drain() comes before
  /// such a call. `areas`: all that the communicator has in the pool. Where Options::direct is set
  /// the streams keep the protocol by themselves (direct.hpp), else a thread of the host does
  /// (proxied.hpp); all ranks have the same form. Errors: what the driver says.
  static Result<std::unique_ptr<Communicator>> open(coll::Communicator& core,
                                                    const std::vector<Area>& areas,
                                                    std::shared_ptr<const Device> device);
  /// Waits until all that was enqueued is done, or has failed.
  virtual ~Communicator() = default;
  /// Device::id() of the current device, if it could have the direct form; else 0.
  static std::uint64_t direct_gpu();

  /// Does not wait for other ranks, unless a thousand operations are queued already. Errors: that
  /// of an earlier call; invalid_argument, those of coll::build(), and a stream that captures a
  /// graph where the form cannot be captured; unavailable, where the driver refuses something,
  /// after which the communicator has failed.
  virtual Result<void> enqueue(const Call& call, cuda::Stream stream) = 0;
  /// The first error of a call that was enqueued, by which the communicator has failed: nothing of
  /// it waits any more, and results of calls that were not done are undefined.
  virtual std::optional<Error> error() = 0;
  /// Ends all calls with an error, on the other ranks too.
  virtual void abort() = 0;
  /// Waits until all that was enqueued is done.
  virtual Result<void> drain() = 0;
  /// "proxy", "direct".
  virtual const char* form() const = 0;
};

}  // namespace penstock::gpu

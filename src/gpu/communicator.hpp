// Collectives of GPUs through the pool: two streams of this rank move the data, straight between
// the GPU's memory and the communicator's slots, in one of two forms. Protocol:
// docs/protocols/collectives.md, "Data that a GPU moves". Source: CCCL, section 4.
#pragma once

#include <memory>
#include <optional>
#include <vector>

#include "gpu/movement.hpp"

namespace penstock::gpu {

/// The GPU side of one rank of a communicator. enqueue(): one thread at a time; the rest: any
/// thread. All ranks enqueue the same calls in the same order; the calls are done in that order,
/// whichever streams they are enqueued on. Ordering: that of kernels on the user's stream.
///
///     auto gpu = gpu::Communicator::open(core, {{area, bytes}}, *gpu::Device::current());
///     (*gpu)->enqueue({.name = "sum", .problem = problem, .input = in, .output = out,
///                      .reducing = gpu::Reducing{}}, stream);
class Communicator {
 public:
  using Area = gpu::Area;
  /// `core` must outlive it, and may make no call of its own while one is under way: drain() first.
  /// `areas`: all memory of the communicator in the pool. If Options::direct is set the streams
  /// keep the protocol (direct.hpp), else a thread of the host does (proxied.hpp); all ranks have
  /// the same form. Errors: those of the driver.
  static Result<std::unique_ptr<Communicator>> open(coll::Communicator& core,
                                                    const std::vector<Area>& areas,
                                                    std::shared_ptr<const Device> device);
  /// Waits until all enqueued calls are done, or have failed.
  virtual ~Communicator() = default;
  /// Whether the direct form is possible on the device.
  static bool can_be_direct(const Device& device);

  /// Enqueues a call. Does not wait for other ranks, unless hundreds of operations are queued
  /// already: then it waits outside the driver, until there is room or the communicator fails, but
  /// not for a graph. Errors: that of an earlier call; invalid_argument, those of coll::build(),
  /// and for a stream that captures a graph in a form that cannot be captured; unavailable if the
  /// driver refuses, after which the communicator has failed.
  virtual Result<void> enqueue(const Call& call, cuda::Stream stream) = 0;
  /// Returns the first error of an enqueued call. The communicator has then failed: none of its
  /// operations wait any more, and results of unfinished calls are undefined.
  virtual std::optional<Error> error() = 0;
  /// Whether a call is under way that may have to wait for other ranks. Does not wait.
  virtual bool is_busy() = 0;
  /// Ends all calls with an error, on the other ranks too.
  virtual void abort() = 0;
  /// Waits until all enqueued calls are done or, after a failure, until the GPU has come to the end
  /// of all of them: it accesses their buffers until then.
  virtual Result<void> drain() = 0;
  /// "proxy" or "direct".
  virtual const char* form() const = 0;
};

}  // namespace penstock::gpu

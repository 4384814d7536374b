// Small calls by one launch each (fused.hpp): which calls qualify, and the arguments of their
// launches.
#pragma once

#include <memory>

#include "gpu/fused.hpp"
#include "gpu/movement.hpp"

namespace penstock::gpu {

/// For one communicator; one thread at a time.
class FusedLaunches {
 public:
  /// The longest block of a call that is done by one launch; 0: none. PENSTOCK_GPU_FUSED_BYTES if
  /// set; else 64 KiB. If ranks of the communicator share a GPU, in time slices that a waiting
  /// kernel would waste, only calls that wait by kernels anyway.
  struct Limits {
    std::uint64_t bytes = 64 << 10, bytes_by_launches = 64 << 10;
  };
  /// Errors: those of base::env_number().
  static Result<Limits> limits(bool shares_gpu);
  /// `core` and `movement` must outlive it. Errors: those of limits().
  static Result<FusedLaunches> make(const coll::Communicator& core, const Movement& movement,
                                    std::shared_ptr<const Device> device);

  /// The words of a call.
  class Words {
   public:
    virtual ~Words() = default;
    /// The GPU's address of a word that the call waits for or writes.
    virtual std::uint64_t* at(const coll::DirectOp& op) const = 0;
    virtual bool is_needed(const coll::DirectOp& op) const = 0;
  };

  /// Whether the call is small enough. `by_launches`: the call counts itself.
  bool is_small(const Call& call, bool by_launches) const;
  /// Completes the arguments of its launch, of which LaunchWords and the turn are set.
  /// `collective`: as in Movement::describe(). False: a launch cannot hold them, because its ranks
  /// or chunks are too many.
  bool complete(FusedCall& arguments, const Call& call, const coll::Prepared& prepared,
                std::uint64_t collective, const Words& words) const;
  /// Errors: those of Device::fused_kernel(), and the driver's.
  Result<void> launch(const Call& call, FusedCall& arguments, cuda::Stream stream) const;

 private:
  FusedLaunches(std::uint32_t ranks, const Movement& movement, std::shared_ptr<const Device> device,
                const Limits& limits)
      : ranks_(ranks), movement_(movement), device_(std::move(device)), limits_(limits) {}

  std::uint32_t ranks_;
  const Movement& movement_;
  std::shared_ptr<const Device> device_;
  Limits limits_;
};

}  // namespace penstock::gpu

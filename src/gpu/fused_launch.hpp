// Small calls of the direct form by one launch each (fused.hpp): which calls qualify, and the
// arguments of their launches.
#pragma once

#include <memory>
#include <optional>

#include "coll/direct.hpp"
#include "gpu/fused.hpp"
#include "gpu/movement.hpp"
#include "gpu/stream_words.hpp"

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

  FusedLaunches(coll::Communicator& core, const Movement& movement, const StreamWords& words,
                std::shared_ptr<const Device> device, const Limits& limits)
      : core_(core),
        movement_(movement),
        words_(words),
        device_(std::move(device)),
        limits_(limits) {}

  /// Whether the call is small enough. `by_launches`: the call counts itself.
  bool is_small(const Call& call, bool by_launches) const;
  /// Returns the arguments of its launch; nullopt if a launch cannot hold them, because its ranks
  /// or chunks are too many.
  std::optional<FusedCall> arguments(const Call& call, const coll::Prepared& prepared,
                                     const coll::DirectTurn& turn, bool by_launches) const;
  /// Errors: those of Device::fused_kernel(), and the driver's.
  Result<void> launch(const Call& call, FusedCall& arguments, cuda::Stream stream) const;

 private:
  coll::Communicator& core_;
  const Movement& movement_;
  const StreamWords& words_;
  std::shared_ptr<const Device> device_;
  const Limits limits_;
};

}  // namespace penstock::gpu

// Flagged calls by one launch each (flagged.hpp): the arguments of their launches, and the state
// that launches leave to each other.
#pragma once

#include <memory>

#include "coll/direct.hpp"
#include "gpu/flagged.hpp"
#include "gpu/movement.hpp"

namespace penstock::gpu {

/// For one communicator of the direct form; one thread at a time.
class FlaggedLaunches {
 public:
  /// The longest block that this rank offers for flagged calls: PENSTOCK_GPU_FLAGGED_BYTES if set;
  /// else coll::default_flagged_bytes, but at most PENSTOCK_GPU_FUSED_BYTES. `also_shared`: one of
  /// them is set, so ranks that share a GPU make such calls too, whose waits waste its time slices.
  struct Offer {
    std::uint64_t bytes = 0;
    bool also_shared = false;
  };
  /// Errors: those of base::env_number().
  static Result<Offer> offer(const Device& device);

  /// `core` and `movement` must outlive it. Errors: the driver's; those of Device::words_kernel().
  static Result<std::unique_ptr<FlaggedLaunches>> make(coll::Communicator& core,
                                                       const Movement& movement,
                                                       std::shared_ptr<const Device> device);
  ~FlaggedLaunches();
  FlaggedLaunches(const FlaggedLaunches&) = delete;
  FlaggedLaunches& operator=(const FlaggedLaunches&) = delete;

  /// Completes the arguments of the call's launch, of which LaunchWords are set. `turn`: null if
  /// the launch counts the call itself.
  void complete(FlaggedCall& arguments, const Call& call, const coll::Prepared& prepared,
                const coll::DirectTurn* turn) const;
  /// Errors: those of Device::flagged_kernel(), and the driver's.
  Result<void> launch(const Call& call, FlaggedCall& arguments, cuda::Stream stream) const;

 private:
  FlaggedLaunches(coll::Communicator& core, const Movement& movement,
                  std::shared_ptr<const Device> device)
      : core_(core), movement_(movement), device_(std::move(device)) {}

  coll::Communicator& core_;
  const Movement& movement_;
  std::shared_ptr<const Device> device_;
  cuda::DevicePointer state_ = 0;
};

}  // namespace penstock::gpu

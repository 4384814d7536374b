// Moves the data of a collective by a rank's streams: copies between the GPU's memory and the
// slots, and reductions. Source: CCCL, section 4.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "coll/communicator.hpp"
#include "coll/prepared.hpp"
#include "gpu/combining.hpp"
#include "gpu/lanes.hpp"
#include "gpu/moved.hpp"
#include "gpu/pinned.hpp"
#include "gpu/scratch.hpp"

namespace penstock::gpu {

/// A collective call of this rank. Buffers are memory of the GPU, or host memory that the GPU can
/// access.
struct Call {
  std::string name;
  coll::Problem problem;
  cuda::DevicePointer input = 0, output = 0;  ///< equal: in place
  std::optional<Reducing> reducing;
  std::uint64_t fingerprint = 0, timeout_ns = 0;  ///< as in coll::Call
};

/// Where a span of a call lies, unless it is in scratch memory.
inline cuda::DevicePointer place_of(const Call& call, const coll::Span& span) {
  return (span.buffer == coll::Buffer::output ? call.output : call.input) + span.offset;
}

/// Memory of a communicator in the pool.
struct Area {
  std::byte* begin = nullptr;
  std::uint64_t bytes = 0;
};

/// For one communicator. One thread at a time.
class Movement {
 public:
  /// `core` must outlive it. Errors: the driver's.
  static Result<std::unique_ptr<Movement>> make(coll::Communicator& core,
                                                const std::vector<Area>& areas,
                                                std::shared_ptr<const Device> device);
  Movement(const Movement&) = delete;
  Movement& operator=(const Movement&) = delete;

  /// Called before the first step of a call: provides its kernels, and the memory that it needs.
  /// Errors: those of Device::combine_kernel(); invalid_argument for more ranks than a kernel
  /// reduces; no_space.
  Result<void> check(const Call& call, const coll::Prepared& prepared);
  /// Stores into `moved` what a step of the call moves; the step is a publish, copy, move or
  /// combine. `collective`: as in coll::Communicator::chunk_of().
  void describe(const Call& call, const coll::Prepared& prepared, std::uint64_t collective,
                const coll::Step& step, Moved& moved) const;
  /// Enqueues the same. The caller counts the last of its operations (Lanes::count()).
  Result<void> move(const Call& call, const coll::Prepared& prepared, std::uint64_t collective,
                    const coll::Step& step, Lanes& lanes, Lane lane);
  /// The GPU's address of the communicator's memory in the pool.
  cuda::DevicePointer in_pool(const std::byte* memory) const;
  cuda::DevicePointer at(const Call& call, const coll::Span& span) const;

 private:
  Movement(coll::Communicator& core, std::shared_ptr<const Device> device)
      : core_(core), device_(device), results_(device), scratch_(device) {}

  coll::Communicator& core_;
  std::shared_ptr<const Device> device_;
  std::vector<Pinned> pinned_;
  GrowingMemory results_;  ///< Buffer::scratch of a schedule
  Scratch scratch_;
};

}  // namespace penstock::gpu

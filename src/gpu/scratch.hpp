// Long reductions by way of memory of the GPU: a copy engine brings the other ranks' values from
// the pool, and a kernel reduces them there. Copy engines use the whole link, and a kernel that
// reads the pool does not. The values come in pieces into two buffers by turns, so that the copy of
// a piece overlaps the kernel of the one before. The results are the same bits.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "gpu/combining.hpp"
#include "gpu/lanes.hpp"
#include "gpu/moved.hpp"

namespace penstock::gpu {

/// Memory of a GPU that grows. Streams and graphs may still use memory that is now too short, so it
/// is kept until the end.
class GrowingMemory {
 public:
  explicit GrowingMemory(std::shared_ptr<const Device> device) : device_(std::move(device)) {}
  ~GrowingMemory();
  GrowingMemory(const GrowingMemory&) = delete;
  GrowingMemory& operator=(const GrowingMemory&) = delete;

  /// Errors: the driver's.
  Result<void> ensure(std::uint64_t bytes, const char* what);
  cuda::DevicePointer at() const { return all_.back(); }
  std::uint64_t bytes() const { return bytes_; }

 private:
  std::shared_ptr<const Device> device_;
  std::vector<cuda::DevicePointer> all_;  ///< the last one is in use
  std::uint64_t bytes_ = 0;
};

/// For one communicator. One thread at a time.
class Scratch {
 public:
  explicit Scratch(std::shared_ptr<const Device> device)
      : device_(std::move(device)), buffers_(device_) {}
  /// All lanes that it was used with must be idle.
  ~Scratch();
  Scratch(const Scratch&) = delete;
  Scratch& operator=(const Scratch&) = delete;

  /// Called before the first operation of a call: provides the memory for its reductions of at
  /// least `from_bytes`. If the GPU has none left, kernels read the pool. Errors: the driver's.
  Result<void> ensure(const coll::Schedule& schedule, std::uint64_t from_bytes);
  /// Whether a reduction may go by way of this memory.
  bool takes(const Moved& moved, std::uint64_t from_bytes) const;
  /// Enqueues it: later operations of the lane come behind it. The caller counts the last of the
  /// operations (Lanes::count()).
  Result<void> reduce(const Reducing& reducing, std::uint32_t ranks, const Moved& moved,
                      Lanes& lanes, Lane lane);

 private:
  static constexpr std::size_t buffers = 2;
  /// A stream whose kernels reduce beside the copies of a lane. Graphs have one of their own.
  struct Kernels {
    cuda::Stream stream = nullptr;
    std::array<cuda::Event, buffers> brought{}, reduced{};
  };
  /// How a reduction is cut.
  struct Cut {
    std::uint64_t piece_bytes = 0, pieces = 0;
  };
  static Cut cut_of(std::uint64_t bytes, std::uint32_t brought);
  static bool is_worth_it(std::uint64_t bytes, std::uint32_t brought, std::uint64_t from_bytes);
  Result<void> open(Kernels& kernels);
  void close(Kernels& kernels);
  Result<void> reduce_pieces(const Reducing& reducing, std::uint32_t ranks, const Moved& moved,
                             Lanes& lanes, Lane lane);
  Result<void> bring(const Moved& moved, std::uint64_t at, std::uint64_t bytes,
                     cuda::DevicePointer buffer, std::uint64_t stride, cuda::Stream stream,
                     Combine& call);

  std::shared_ptr<const Device> device_;
  GrowingMemory buffers_;
  std::uint64_t refused_bytes_ = ~0ull;  ///< the GPU had no such amount of memory left
  std::array<Kernels, 2> kernels_;       ///< of calls, and of graphs
};

}  // namespace penstock::gpu

// The two streams of a rank (coll::Lane), and how they are ordered with each other and with the
// program's streams: by events, which a graph may capture. Source: gpu.md, "CUDA".
#pragma once

#include <array>
#include <cstdint>
#include <memory>

#include "coll/schedule.hpp"
#include "gpu/device.hpp"

namespace penstock::gpu {

using coll::Lane;
inline constexpr std::array both_lanes{Lane::write, Lane::read};
constexpr std::size_t index_of(Lane lane) {
  return static_cast<std::size_t>(lane);
}

class Lanes {
 public:
  static Result<std::unique_ptr<Lanes>> make(std::shared_ptr<const Device> device);
  /// Waits until the streams are idle: all their operations are done, or the GPU has failed.
  ~Lanes();
  Lanes(const Lanes&) = delete;
  Lanes& operator=(const Lanes&) = delete;

  cuda::Stream stream(Lane lane) const { return streams_[index_of(lane)]; }

  /// Orders the lanes' next operations after those that `user` has been given so far.
  Result<void> begin_after(cuda::Stream user);
  /// Orders the next operations of `user` after the lanes' operations so far.
  Result<void> end_before(cuda::Stream user);
  /// For a call on `user` itself: orders it after all earlier calls, and the lanes' next operations
  /// after it. Not while `user` captures a graph.
  Result<void> begin_on(cuda::Stream user);
  Result<void> end_on(cuda::Stream user);
  /// Orders the next operations of `lane` after those that the other lane has been given so far.
  Result<void> join(Lane lane);
  /// Errors: the GPU has failed, and how.
  Result<void> check() const;
  bool are_idle() const;
  /// Waits until the streams have done all operations. Errors: the GPU's.
  Result<void> synchronize() const;

 private:
  explicit Lanes(std::shared_ptr<const Device> device) : device_(std::move(device)) {}
  Result<void> open();

  std::shared_ptr<const Device> device_;
  std::array<cuda::Stream, both_lanes.size()> streams_{};
  std::array<cuda::Event, both_lanes.size()> ends_{};
  cuda::Event begin_ = nullptr;
  cuda::Event on_user_ = nullptr;  ///< behind the last call on a stream of the program
  bool was_on_user_ = false;       ///< the last call of all was such a call
};

}  // namespace penstock::gpu

// The two streams of a rank (coll::Lane), and how they, each other and the program's streams come
// after one another: by events, which a graph may capture. Source: gpu.md, "CUDA".
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
  /// Waits until the streams are idle: nothing they were given waits any more, or the GPU has
  /// failed.
  ~Lanes();
  Lanes(const Lanes&) = delete;
  Lanes& operator=(const Lanes&) = delete;

  cuda::Stream stream(Lane lane) const { return streams_[index_of(lane)]; }

  /// The lanes' next operations come after what `user` has been given so far.
  Result<void> begin_after(cuda::Stream user);
  /// What `user` is given from now on comes after the lanes' operations so far.
  Result<void> end_before(cuda::Stream user);
  /// For a call that `user` is given by itself: it comes behind all earlier calls, and the lanes'
  /// next operations behind it. Not while `user` captures a graph.
  Result<void> begin_on(cuda::Stream user);
  Result<void> end_on(cuda::Stream user);
  /// `lane` goes on after what the other one has been given so far.
  Result<void> join(Lane lane);
  /// Has the GPU failed? Error: what it says.
  Result<void> check() const;
  bool are_idle() const;
  /// Waits until the streams have done all. Error: what the GPU says.
  Result<void> synchronize() const;

 private:
  explicit Lanes(std::shared_ptr<const Device> device) : device_(std::move(device)) {}
  Result<void> open();

  std::shared_ptr<const Device> device_;
  std::array<cuda::Stream, both_lanes.size()> streams_{};
  std::array<cuda::Event, both_lanes.size()> ends_{};
  cuda::Event begin_ = nullptr;
  cuda::Event on_user_ = nullptr;  ///< the last call that a stream of the program was given
  bool was_on_user_ = false;       ///< that is the last call of all
};

}  // namespace penstock::gpu

// The two streams of a rank (coll::Lane), and how they are ordered with each other and with the
// program's streams: by events, which a graph may capture.
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>

#include "gpu/device.hpp"
#include "gpu/outstanding.hpp"
#include "schedule/schedule.hpp"

namespace penstock::gpu {

using coll::Lane;
inline constexpr std::array both_lanes{Lane::write, Lane::read};
constexpr std::size_t index_of(Lane lane) {
  return static_cast<std::size_t>(lane);
}

class Lanes {
 public:
  /// `captured`: only graphs get their operations, which no stream does before a launch.
  static Result<std::unique_ptr<Lanes>> make(std::shared_ptr<const Device> device,
                                             bool captured = false);
  /// Waits until the streams are idle: all their operations are done, or the GPU has failed.
  ~Lanes();
  Lanes(const Lanes&) = delete;
  Lanes& operator=(const Lanes&) = delete;

  bool is_captured() const { return captured_; }
  cuda::Stream stream(Lane lane) const { return streams_[index_of(lane)]; }

  /// Held by the thread that enqueues while it calls the driver, and by one that asks for the state
  /// of the streams: NVIDIA's driver is not asked about a stream that is being given operations.
  using Hold = std::unique_lock<std::mutex>;
  Hold hold() const { return Hold(mutex_); }
  /// Does not wait; the result may hold nothing.
  Hold try_hold() const { return Hold(mutex_, std::try_to_lock); }

  /// Called after a lane, or a stream of the program, was given operations.
  Result<void> count(Lane lane, std::uint64_t operations = 1);
  Result<void> count_of_user(cuda::Stream user, std::uint64_t operations);
  /// Whether the streams, those of the program too, take `more` operations and a few others at
  /// once. Errors: the GPU has failed, and how.
  Result<bool> has_room(std::uint64_t more = 0);
  /// Waits for that without `hold`, and outside the driver. Errors: also what `failed` returns.
  Result<void> await_room(Hold& hold, const std::function<std::optional<Error>()>& failed);

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
  /// Waits, outside the driver, until the streams have done all operations and `others_rest`.
  /// Errors: the GPU's.
  Result<void> await_rest(const std::function<bool()>& others_rest) const;

 private:
  Lanes(std::shared_ptr<const Device> device, bool captured);
  Result<void> open();

  std::shared_ptr<const Device> device_;
  const bool captured_;
  mutable std::mutex mutex_;
  std::array<Outstanding, both_lanes.size() + 1> outstanding_;  ///< the last: of users' streams
  std::array<cuda::Stream, both_lanes.size()> streams_{};
  std::array<cuda::Event, both_lanes.size()> ends_{};
  cuda::Event begin_ = nullptr;
  cuda::Event on_user_ = nullptr;  ///< behind the last call on a stream of the program
  bool was_on_user_ = false;       ///< the last call of all was such a call
};

}  // namespace penstock::gpu

// The two streams of a rank, and the words by which they and the host's thread wait for each other:
// both count segments (coll/lane_program.hpp), and only grow. The streams wait by stream memory
// operations, which take no multiprocessor. Source: gpu.md, "CUDA".
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <memory>
#include <optional>

#include "coll/lane_program.hpp"
#include "gpu/pinned.hpp"

namespace penstock::gpu {

using coll::Lane;

class Lanes {
 public:
  static Result<std::unique_ptr<Lanes>> make(std::shared_ptr<const Device> device);
  /// Waits until the streams are idle: they are, or open() was called, or the GPU has failed.
  ~Lanes();
  Lanes(const Lanes&) = delete;
  Lanes& operator=(const Lanes&) = delete;

  cuda::Stream stream(Lane lane) const { return streams_[index(lane)]; }

  // Of whoever enqueues:
  /// The lanes' next operations come after what `user` has been given so far.
  Result<void> begin_after(cuda::Stream user);
  /// What `user` is given from now on comes after the lanes' operations so far.
  Result<void> end_before(cuda::Stream user);
  /// `lane` goes on after what the other one has been given so far.
  Result<void> join(Lane lane);
  Result<void> wait_for_gate(Lane lane, std::uint64_t segments);
  Result<void> set_mark(Lane lane, std::uint64_t segments);

  // Of the thread that keeps the protocol:
  /// The first `segments` of the lane may begin. It never takes back what open_all() has allowed.
  void allow(Lane lane, std::uint64_t segments) {
    std::atomic<std::uint64_t>& gate = word(gates, lane);
    std::uint64_t before = gate.load(std::memory_order_relaxed);
    while (before < segments &&
           !gate.compare_exchange_weak(before, segments, std::memory_order_release)) {
    }
  }
  /// Whether the first `segments` of the lane are done.
  bool is_done(Lane lane, std::uint64_t segments) const {
    return word(marks, lane).load(std::memory_order_acquire) >= segments;
  }
  /// Nothing waits any more, whatever was allowed.
  void open_all();
  /// Has the GPU failed? Error: what it says.
  Result<void> check() const;

 private:
  static constexpr std::size_t gates = 0, marks = coll::lane_count, word_stride = 64;
  static constexpr std::uint64_t all_open = 1ull << 62;
  explicit Lanes(std::shared_ptr<const Device> device) : device_(std::move(device)) {}
  Result<void> open();
  static std::size_t index(Lane lane) { return static_cast<std::size_t>(lane); }
  std::byte* at(std::size_t kind, Lane lane) const {
    return words_ + (kind + index(lane)) * word_stride;
  }
  std::atomic<std::uint64_t>& word(std::size_t kind, Lane lane) const {
    return *reinterpret_cast<std::atomic<std::uint64_t>*>(at(kind, lane));
  }

  std::shared_ptr<const Device> device_;
  std::byte* words_ = nullptr;  ///< a page
  std::optional<Pinned> pinned_;
  std::array<cuda::Stream, coll::lane_count> streams_{};
  std::array<cuda::Event, coll::lane_count> ends_{};
  cuda::Event begin_ = nullptr;
};

}  // namespace penstock::gpu

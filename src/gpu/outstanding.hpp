// Bounds the operations that streams have been given and have not done yet. A GPU queues some 1,000
// operations of a stream that waits; then the next call blocks inside the driver, where no abort
// reaches it, and the driver answers no question about the stream. So the thread that enqueues
// waits before that, outside the driver.
#pragma once

#include <array>
#include <cstdint>

#include "gpu/device.hpp"

namespace penstock::gpu {

/// Of a stream, or of several that take turns. Used by the thread that enqueues.
class Outstanding {
 public:
  static constexpr std::uint64_t most = 512;

  /// `device` must outlive it.
  explicit Outstanding(const Device& device) : device_(device), driver_(device.driver()) {}
  ~Outstanding();
  Outstanding(const Outstanding&) = delete;
  Outstanding& operator=(const Outstanding&) = delete;
  Result<void> open();

  /// Called after `stream` was given `operations`. Gives it an event now and then.
  Result<void> count(cuda::Stream stream, std::uint64_t operations);
  /// Whether fewer than `most` are outstanding, `more` included. Asks the driver for an event only
  /// if it seems otherwise. Errors: the GPU has failed, and how.
  Result<bool> has_room(std::uint64_t more);

 private:
  static constexpr std::uint64_t between_marks = 128;
  /// An event behind the operations so far.
  struct Mark {
    cuda::Event event = nullptr;
    std::uint64_t issued = 0;
  };
  Mark& mark(std::uint64_t number) { return marks_[number % marks_.size()]; }

  const Device& device_;
  const cuda::Driver& driver_;
  std::uint64_t issued_ = 0, marked_ = 0, done_ = 0;
  std::array<Mark, 8> marks_{};
  std::uint64_t first_ = 0, next_ = 0;  ///< marks that were not found reached yet
};

}  // namespace penstock::gpu

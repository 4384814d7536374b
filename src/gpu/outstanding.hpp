// Bounds the operations that a lane's stream has not done yet. A GPU queues some 1,000 operations
// of a stream that waits; then the next call blocks inside the driver, where no abort reaches it,
// and the driver answers no question about the stream. So the thread that enqueues waits before.
#pragma once

#include <cstdint>
#include <deque>

namespace penstock::gpu {

/// Of one lane. Used by the thread that enqueues.
class Outstanding {
 public:
  static constexpr std::uint64_t most = 512;

  /// A word that the lane's stream writes, or waits for, behind the operations so far.
  struct End {
    bool waits = false;  ///< else it writes
    std::uint64_t value = 0;
  };

  void count() { ++issued_; }
  /// The operations so far are done once `end` is reached.
  void end_with(End end) { ends_.push_back({end, issued_}); }
  /// False: at least `most` operations are not done. `is_reached`: bool(End), whether the word has
  /// the value. Operations that no end covers are not counted: nothing tells when they are done.
  template <class IsReached>
  bool has_room(const IsReached& is_reached) {
    while (issued_ - done_ >= most && !ends_.empty() && is_reached(ends_.front().end)) {
      done_ = ends_.front().issued;
      ends_.pop_front();
    }
    return issued_ - done_ < most || ends_.empty();
  }

 private:
  struct Covered {
    End end;
    std::uint64_t issued;  ///< operations up to here
  };
  std::uint64_t issued_ = 0, done_ = 0;
  std::deque<Covered> ends_;
};

}  // namespace penstock::gpu

// How many bytes a sender keeps of messages that were sent by copy and have not left.
#pragma once

#include <cstdint>

namespace penstock::messages {

class Copies {
 public:
  void set_limit(std::uint64_t bytes) { limit_ = allowed_ = bytes; }
  std::uint64_t bytes() const { return bytes_; }
  void begun(std::uint64_t bytes) { bytes_ += bytes; }
  void ended(std::uint64_t bytes) { bytes_ -= bytes; }
  /// A receiver has taken an announced message, so those behind it may move.
  void note_fetch() { ++fetches_; }

  /// True if so many more fit. Below half of the limit an extension ends.
  bool has_room(std::uint64_t bytes) {
    if (bytes_ < limit_ / 2) allowed_ = limit_;
    return bytes_ + bytes <= allowed_;
  }
  /// Call it where has_room() is false. Returns for how long nothing has moved.
  std::uint64_t stuck_ns(std::uint64_t now_ns) {
    if (bytes_ < stuck_at_ || fetches_then_ != fetches_ || stuck_since_ns_ == 0) {
      stuck_since_ns_ = now_ns;
      fetches_then_ = fetches_;
    }
    stuck_at_ = bytes_;
    return now_ns - stuck_since_ns_;
  }
  /// False: the limit has been extended as often as it may be.
  bool may_extend() const { return allowed_ < longest * limit_; }
  /// True if `bytes` more fit then.
  bool extend(std::uint64_t bytes, std::uint64_t now_ns) {
    allowed_ += limit_;
    stuck_since_ns_ = now_ns;
    return bytes_ + bytes <= allowed_;
  }

 private:
  static constexpr std::uint64_t longest = 4;  ///< times the limit

  std::uint64_t limit_ = 0;
  std::uint64_t allowed_ = 0;  ///< the present limit
  std::uint64_t bytes_ = 0;
  std::uint64_t fetches_ = 0, fetches_then_ = 0;
  std::uint64_t stuck_at_ = 0;  ///< `bytes_` at the last look
  std::uint64_t stuck_since_ns_ = 0;
};

}  // namespace penstock::messages

// Guesses from the messages so far whether more follow closely: then lines and cells that cost the
// sender less are better than those that arrive sooner.
#pragma once

#include <cstdint>

namespace penstock::transport {

struct TxParts;

class Streams {
 public:
  /// True if the caller has not polled since the last message, so it is not waiting for an answer.
  /// Call it once a message. `polls`: TxContext::polls.
  bool note_message(std::uint64_t polls) {
    const bool streams = sent_at_poll_ == polls;
    sent_at_poll_ = polls;
    return streams;
  }
  /// Call it after a message that is part of a stream if others follow soon.
  void note_long(std::uint64_t now_ns) { long_sent_ns_ = now_ns; }
  /// True if a message of more than `stream_bytes` is better sent in cells, and there are some.
  bool wants_cells(TxParts& tx);

 private:
  std::uint64_t sent_at_poll_ = ~0ull;   ///< at the last eager message
  std::uint64_t long_sent_ns_ = 0;       ///< when the last message above `stream_bytes` was sent
  std::uint64_t no_cells_until_ns_ = 0;  ///< streams can do without cells
};

}  // namespace penstock::transport

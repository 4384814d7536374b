// The limit: payload in tagged lines at a fixed place, without ring, header, credit or matching.
// Any protocol through the pool does at least that, apart from overlap. If lines need no flush,
// longer payload goes without tags, followed by a word.
#pragma once

#include <cstddef>
#include <cstdint>

#include "bench/message_path.hpp"
#include "coherence/coherence.hpp"

namespace penstock::bench {

/// Ping-pong only: the sender writes again only after an answer. A message of up to 56 bytes, one
/// line's payload, is the raw hand-over: one line is published, and that line is polled.
class RawLines final : public MessagePath {
 public:
  /// Bytes polled together while nothing has arrived, as many as Penstock's channel polls at most;
  /// the rest of a message takes another look.
  static constexpr std::size_t first_look_bytes = 16 * coherence::tagged_bytes;

  static std::uint64_t bytes(std::uint64_t message_bytes) {
    return coherence::line_bytes + (message_bytes + coherence::tagged_bytes - 1) /
                                       coherence::tagged_bytes * coherence::line_bytes;
  }
  RawLines(const coherence::Memory& memory, std::byte* out, std::byte* in)
      : memory_(memory), bulk_(memory), out_(out), in_(in) {}
  Result<void> send(const std::byte* data, std::size_t bytes) override;
  Result<void> receive(std::byte* to, std::size_t bytes) override;
  /// Whether a message of this length goes in tagged lines.
  bool tagged(std::size_t bytes) const;
  /// From now on `bulk` publishes payload without tags.
  void leave_by(const coherence::Memory& bulk) { bulk_ = bulk; }
  /// Selects how single lines are sent: past the cache (publish_line), which leaves no dirty line,
  /// or the fastest way (send_line).
  void leave_past_the_cache(bool past) { past_ = past; }

 private:
  void send_untagged(const std::byte* data, std::size_t bytes);
  void receive_untagged(std::byte* to, std::size_t bytes);
  coherence::Memory memory_, bulk_;
  std::byte* out_;
  const std::byte* in_;
  bool past_ = false;
  std::uint64_t out_tag_ = 1, in_tag_ = 1;
};

}  // namespace penstock::bench

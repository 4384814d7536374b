// The ring of a channel as its sender sees it: the lines written, and those known to be consumed.
#pragma once

#include "transport/layout.hpp"

namespace penstock::transport {

class TxRing {
 public:
  /// `header`: job, both ends and the number of flags; begin() fills in the rest.
  TxRing(const coherence::Memory& memory, std::byte* pool, std::byte* base,
         const ChannelLayout& layout, const ChannelHeader& header)
      : memory_(memory), pool_(pool), base_(base), layout_(layout), header_(header) {}

  /// Initializes a channel in new memory, where nothing has been sent. Does a store fence.
  void begin();
  /// Goes on in new memory. Its header names the place and the lines of the ring so far, which are
  /// received first.
  void move_to(std::byte* base, const ChannelLayout& layout);

  std::byte* base() const { return base_; }
  /// In the pool.
  std::uint64_t offset() const { return static_cast<std::uint64_t>(base_ - pool_); }
  const ChannelLayout& layout() const { return layout_; }
  /// Bytes of pool memory that a channel of this layout takes.
  static std::uint64_t bytes_of(const ChannelLayout& layout);
  const ChannelHeader& header() const { return header_; }
  std::uint64_t nonce() const { return header_.nonce; }
  std::uint64_t lines() const { return layout_.ring_lines(); }
  /// Lines written.
  std::uint64_t head() const { return head_; }
  /// Lines known to be consumed.
  std::uint64_t consumed() const { return consumed_; }
  bool has_room(std::uint64_t lines) const { return head_ + lines - consumed_ <= this->lines(); }
  /// Takes the number of consumed lines from the receiver. Ignores an impossible one.
  void credit(std::uint64_t lines) {
    if (lines <= head_ && lines > consumed_) consumed_ = lines;
  }

  std::byte* line_at(std::uint64_t number) const { return base_ + layout_.line(number); }
  /// The sequence tag of the next plain line.
  std::uint64_t next_tag() const { return nonce() + head_; }
  /// Writes the next line, the first one of a message. `streams`: other lines follow closely.
  void write(MessageLine& line, bool streams) {
    line.sequence_tag = line.sequence_tag_of(next_tag());
    streams ? memory_.stream_line(line_at(head_), &line) : memory_.send_line(line_at(head_), &line);
    ++head_;
  }
  /// Writes payload in tagged lines after the first one of a message.
  void write_tagged(const std::byte* payload, std::uint64_t bytes, bool streams);
  /// Writes the next line with nothing but its tag.
  void write_tag();
  /// Overwrites the line of this number, which is not consumed.
  void overwrite(std::uint64_t number, MessageLine& line);

  /// Publishes the header again.
  void repair_header() { memory_.publish_line(base_, &header_); }
  /// Publishes how much is in the pool if that has changed, or always if `again`. `begun`: the last
  /// line's message is not whole yet. The caller does the store fence.
  void publish_position(bool begun, std::uint64_t cells, bool waits, bool again);
  /// True if nothing was written since the last call and some lines are not consumed.
  bool rests_unconsumed();

 private:
  coherence::Memory memory_;
  std::byte* pool_;
  std::byte* base_;
  ChannelLayout layout_;
  ChannelHeader header_;
  std::uint64_t head_ = 0, consumed_ = 0;
  PositionLine position_;        ///< as published
  std::uint64_t looked_at_ = 0;  ///< `head_` at the last call of rests_unconsumed()
};

}  // namespace penstock::transport

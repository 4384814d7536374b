// The cells of a channel as their receiver sees them, while a pipelined message arrives. Cell
// numbers never wrap; cell c lies in place c modulo the number of cells.
#pragma once

#include "transport/layout.hpp"

namespace penstock::transport {

class RxCells {
 public:
  RxCells(const coherence::Memory& memory, const std::byte* channel, const ChannelHeader& header)
      : memory_(memory), channel_(channel), nonce_(header.nonce), flag_count_(header.cell_flags) {}

  /// Takes the place and the shape of the cells from a message's first line. False: impossible.
  bool use(const MessageLine& line, pool::Pool& pool);
  /// Begins a message; `ready` of its cells are complete already.
  void begin(std::uint64_t ready) {
    ready_ = ready;
    stored_ = false;
  }
  void end() { begin(0); }

  std::uint32_t cell_bytes() const { return cell_bytes_; }
  std::uint32_t count() const { return count_; }
  /// Number of the next cell.
  std::uint64_t next() const { return next_; }
  /// Cells from next() on that are known to be complete.
  std::uint64_t ready() const { return ready_; }
  /// True if these lie in the receive buffer.
  bool are_stored() const { return stored_; }
  /// True if the sender ended the message early.
  bool broken_off() const { return broken_off_; }

  /// Looks at one line of flags, if no cell is known to be complete.
  void look();
  /// Invalidates that line before the next look.
  void invalidate_flags() const { memory_.invalidate(flag_line(), line_bytes); }
  /// Invalidates the next cells. `bytes`: of them, and of the rest of the message.
  void drop(std::uint32_t cells, std::uint64_t bytes) const;
  const std::byte* at() const { return at_ + next_ % count_ * cell_bytes_; }
  void take(std::uint32_t cells) {
    next_ += cells;
    ready_ -= cells;
  }

 private:
  /// The line that holds the next cell's flag.
  const std::byte* flag_line() const { return channel_ + ChannelLayout::flag_line(next_ % count_); }

  coherence::Memory memory_;
  const std::byte* channel_;
  std::uint64_t nonce_;
  std::uint32_t flag_count_;
  const std::byte* at_ = nullptr;
  std::uint32_t cell_bytes_ = 0, count_ = 0;
  std::uint64_t next_ = 0, ready_ = 0;
  bool stored_ = false, broken_off_ = false;
};

}  // namespace penstock::transport

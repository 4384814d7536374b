// The cells of a channel as their sender sees them: where they lie, those filled, and those known
// to be consumed. Cell numbers never wrap; cell c lies in place c modulo count().
#pragma once

#include "transport/layout.hpp"
#include "transport/settings.hpp"
#include "transport/tx_memory.hpp"

namespace penstock::transport {

class TxCells {
 public:
  explicit TxCells(const coherence::Memory& memory) : memory_(memory) {}

  /// Counts from 0 again, on a channel where nothing was sent: its first byte, and its nonce.
  void begin(std::byte* channel, std::uint64_t nonce);
  /// Takes memory for the first cells; fewer if the pool is nearly full. `needed`: as of
  /// TxMemory::allocate. Errors: no_space; deadline.
  Result<void> make(TxMemory& memory, const Settings& settings, bool needed);
  /// Replaces the cells, all of which are consumed, by `count` others. False: the pool is full.
  bool grow(TxMemory& memory, std::uint32_t count);
  void give_back(TxMemory& memory);

  bool exist() const { return at_ != nullptr; }
  std::byte* at() const { return at_; }
  std::uint32_t cell_bytes() const { return cell_bytes_; }
  std::uint32_t count() const { return count_; }
  /// Number of the next cell.
  std::uint64_t head() const { return head_; }
  bool all_consumed() const { return consumed_ == head_; }
  bool have_room() const { return head_ - consumed_ < count_; }
  void credit(std::uint64_t cells) {
    if (cells <= head_ && cells > consumed_) consumed_ = cells;
  }

  std::byte* next() const { return at_ + (head_ % count_) * cell_bytes_; }
  /// Stores the next cell's bytes to `to`: next(), or the receive buffer.
  void put(std::byte* to, const std::byte* from, std::uint64_t bytes) {
    memory_.publish_bulk(to, from, bytes);
    ++head_;
  }
  /// Announces the cells from `first` on. `stored`: all lie in the receive buffer; else all in
  /// cells. The caller does the store fence after it.
  void announce(std::uint64_t first, bool stored) const;
  /// Replaces the next cell's flag: the message ends here. Does a store fence.
  void break_off() const;

 private:
  std::byte* flag_at(std::uint64_t cell) const {
    return channel_ + ChannelLayout::flag(cell % count_);
  }
  std::uint64_t bytes_of(std::uint32_t count) const { return std::uint64_t{count} * cell_bytes_; }

  coherence::Memory memory_;
  std::byte* channel_ = nullptr;
  std::uint64_t nonce_ = 0;
  std::byte* at_ = nullptr;
  std::uint32_t cell_bytes_ = 0, count_ = 0;
  std::uint64_t head_ = 0, consumed_ = 0;
};

}  // namespace penstock::transport

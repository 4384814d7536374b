#include "transport/tx_cells.hpp"

namespace penstock::transport {

void TxCells::begin(std::byte* channel, std::uint64_t nonce) {
  channel_ = channel;
  nonce_ = nonce;
  head_ = consumed_ = 0;
}

Result<void> TxCells::make(TxMemory& memory, const Settings& settings, bool needed) {
  if (exist()) return {};
  // fewer cells are slower, but still carry the message
  Result<std::byte*> cells = unexpected(Error{});
  std::uint32_t number = settings.first_cell_count;
  for (;; number /= 2) {
    cells = memory.allocate(static_cast<std::uint64_t>(number) * settings.cell_bytes,
                            "bulk transfer", needed);
    if (cells || cells.error().code != ErrorCode::no_space || number == 1) break;
  }
  if (!cells) return unexpected(cells.error());
  at_ = *cells;
  cell_bytes_ = settings.cell_bytes;
  count_ = number;
  return {};
}

bool TxCells::grow(TxMemory& memory, std::uint32_t count) {
  auto more = memory.allocate(bytes_of(count), "cells", false);
  if (!more) return false;
  give_back(memory);
  at_ = *more;
  count_ = count;
  return true;
}

void TxCells::give_back(TxMemory& memory) {
  if (!exist()) return;
  memory.give_back(at_, bytes_of(count_), true);
  at_ = nullptr;
}

void TxCells::announce(std::uint64_t first, bool stored) const {
  memory_.store_fence();  // the cells before their flags
  for (std::uint64_t cell = first; cell < head_; ++cell)
    memory_.publish_word(flag_at(cell), (nonce_ + cell) | (stored ? flag_put : 0));
}

void TxCells::break_off() const {
  memory_.publish_word(flag_at(head_), broken_off(nonce_ + head_));
  memory_.store_fence();  // the receiver may be closing too, and wait for it
}

}  // namespace penstock::transport

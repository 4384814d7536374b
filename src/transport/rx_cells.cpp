#include "transport/rx_cells.hpp"

#include <algorithm>

namespace penstock::transport {

bool RxCells::use(const MessageLine& line, pool::Pool& pool) {
  const auto& cells = line.pipelined;
  cell_bytes_ = cells.cell_bytes;
  count_ = cells.cell_count;
  const bool shape_ok = cell_bytes_ >= line_bytes && cell_bytes_ % line_bytes == 0 && count_ >= 1 &&
                        count_ <= flag_count_ && cells.ready <= 1 && cells.first_cell == next_ &&
                        cells.offset % line_bytes == 0;
  at_ = shape_ok ? static_cast<const std::byte*>(
                       pool.at(cells.offset, static_cast<std::uint64_t>(cell_bytes_) * count_))
                 : nullptr;
  return at_ != nullptr;
}

void RxCells::look() {
  if (ready_ != 0) return;
  const std::uint64_t slot = next_ % count_;
  constexpr std::uint64_t a_line = ChannelLayout::flags_a_line;
  std::uint64_t words[a_line];
  memory_.load_line(words, flag_line());
  const std::uint64_t first_slot = slot / a_line * a_line;
  const std::uint64_t in_line = std::min(a_line, count_ - first_slot);
  const std::uint64_t* const now = words + (slot - first_slot);
  broken_off_ = now[0] == transport::broken_off(nonce_ + next_);
  if (broken_off_) return;
  stored_ = (now[0] & flag_put) != 0;
  const std::uint64_t first = (nonce_ + next_) | (stored_ ? flag_put : 0);
  while (slot - first_slot + ready_ < in_line && now[ready_] == first + ready_) ++ready_;
}

void RxCells::drop(std::uint32_t cells, std::uint64_t bytes) const {
  for (std::uint32_t i = 0; i < cells; ++i) {
    const std::uint64_t of_cell = std::min<std::uint64_t>(cell_bytes_, bytes);
    memory_.invalidate(at_ + (next_ + i) % count_ * cell_bytes_, of_cell);
    bytes -= of_cell;
  }
}

}  // namespace penstock::transport

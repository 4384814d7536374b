// Pipelined cells: longer messages, copied through cells that are used in turn. Each cell has a
// flag that says it is full. Protocol: docs/protocols/channel.md.
#include <algorithm>
#include <cstring>

#include "base/checked.hpp"
#include "base/clock.hpp"
#include "base/format.hpp"
#include "transport/iov.hpp"
#include "transport/rx_channel.hpp"
#include "transport/tx_channel.hpp"

namespace penstock::transport {
namespace {

constexpr std::uint64_t put_together = 4;  ///< stored cells announced by one store fence

}  // namespace

// ---- the sender ---------------------------------------------------------------------------------

Result<void> TxChannel::make_cells(bool needed) {
  if (cells_) return {};
  // fewer cells are slower, but still carry the message
  Result<std::byte*> cells = unexpected(Error{});
  std::uint32_t number = context_.settings.first_cell_count;
  for (;; number /= 2) {
    cells = context_.tx_memory.allocate(
        static_cast<std::uint64_t>(number) * context_.settings.cell_bytes, "bulk transfer", needed);
    if (cells || cells.error().code != ErrorCode::no_space || number == 1) break;
  }
  if (!cells) return unexpected(cells.error());
  cells_ = *cells;
  cell_bytes_ = context_.settings.cell_bytes;
  cell_count_ = number;
  return {};
}

void TxChannel::put_pipelined_line(const SendOp& op, std::uint64_t ready) {
  MessageLine line;
  const int flags = (op.notify_delivered ? flag_acknowledge : 0) |
                    (requested_at_ns_ != 0 ? flag_request_to_send : 0);
  line.meta = MessageLine::pack(op.header.bytes, static_cast<std::uint8_t>(flags), Form::pipelined,
                                op.header.kind);
  line.tag = op.header.tag;
  line.data = op.header.data;
  line.pipelined.offset = *context_.pool.offset_of(cells_);
  line.pipelined.cell_bytes = cell_bytes_;
  line.pipelined.cell_count = cell_count_;
  line.pipelined.first_cell = cells_head_ - ready;
  line.pipelined.ready = ready;
  line.sequence_tag = line.sequence_tag_of(nonce_ + head_);
  memory_.send_line(line_at(head_), &line);
  pipelined_line_ = head_++;
  announce();
}

std::byte* TxChannel::next_cell() const {
  return cells_ + (cells_head_ % cell_count_) * cell_bytes_;
}

void TxChannel::put_cell(const SendOp& op, std::byte* to, std::uint64_t bytes) {
  const std::byte* from =
      iov_contiguous(op.iov, op.iov_count, op.sent_bytes, bytes, context_.staging.data());
  memory_.publish_bulk(to, from, bytes);
  ++cells_head_;
}

/// Announces the cells from `first` on. `stored`: all lie in the receive buffer; else all in cells.
void TxChannel::announce_cells(std::uint64_t first, bool stored) {
  memory_.store_fence();  // the cells before their flags
  for (std::uint64_t cell = first; cell < cells_head_; ++cell)
    memory_.publish_word(flag_at(cell), (nonce_ + cell) | (stored ? flag_put : 0));
}

/// Fills each cell at most once: with a fast receiver a longer loop would hold the caller for the
/// whole message. Announces each cell at once, so that the receiver copies it meanwhile. Bytes
/// stored in the receive buffer, which the receiver only invalidates, are announced several cells
/// together.
bool TxChannel::push_cells(SendOp* op) {
  const std::uint64_t head_before = cells_head_;
  if (requested_at_ns_ != 0 || clear_to_send_.until != 0)
    refresh_credits();  // the clear-to-send may have been extended or withdrawn
  std::uint64_t first = cells_head_;
  bool stored = false;
  while (op->sent_bytes < op->header.bytes && cells_head_ - head_before < cell_count_ &&
         cell_room()) {
    const std::uint64_t bytes =
        std::min<std::uint64_t>(cell_bytes_, op->header.bytes - op->sent_bytes);
    std::byte* to = place_of_next(*op, bytes);
    if (!to) break;
    const bool stores = to != next_cell();
    if (first != cells_head_ && (!stored || !stores || cells_head_ - first == put_together)) {
      announce_cells(first, stored);
      first = cells_head_;
      if (stored && stores) {  // the clear-to-send may have been withdrawn
        refresh_credits();
        continue;
      }
    }
    stored = stores;
    put_cell(*op, to, bytes);
    op->sent_bytes += bytes;
  }
  if (first != cells_head_) announce_cells(first, stored);
  if (cells_head_ != head_before) memory_.store_fence();
  return op->sent_bytes == op->header.bytes;
}

TxChannel::Started TxChannel::start_pipelined(SendOp* op) {
  if (!cells_are_ready()) return Started::no_credit;
  if (!cells_) {
    if (auto made = make_cells(true); !made) {
      memory_error_ = made.error();
      return Started::no_memory;
    }
  }
  if (!room(1) || !cell_room()) return Started::no_credit;
  count(op->header);
  clear_to_send_ = {};
  requested_at_ns_ = 0;
  if (op->header.bytes <= cell_bytes_) {
    put_cell(*op, next_cell(), op->header.bytes);
    memory_.store_fence();  // complete when announced: the receiver needs no flag
    put_pipelined_line(*op, 1);
    memory_.store_fence();
    op->sent_bytes = op->header.bytes;
    long_sent_ns_ = base::now_ns();
  } else {
    if (requests_to_send(*op)) requested_at_ns_ = base::now_ns();
    put_pipelined_line(*op, 0);  // the receiver can match while the first cell is written
    if (requested_at_ns_ != 0) memory_.store_fence();
    if (requested_at_ns_ == 0) push_cells(op);
  }
  op->position = head_;
  return op->sent_bytes == op->header.bytes ? Started::complete : Started::partly;
}

// ---- the receiver -------------------------------------------------------------------------------

/// Checks the line only. Matching does not know the message yet, so it may stay in the pool.
bool RxChannel::check_cells(const MessageLine& line) {
  cell_bytes_ = line.pipelined.cell_bytes;
  cell_count_ = line.pipelined.cell_count;
  const bool shape_ok = cell_bytes_ >= line_bytes && cell_bytes_ % line_bytes == 0 &&
                        cell_count_ >= 1 && cell_count_ <= flag_count_ &&
                        line.pipelined.ready <= 1 && line.pipelined.first_cell == cell_ &&
                        line.pipelined.offset % line_bytes == 0;
  cells_ = shape_ok
               ? static_cast<const std::byte*>(context_.pool.at(
                     line.pipelined.offset, static_cast<std::uint64_t>(cell_bytes_) * cell_count_))
               : nullptr;
  if (!cells_)
    return broken(fmt::format("endpoint {} claims {} cells of {} bytes at {}, from cell {} on",
                              source_, cell_count_, cell_bytes_, line.pipelined.offset,
                              line.pipelined.first_cell));
  return true;
}

bool RxChannel::begin_pipelined(const MessageLine& line) {
  ready_ = line.pipelined.ready;
  stored_ = false;
  stage_ = Stage::pipelined;
  begin_clear_to_send(line.flags() & flag_request_to_send);
  return continue_pipelined();
}

/// Number of complete cells from cell_ on, as far as one line of flags shows.
std::uint32_t RxChannel::ready_cells() {
  const std::uint64_t slot = cell_ % cell_count_;
  constexpr std::uint64_t a_line = ChannelLayout::flags_a_line;
  std::uint64_t words[a_line];
  memory_.load_line(words, flag_line());
  const std::uint64_t first_slot = slot / a_line * a_line;
  const std::uint64_t in_line = std::min(a_line, cell_count_ - first_slot);
  std::uint32_t ready = 0;
  const std::uint64_t* const now = words + (slot - first_slot);
  broken_off_ = now[0] == broken_off(nonce_ + cell_);
  if (broken_off_) return 0;
  stored_ = (now[0] & flag_put) != 0;
  const std::uint64_t first = (nonce_ + cell_) | (stored_ ? flag_put : 0);
  while (slot - first_slot + ready < in_line && now[ready] == first + ready) ++ready;
  return ready;
}

void RxChannel::deliver(const std::byte* from, std::uint64_t bytes) {
  if (direct_) {
    memory_.load_bulk(direct_ + got_, from, bytes);
  } else {
    iov_visit(receive_buffer_.iov, receive_buffer_.iov_count, got_, bytes,
              [&](std::byte* to, std::uint64_t n, std::uint64_t done) {
                memory_.load_bulk(to, from + done, n);
              });
  }
  got_ += bytes;
  context_.took(bytes);
}

void RxChannel::take_cells(std::uint32_t count) {
  if (memory_.loads_may_be_stale()) {
    std::uint64_t rest = header_.bytes - got_;
    for (std::uint32_t i = 0; i < count; ++i) {
      const std::uint64_t bytes = std::min<std::uint64_t>(cell_bytes_, rest);
      memory_.invalidate(cells_ + (cell_ + i) % cell_count_ * cell_bytes_, bytes);
      rest -= bytes;
    }
  }
  memory_.load_fence();  // in every mode: flags are loaded before cells
  for (std::uint32_t i = 0; i < count; ++i, ++cell_)
    deliver(cells_ + cell_ % cell_count_ * cell_bytes_,
            std::min<std::uint64_t>(cell_bytes_, header_.bytes - got_));
}

bool RxChannel::continue_pipelined() {
  const std::uint32_t batch = std::max(1u, context_.settings.batch_bytes / cell_bytes_);
  while (got_ < header_.bytes) {
    if (!context_.has_budget()) return false;
    if (may_extend_clear_to_send()) extend_clear_to_send();
    if (ready_ == 0) ready_ = ready_cells();
    if (broken_off_) return end_channel();
    if (ready_ == 0) return count_retry();
    const std::uint64_t left = (header_.bytes - got_ + cell_bytes_ - 1) / cell_bytes_;
    const auto take = static_cast<std::uint32_t>(std::min<std::uint64_t>({ready_, left, batch}));
    if (!stored_)
      take_cells(take);
    else if (!take_put(take))
      return false;
    ready_ -= take;
    if (got_ == header_.bytes) break;
    const bool owes = cell_ - credited_cells_ >= std::max(1u, cell_count_ / 4);
    if (owes) publish_credits();
    // the sender may have set more flags in the line that was loaded
    if (ready_ == 0) memory_.invalidate(flag_line(), line_bytes);
    owes ? memory_.full_fence() : memory_.load_fence();  // one fence for both
  }
  ready_ = 0;
  stored_ = false;
  end_clear_to_send();
  ++tail_;  // last: consumed lines mean consumed messages
  return_credits();
  acknowledge_ = false;
  finish();
  return true;
}

}  // namespace penstock::transport

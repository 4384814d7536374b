// Rendezvous put: the receiver's buffer lies in the pool, and the sender stores into it directly.
// The receiver clears the buffer to send part by part: it invalidates its copies of the lines, also
// those that its user has modified, before the sender stores there. It invalidates them again
// afterwards, since some may have been fetched meanwhile. Protocol: docs/protocols/channel.md.
#include <algorithm>
#include <cstring>

#include "base/checked.hpp"
#include "base/clock.hpp"
#include "base/format.hpp"
#include "device/pool_mappings.hpp"
#include "transport/iov.hpp"
#include "transport/rx_channel.hpp"
#include "transport/tx_channel.hpp"

namespace penstock::transport {
namespace {

/// A message waits this long for the clear-to-send that it requests. A receiver that polls answers
/// sooner.
constexpr std::uint64_t clear_to_send_wait_ns = 30'000;
/// Cells of a receive buffer that are cleared to send together: few at first, so that the sender
/// begins soon.
constexpr std::uint64_t first_cleared_cells = 2, cleared_cells = 16, cells_cleared_ahead = 32;
/// Cells that a sender without a request writes before it can see a clear-to-send.
constexpr std::uint64_t cells_before_clear_to_send = 4;
constexpr std::uint64_t look_every_ns = 100'000'000;

}  // namespace

// ---- the sender ---------------------------------------------------------------------------------

bool TxChannel::requests_to_send(const SendOp& op) const {
  return expects_clear_to_send_ && op.header.bytes >= context_.settings.rendezvous_put_min_bytes;
}

/// Accepts the clear-to-send if it is for the message being sent; ignores a torn line. An empty one
/// was withdrawn, because the receiver is closing.
void TxChannel::accept(const ClearToSend& clear_to_send) {
  if (clear_to_send.message == 0) {
    clear_to_send_ = {};
    return;
  }
  if (clear_to_send.message != nonce_ + pipelined_line_ ||
      clear_to_send.checksum != checksum_of(clear_to_send))
    return;
  const bool whole_lines = clear_to_send.offset % line_bytes == 0 &&
                           clear_to_send.until % line_bytes == 0 &&
                           clear_to_send.from <= clear_to_send.until;
  if (!whole_lines || !context_.pool.at(clear_to_send.offset, clear_to_send.until)) return;
  clear_to_send_ = clear_to_send;
  expects_clear_to_send_ = clear_to_send.until != 0;
  requested_at_ns_ = 0;
}

/// Each look is a device access, so a message without a request looks only a few times.
bool TxChannel::looks_for_clear_to_send(const SendOp& op) const {
  const std::uint64_t cells = op.sent_bytes / cell_bytes_;
  const bool early = cells == 2 || cells == 4 || cells == 8;
  return early && op.header.bytes >= context_.settings.rendezvous_put_min_bytes;
}

/// Destination of the next `bytes` of the message: the receive buffer as far as it is cleared to
/// send, else a cell. Null: the message waits for a clear-to-send.
std::byte* TxChannel::place_of_next(const SendOp& op, std::uint64_t bytes) {
  if (requested_at_ns_ != 0) {
    if (base::now_ns() - requested_at_ns_ < clear_to_send_wait_ns) return nullptr;
    requested_at_ns_ = 0;
    expects_clear_to_send_ = false;
  }
  const std::uint64_t at = op.sent_bytes;
  if (clear_to_send_.until == 0 && looks_for_clear_to_send(op)) refresh_credits();
  if (clear_to_send_.until == 0 || at < clear_to_send_.from || bytes % line_bytes != 0)
    return next_cell();
  if (at + bytes > clear_to_send_.until) refresh_credits();
  if (at + bytes > clear_to_send_.until) return clear_to_send_.until == 0 ? next_cell() : nullptr;
  return context_.pool.base() + clear_to_send_.offset + at;
}

// ---- the receiver -------------------------------------------------------------------------------

/// `asked`: the sender requested it. Without a request the sender is already writing its first
/// cells.
void RxChannel::begin_clear_to_send(bool asked) {
  end_clear_to_send();
  std::optional<std::uint64_t> offset;
  if (direct_ && !intra_node_ && header_.bytes >= context_.settings.rendezvous_put_min_bytes)
    offset = context_.place_of(direct_, header_.bytes);
  if (offset && *offset % line_bytes == 0) {
    clear_to_send_.message = nonce_ + tail_;
    clear_to_send_.offset = *offset;
    clear_to_send_end_ = header_.bytes / line_bytes * line_bytes;
    clear_to_send_.from = clear_to_send_.until =
        asked ? 0 : std::min(cells_before_clear_to_send * cell_bytes_, clear_to_send_end_);
    if (!asked && clear_to_send_.until == clear_to_send_end_)
      return end_clear_to_send();  // those cells hold the whole message
    const std::uint64_t invalidated = std::min(receive_buffer_.invalidated, clear_to_send_end_);
    if (invalidated > clear_to_send_.until) {
      clear_to_send_.until = invalidated / line_bytes * line_bytes;
      return_credits();
    }
  } else if (asked) {
    clear_to_send_.message = nonce_ + tail_;  // refused
    return_credits();
  }
}

/// Stays a limited distance ahead of the sender, so that the receiver takes its stores meanwhile.
bool RxChannel::may_extend_clear_to_send() const {
  return clear_to_send_.until < clear_to_send_end_ &&
         clear_to_send_.until < got_ + cells_cleared_ahead * cell_bytes_;
}

void RxChannel::extend_clear_to_send() {
  const std::uint64_t cells =
      clear_to_send_.until == clear_to_send_.from ? first_cleared_cells : cleared_cells;
  const std::uint64_t end =
      std::min(clear_to_send_.until + cells * cell_bytes_, clear_to_send_end_);
  memory_.invalidate(context_.pool.base() + clear_to_send_.offset + clear_to_send_.until,
                     end - clear_to_send_.until);
  // no dirty line is left that could be written back over the sender's stores
  memory_.load_fence();
  clear_to_send_.until = end;
  return_credits();
}

void RxChannel::end_clear_to_send() {
  clear_to_send_ = {};
  clear_to_send_end_ = 0;
}

void RxChannel::withdraw_clear_to_send() {
  end_clear_to_send();
  return_credits();
}

bool RxChannel::take_put(std::uint32_t count) {
  const std::uint64_t bytes =
      std::min<std::uint64_t>(std::uint64_t{count} * cell_bytes_, header_.bytes - got_);
  if (got_ < clear_to_send_.from || got_ + bytes > clear_to_send_.until)
    return broken(
        fmt::format("endpoint {} claims to have stored bytes {} to {} of a message; "
                    "cleared to send were {} to {}",
                    source_, got_, got_ + bytes, clear_to_send_.from, clear_to_send_.until));
  memory_.invalidate(context_.pool.base() + clear_to_send_.offset + got_, bytes);
  memory_.load_fence();
  got_ += bytes;
  cell_ += count;
  context_.took(bytes);
  return true;
}

std::optional<std::uint64_t> RxContext::place_of(const std::byte* receive_buffer,
                                                 std::uint64_t bytes) {
  auto& mappings = pool.mappings();
  if (const auto offset = mappings.attached_offset_of(receive_buffer, bytes)) return offset;
  const std::uint64_t now = base::now_ns();
  if (now < next_look_ns) return std::nullopt;
  next_look_ns = now + look_every_ns;
  mappings.follow_attachments();
  return mappings.attached_offset_of(receive_buffer, bytes);
}

}  // namespace penstock::transport

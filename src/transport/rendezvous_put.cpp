#include "transport/rendezvous_put.hpp"

#include <algorithm>
#include <optional>

#include "base/clock.hpp"
#include "base/format.hpp"
#include "transport/rx_parts.hpp"
#include "transport/tx_parts.hpp"

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

}  // namespace

// ---- the sender ---------------------------------------------------------------------------------

void ClearToSendSeen::ask(const TxParts& tx, const SendOp& op) {
  const bool asks = expected_ && op.header.bytes >= tx.context.settings.rendezvous_put_min_bytes;
  requested_at_ns_ = asks ? base::now_ns() : 0;
}

void ClearToSendSeen::accept(const ClearToSend& clear_to_send, std::uint64_t nonce,
                             pool::Pool& pool) {
  if (clear_to_send.message == 0) {
    now_ = {};
    return;
  }
  if (clear_to_send.message != nonce + line_ ||
      clear_to_send.checksum != checksum_of(clear_to_send))
    return;
  const bool whole_lines = clear_to_send.offset % line_bytes == 0 &&
                           clear_to_send.until % line_bytes == 0 &&
                           clear_to_send.from <= clear_to_send.until;
  if (!whole_lines || !pool.at(clear_to_send.offset, clear_to_send.until)) return;
  now_ = clear_to_send;
  expected_ = clear_to_send.until != 0;
  requested_at_ns_ = 0;
}

/// Each look is a device access, so a message without a request looks only a few times.
bool ClearToSendSeen::looks(const TxParts& tx, const SendOp& op) {
  const std::uint64_t cells = op.sent_bytes / tx.cells.cell_bytes();
  const bool early = cells == 2 || cells == 4 || cells == 8;
  return early && op.header.bytes >= tx.context.settings.rendezvous_put_min_bytes;
}

std::byte* ClearToSendSeen::place_of_next(TxParts& tx, const SendOp& op, std::uint64_t bytes) {
  if (requested_at_ns_ != 0) {
    if (base::now_ns() - requested_at_ns_ < clear_to_send_wait_ns) return nullptr;
    requested_at_ns_ = 0;
    expected_ = false;
  }
  const std::uint64_t at = op.sent_bytes;
  if (now_.until == 0 && looks(tx, op)) tx.refresh_credits();
  if (now_.until == 0 || at < now_.from || bytes % line_bytes != 0) return tx.cells.next();
  if (at + bytes > now_.until) tx.refresh_credits();
  if (at + bytes > now_.until) return now_.until == 0 ? tx.cells.next() : nullptr;
  return tx.context.pool.base() + now_.offset + at;
}

// ---- the receiver -------------------------------------------------------------------------------

void ClearToSendGrant::begin(RxParts& rx, bool asked) {
  end();
  const RxMessage& message = rx.message;
  const std::uint64_t bytes = message.header.bytes;
  std::optional<std::uint64_t> offset;
  if (message.direct && !rx.origin.intra_node &&
      bytes >= rx.context.settings.rendezvous_put_min_bytes)
    offset = rx.context.place_of(message.direct, bytes);
  if (offset && *offset % line_bytes == 0) {
    now_.message = rx.ring.nonce() + rx.ring.tail();
    now_.offset = *offset;
    end_ = bytes / line_bytes * line_bytes;
    now_.from = now_.until =
        asked ? 0 : std::min(cells_before_clear_to_send * rx.cells.cell_bytes(), end_);
    if (!asked && now_.until == end_) return end();  // those cells hold the whole message
    const std::uint64_t invalidated = std::min(message.buffer.invalidated, end_);
    if (invalidated > now_.until) {
      now_.until = invalidated / line_bytes * line_bytes;
      rx.return_credits();
    }
  } else if (asked) {
    now_.message = rx.ring.nonce() + rx.ring.tail();  // refused
    rx.return_credits();
  }
}

/// Stays a limited distance ahead of the sender, so that the receiver takes its stores meanwhile.
bool ClearToSendGrant::may_extend(const RxParts& rx) const {
  return now_.until < end_ &&
         now_.until < rx.message.got + cells_cleared_ahead * rx.cells.cell_bytes();
}

void ClearToSendGrant::extend(RxParts& rx) {
  if (!may_extend(rx)) return;
  const std::uint64_t cells = now_.until == now_.from ? first_cleared_cells : cleared_cells;
  const std::uint64_t end = std::min(now_.until + cells * rx.cells.cell_bytes(), end_);
  rx.memory.invalidate(rx.context.pool.base() + now_.offset + now_.until, end - now_.until);
  // no dirty line is left that could be written back over the sender's stores
  rx.memory.load_fence();
  now_.until = end;
  rx.return_credits();
}

bool ClearToSendGrant::take(RxParts& rx, std::uint32_t cells) {
  RxMessage& message = rx.message;
  const std::uint64_t bytes = std::min<std::uint64_t>(std::uint64_t{cells} * rx.cells.cell_bytes(),
                                                      message.header.bytes - message.got);
  if (message.got < now_.from || message.got + bytes > now_.until)
    return rx.broken(
        fmt::format("endpoint {} claims to have stored bytes {} to {} of a message; "
                    "cleared to send were {} to {}",
                    rx.origin.source, message.got, message.got + bytes, now_.from, now_.until));
  rx.memory.invalidate(rx.context.pool.base() + now_.offset + message.got, bytes);
  rx.memory.load_fence();
  message.got += bytes;
  rx.cells.take(cells);
  rx.context.took(bytes);
  return true;
}

}  // namespace penstock::transport

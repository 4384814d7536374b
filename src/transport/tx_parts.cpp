#include "transport/tx_parts.hpp"

namespace penstock::transport {

void TxParts::begin() {
  announcer.begin(ring.nonce());
  cells.begin(ring.base(), ring.nonce());
  resizer.begin(ring.lines());
  clear_to_send.end();
  errors = {};
}

void TxParts::refresh_credits() {
  CreditLine line;
  memory.observe_line(&line, ring.base() + ChannelLayout::credits);  // pairs with
                                                                     // RxChannel::return_credits
  const std::uint64_t nonce = ring.nonce();
  ended = ended || line.lines == broken_off(nonce);
  const std::uint64_t lines = line.lines - nonce;
  ring.credit(lines);
  cells.credit(line.cells - nonce);
  clear_to_send.accept(line.clear_to_send, nonce, context.pool);
  const std::uint64_t error = line.error - nonce;
  if (line.error != 0 && error >> 32 == 0) errors.seen = static_cast<std::uint32_t>(error);
  if (resizer.has_previous()) resizer.read_previous_credits(*this, lines);
}

bool TxParts::room(std::uint64_t lines) {
  if (resizer.wants_larger()) (void)resizer.try_to_move(*this);
  if (ring.has_room(lines)) return true;
  refresh_credits();
  if (ring.has_room(lines)) return true;
  resizer.want_larger(*this);
  if (resizer.wants_larger() && resizer.try_to_move(*this)) return true;
  ++counts.stalls;
  return false;
}

bool TxParts::cell_room_after_look() {
  refresh_credits();
  if (cells.have_room()) return true;
  ++counts.stalls;
  resizer.want_cells(*this);
  return false;
}

bool TxParts::consumed() {
  if (waiting()) return false;
  break_off();
  const auto all = [this] {
    return ended || (ring.consumed() == ring.head() && resizer.previous_consumed());
  };
  if (!all()) refresh_credits();
  return all();
}

/// Waits until the contents of the cell whose flag it replaces are consumed.
void TxParts::break_off() {
  if (!breaks_off || !cell_room()) return;
  cells.break_off();
  breaks_off = false;
}

/// The calls that wrote the counted lines and cells have already fenced them.
void TxParts::publish_position(bool again) {
  const bool begun = breaks_off || queue.has_begun();
  ring.publish_position(begun, cells.head(), waiting() || refused, again);
}

}  // namespace penstock::transport

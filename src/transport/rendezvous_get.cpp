#include "transport/rendezvous_get.hpp"

#include <algorithm>
#include <cstring>

#include "base/checked.hpp"
#include "base/format.hpp"
#include "device/pool_mappings.hpp"
#include "transport/rx_parts.hpp"
#include "transport/tx_parts.hpp"

namespace penstock::transport::rendezvous_get {

// ---- the sender ---------------------------------------------------------------------------------

bool takes(TxParts& tx, SendOp& op) {
  if (op.header.bytes < tx.context.settings.rendezvous_get_min_bytes || op.iov_count != 1)
    return false;
  const auto offset =
      tx.context.pool.mappings().attached_offset_of(op.iov[0].iov_base, op.header.bytes);
  if (offset) op.get_offset = *offset;
  return offset.has_value();
}

namespace {

void write_first_line(TxParts& tx, const SendOp& op, std::uint64_t piece_bytes) {
  MessageLine line{};
  line.meta =
      MessageLine::pack(op.header.bytes, flag_acknowledge, Form::rendezvous_get, op.header.kind);
  line.tag = op.header.tag;
  line.data = op.header.data;
  line.rendezvous_get.offset = op.get_offset;
  line.rendezvous_get.piece_bytes = piece_bytes;
  tx.ring.write(line, false);
}

}  // namespace

/// Writes the user's stores back piece by piece, so that the receiver copies one piece while the
/// next is written back. A long message has larger pieces, because the ring has few lines.
Started start(TxParts& tx, SendOp& op) {
  const std::uint64_t bytes = op.header.bytes;
  const std::uint64_t least = tx.context.settings.get_piece_bytes;
  const std::uint64_t max_pieces = std::min(max_get_pieces, tx.ring.lines() / 4);
  const std::uint64_t piece_bytes =
      least == 0 ? bytes
                 : std::max(least, base::align_up((bytes - 1) / max_pieces + 1, line_bytes));
  const std::uint64_t pieces = pieces_of(bytes, piece_bytes);
  if (!tx.room(pieces)) return Started::no_credit;
  tx.count(op.header);
  const std::byte* at = tx.context.pool.base() + op.get_offset;
  for (std::uint64_t done = 0; done < bytes; done += piece_bytes) {
    tx.memory.write_back(at + done, std::min(piece_bytes, bytes - done));
    tx.memory.store_fence();  // the piece before its announcement
    if (done == 0) {
      write_first_line(tx, op, piece_bytes);
      tx.announce();
    } else {
      tx.ring.write_tag();
    }
  }
  tx.memory.store_fence();
  op.sent_bytes = bytes;
  op.position = tx.ring.head();
  op.get_lines = static_cast<std::uint32_t>(pieces);
  return Started::complete;
}

/// A receiver that has copied everything reads the line again (still_in_place) and so notices.
void withdraw(TxParts& tx) {
  bool looked = false;
  for (const SendOp* op = tx.delivering.first(); op; op = op->next) {
    if (op->get_lines == 0) continue;
    if (!looked) tx.refresh_credits();
    looked = true;
    if (op->position <= tx.ring.consumed()) continue;
    MessageLine line{};
    line.meta = MessageLine::pack(op->header.bytes, 0, Form::withdrawn, op->header.kind);
    tx.ring.overwrite(op->position - op->get_lines, line);
  }
  if (looked) tx.memory.store_fence();
}

// ---- the receiver -------------------------------------------------------------------------------

namespace {

bool check(RxParts& rx, const MessageLine& line) {
  const std::uint64_t bytes = rx.message.header.bytes;
  const std::uint64_t piece_bytes = line.rendezvous_get.piece_bytes;
  rx.get.at =
      bytes == 0
          ? nullptr
          : static_cast<const std::byte*>(rx.context.pool.at(line.rendezvous_get.offset, bytes));
  if (!rx.get.at || piece_bytes == 0 ||
      pieces_of(bytes, piece_bytes) > std::min(max_get_pieces, rx.ring.lines()))
    return rx.broken(fmt::format("endpoint {} claims {} bytes in pieces of {} at {}",
                                 rx.origin.source, bytes, piece_bytes, line.rendezvous_get.offset));
  return true;
}

/// Bytes of the message that the sender has announced as written back to the device.
std::uint64_t ready_bytes(RxParts& rx) {
  const std::uint64_t bytes = rx.message.header.bytes;
  const std::uint64_t piece_bytes = rx.get.line.rendezvous_get.piece_bytes;
  const std::uint64_t pieces = pieces_of(bytes, piece_bytes);
  while (rx.get.pieces < pieces) {
    const std::uint64_t number = rx.ring.tail() + rx.get.pieces;
    if (!rx.ring.is_fresh(number)) break;
    // pairs with the store fence in rendezvous_get::start
    if (rx.ring.load_tag(number) != rx.ring.nonce() + number) break;
    ++rx.get.pieces;
  }
  return rx.get.pieces == pieces ? bytes : rx.get.pieces * piece_bytes;
}

/// True if the copy is valid: the sender's user overwrites the payload only after the line says
/// that the message was withdrawn.
bool still_in_place(const RxParts& rx) {
  MessageLine now;
  // Does a load fence in every mode: the payload was loaded before. Pairs with
  // rendezvous_get::withdraw.
  rx.memory.observe_line(&now, rx.ring.next_line());
  return std::memcmp(&now, &rx.get.line, sizeof now) == 0;
}

}  // namespace

bool arrive(RxParts& rx, EndpointCallbacks& callbacks, const MessageLine& line) {
  if (!check(rx, line) || !rx.ask_for_buffer(callbacks, true)) return false;
  rx.get.line = line;
  rx.get.pieces = 1;
  rx.begin(Form::rendezvous_get);
  return receive(rx);
}

/// Copies one batch.
bool receive(RxParts& rx) {
  RxMessage& message = rx.message;
  const std::uint64_t ready = ready_bytes(rx);
  const std::uint64_t bytes =
      std::min<std::uint64_t>(ready - message.got, rx.context.settings.batch_bytes);
  if (bytes != 0) {
    rx.memory.invalidate(rx.get.at + message.got, bytes);
    rx.memory.load_fence();  // in every mode: the line is loaded before the payload
    rx.deliver(rx.get.at + message.got, bytes);
  } else if (!message.is_complete()) {
    return rx.count_retry();
  }
  if (!message.is_complete()) return true;
  if (!still_in_place(rx)) return rx.end_channel();
  rx.ring.take(rx.get.pieces);
  rx.finish();
  return true;
}

/// The message keeps its lines until everything is copied.
void prepare(RxParts& rx) {
  rx.ring.invalidate_window(rx.ring.tail() + rx.get.pieces);
}

}  // namespace penstock::transport::rendezvous_get

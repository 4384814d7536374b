#include "transport/eager.hpp"

#include <algorithm>
#include <cstring>

#include "base/clock.hpp"
#include "transport/iov.hpp"
#include "transport/rx_parts.hpp"
#include "transport/tx_parts.hpp"

namespace penstock::transport {
namespace {

/// Longer messages that follow each other within `stream_gap_ns` form a stream.
constexpr std::uint64_t stream_bytes = 4096, stream_gap_ns = 1000;
/// Lines of messages above this size are written as a stream. Written alone, the first line would
/// arrive sooner, but not the last one.
constexpr std::uint64_t alone_max_bytes = 448;
/// Lines that are checked again together while the sender still writes the rest of a message.
constexpr std::uint64_t retry_lines = 32;
constexpr int retries_per_poll = 4;

MessageLine first_line(const Header& header, std::uint8_t flags, Form form) {
  MessageLine line;
  line.meta = MessageLine::pack(header.bytes, flags, form, header.kind);
  line.tag = header.tag;
  line.data = header.data;
  return line;
}

std::uint8_t flags_of(const SendOp& op) {
  return op.notify_delivered ? flag_acknowledge : 0;
}

const std::byte* payload_of(TxParts& tx, const SendOp& op) {
  return iov_contiguous(op.iov, op.iov_count, 0, op.header.bytes, tx.context.staging.data());
}

Started all_sent(TxParts& tx, SendOp& op) {
  op.sent_bytes = op.header.bytes;
  op.position = tx.ring.head();
  return Started::complete;
}

}  // namespace

// ---- inlined ------------------------------------------------------------------------------------

void inlined::put(TxParts& tx, const Header& header, const void* payload, std::uint8_t flags) {
  MessageLine line = first_line(header, flags, Form::inlined);
  if (header.bytes != 0) std::memcpy(line.payload, payload, header.bytes);  // may be null at 0
  tx.ring.write(line, tx.streams.note_message(tx.context.polls));
  tx.announce();
  tx.memory.store_fence();
  tx.count(header);
}

bool inlined::takes(TxParts&, SendOp& op) {
  return op.header.bytes <= inline_bytes;
}

Started inlined::start(TxParts& tx, SendOp& op) {
  if (!tx.room(1)) return Started::no_credit;
  put(tx, op.header, payload_of(tx, op), flags_of(op));
  return all_sent(tx, op);
}

bool inlined::arrive(RxParts& rx, EndpointCallbacks& callbacks, const MessageLine& line) {
  const Header& header = rx.message.header;
  if (header.bytes > inline_bytes) return rx.broken_line(line);
  rx.ring.take(1);
  callbacks.on_message({.from = rx.origin.source, .header = header, .payload = line.payload});
  rx.count(header.bytes);
  if (rx.message.acknowledge) rx.return_credits();
  return true;
}

// ---- eager: the sender --------------------------------------------------------------------------

void eager::put(TxParts& tx, const Header& header, const std::byte* payload, std::uint8_t flags) {
  MessageLine line = first_line(header, flags, Form::eager);
  std::memcpy(line.payload, payload, inline_bytes);
  const bool streams = tx.streams.note_message(tx.context.polls) || header.bytes > alone_max_bytes;
  tx.ring.write(line, streams);
  tx.ring.write_tagged(payload + inline_bytes, header.bytes - inline_bytes, streams);
  tx.announce();
  tx.memory.store_fence();
  tx.count(header);
  if (header.bytes > stream_bytes) tx.streams.note_long(base::now_ns());
}

bool eager::fits(TxParts& tx, std::uint64_t bytes) {
  if (bytes > tx.context.settings.lines_max_bytes) return false;
  if (lines_of(bytes) > tx.ring.lines() && !tx.resizer.may_grow(tx)) return false;  // pool is full
  return bytes <= stream_bytes || !tx.streams.wants_cells(tx);
}

/// A longer message is part of a stream, and goes in cells, if it follows another closely or waits
/// behind one for credit.
bool Streams::wants_cells(TxParts& tx) {
  const bool streams = !tx.queue.empty() || base::now_ns() - long_sent_ns_ < stream_gap_ns;
  if (!streams) return false;
  const TxContext& context = tx.context;
  if (!tx.cells.exist() && context.coarse_ns >= no_cells_until_ns_ &&
      !tx.cells.make(context.tx_memory, context.settings, false))
    no_cells_until_ns_ = context.coarse_ns + full_pool_ns;
  return tx.cells.exist();
}

bool eager::takes(TxParts& tx, SendOp& op) {
  return fits(tx, op.header.bytes);
}

Started eager::start(TxParts& tx, SendOp& op) {
  if (!tx.room(lines_of(op.header.bytes))) return Started::no_credit;
  put(tx, op.header, payload_of(tx, op), flags_of(op));
  return all_sent(tx, op);
}

// ---- eager: the receiver ------------------------------------------------------------------------

bool eager::arrive(RxParts& rx, EndpointCallbacks& callbacks, const MessageLine& line) {
  RxMessage& message = rx.message;
  const std::uint64_t bytes = message.header.bytes;
  if (bytes <= inline_bytes || lines_of(bytes) > rx.ring.lines()) return rx.broken_line(line);
  if (!rx.ask_for_buffer(callbacks, false)) return false;
  std::memcpy(message.contiguous(), line.payload, inline_bytes);
  message.got = inline_bytes;
  rx.ring.take(1);
  rx.begin(Form::eager);
  return receive(rx);
}

bool eager::receive(RxParts& rx) {
  RxMessage& message = rx.message;
  RxRing& ring = rx.ring;
  const std::uint64_t bytes = message.header.bytes;
  std::byte* to = message.contiguous();
  int retries = 0;
  while (message.got < bytes) {
    const std::uint64_t rest = bytes - message.got;
    std::uint64_t lines = (rest + coherence::tagged_bytes - 1) / coherence::tagged_bytes;
    lines = std::min(lines, ring.lines_to_wrap());
    if (retries > 0) {
      lines = std::min(lines, retry_lines);
      ring.freshen(lines);
    } else if (ring.has_backlog()) {
      ring.fetch(lines + lines_ahead);
    }
    const std::uint64_t wanted = std::min(rest, lines * coherence::tagged_bytes);
    const std::uint64_t got = ring.load_tagged(to + message.got, wanted, lines);
    message.got += got;
    if (got == wanted) continue;
    ++rx.counts.retries;
    if (++retries > retries_per_poll) return false;
  }
  message.scatter(to);
  rx.context.took(bytes);
  rx.finish();
  return true;
}

}  // namespace penstock::transport

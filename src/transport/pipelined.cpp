#include "transport/pipelined.hpp"

#include <algorithm>

#include "base/clock.hpp"
#include "base/format.hpp"
#include "transport/iov.hpp"
#include "transport/rx_parts.hpp"
#include "transport/tx_parts.hpp"

namespace penstock::transport::pipelined {

// ---- the sender ---------------------------------------------------------------------------------

namespace {

constexpr std::uint64_t put_together = 4;  ///< stored cells announced by one store fence

void write_line(TxParts& tx, const SendOp& op, std::uint64_t ready) {
  MessageLine line;
  const int flags = (op.notify_delivered ? flag_acknowledge : 0) |
                    (tx.clear_to_send.is_awaited() ? flag_request_to_send : 0);
  line.meta = MessageLine::pack(op.header.bytes, static_cast<std::uint8_t>(flags), Form::pipelined,
                                op.header.kind);
  line.tag = op.header.tag;
  line.data = op.header.data;
  line.pipelined.offset = static_cast<std::uint64_t>(tx.cells.at() - tx.context.pool.base());
  line.pipelined.cell_bytes = tx.cells.cell_bytes();
  line.pipelined.cell_count = tx.cells.count();
  line.pipelined.first_cell = tx.cells.head() - ready;
  line.pipelined.ready = ready;
  tx.ring.write(line, false);
  tx.announce();
}

void put_cell(TxParts& tx, const SendOp& op, std::byte* to, std::uint64_t bytes) {
  const std::byte* from =
      iov_contiguous(op.iov, op.iov_count, op.sent_bytes, bytes, tx.context.staging.data());
  tx.cells.put(to, from, bytes);
}

}  // namespace

bool takes(TxParts&, SendOp&) {
  return true;
}

/// Fills each cell at most once: with a fast receiver a longer loop would hold the caller for the
/// whole message. Announces each cell at once, so that the receiver copies it meanwhile. Bytes
/// stored in the receive buffer, which the receiver only invalidates, are announced several cells
/// together.
void advance(TxParts& tx, SendOp& op) {
  TxCells& cells = tx.cells;
  const std::uint64_t head_before = cells.head();
  if (tx.clear_to_send.may_change()) tx.refresh_credits();
  std::uint64_t first = cells.head();
  bool stored = false;
  while (op.sent_bytes < op.header.bytes && cells.head() - head_before < cells.count() &&
         tx.cell_room()) {
    const std::uint64_t bytes =
        std::min<std::uint64_t>(cells.cell_bytes(), op.header.bytes - op.sent_bytes);
    std::byte* to = tx.clear_to_send.place_of_next(tx, op, bytes);
    if (!to) break;
    const bool stores = to != cells.next();
    if (first != cells.head() && (!stored || !stores || cells.head() - first == put_together)) {
      cells.announce(first, stored);
      first = cells.head();
      if (stored && stores) {  // the clear-to-send may have been withdrawn
        tx.refresh_credits();
        continue;
      }
    }
    stored = stores;
    put_cell(tx, op, to, bytes);
    op.sent_bytes += bytes;
  }
  if (first != cells.head()) cells.announce(first, stored);
  if (cells.head() != head_before) tx.memory.store_fence();
}

Started start(TxParts& tx, SendOp& op) {
  if (!tx.resizer.cells_are_ready(tx)) return Started::no_credit;
  if (!tx.cells.exist()) {
    auto made = tx.cells.make(tx.context.tx_memory, tx.context.settings, true);
    if (!made) {
      tx.memory_error = made.error();
      return Started::no_memory;
    }
  }
  if (!tx.room(1) || !tx.cell_room()) return Started::no_credit;
  tx.count(op.header);
  tx.clear_to_send.begin(tx.ring.head());
  if (op.header.bytes <= tx.cells.cell_bytes()) {
    tx.clear_to_send.do_not_ask();
    put_cell(tx, op, tx.cells.next(), op.header.bytes);
    tx.memory.store_fence();  // complete when announced: the receiver needs no flag
    write_line(tx, op, 1);
    tx.memory.store_fence();
    op.sent_bytes = op.header.bytes;
    tx.streams.note_long(base::now_ns());
  } else {
    tx.clear_to_send.ask(tx, op);
    write_line(tx, op, 0);  // the receiver can match while the first cell is written
    if (tx.clear_to_send.is_awaited())
      tx.memory.store_fence();
    else
      advance(tx, op);
  }
  op.position = tx.ring.head();
  return op.sent_bytes == op.header.bytes ? Started::complete : Started::partly;
}

// ---- the receiver -------------------------------------------------------------------------------

namespace {

/// Checks the line only. Matching does not know the message yet, so it may stay in the pool.
bool check(RxParts& rx, const MessageLine& line) {
  if (rx.cells.use(line, rx.context.pool)) return true;
  return rx.broken(fmt::format("endpoint {} claims {} cells of {} bytes at {}, from cell {} on",
                               rx.origin.source, line.pipelined.cell_count,
                               line.pipelined.cell_bytes, line.pipelined.offset,
                               line.pipelined.first_cell));
}

void take_cells(RxParts& rx, std::uint32_t count) {
  const RxMessage& message = rx.message;
  if (rx.memory.loads_may_be_stale()) rx.cells.drop(count, message.header.bytes - message.got);
  rx.memory.load_fence();  // in every mode: flags are loaded before cells
  for (std::uint32_t i = 0; i < count; ++i) {
    rx.deliver(rx.cells.at(),
               std::min<std::uint64_t>(rx.cells.cell_bytes(), message.header.bytes - message.got));
    rx.cells.take(1);
  }
}

/// Returns credits where some are due, and has the flags loaded again, by one fence.
void end_batch(RxParts& rx) {
  const bool owes = rx.cells.next() - rx.credits.cells >= std::max(1u, rx.cells.count() / 4);
  if (owes) rx.publish_credits();
  // the sender may have set more flags in the line that was loaded
  if (rx.cells.ready() == 0) rx.cells.invalidate_flags();
  owes ? rx.memory.full_fence() : rx.memory.load_fence();  // one fence for both
}

}  // namespace

bool arrive(RxParts& rx, EndpointCallbacks& callbacks, const MessageLine& line) {
  if (!check(rx, line) || !rx.ask_for_buffer(callbacks, true)) return false;
  rx.cells.begin(line.pipelined.ready);
  rx.begin(Form::pipelined);
  rx.clear_to_send.begin(rx, line.flags() & flag_request_to_send);
  return receive(rx);
}

bool receive(RxParts& rx) {
  const RxMessage& message = rx.message;
  RxCells& cells = rx.cells;
  const std::uint32_t cell_bytes = cells.cell_bytes();
  const std::uint32_t batch = std::max(1u, rx.context.settings.batch_bytes / cell_bytes);
  while (!message.is_complete()) {
    if (!rx.context.has_budget()) return false;
    rx.clear_to_send.extend(rx);
    cells.look();
    if (cells.broken_off()) return rx.end_channel();
    if (cells.ready() == 0) return rx.count_retry();
    const std::uint64_t left = (message.header.bytes - message.got + cell_bytes - 1) / cell_bytes;
    const auto take =
        static_cast<std::uint32_t>(std::min<std::uint64_t>({cells.ready(), left, batch}));
    if (!cells.are_stored())
      take_cells(rx, take);
    else if (!rx.clear_to_send.take(rx, take))
      return false;
    if (!message.is_complete()) end_batch(rx);
  }
  cells.end();
  rx.clear_to_send.end();
  rx.ring.take(1);  // last: consumed lines mean consumed messages
  rx.return_credits();
  rx.message.acknowledge = false;
  rx.finish();
  return true;
}

void prepare(RxParts& rx) {
  rx.cells.ready() == 0 ? rx.cells.invalidate_flags() : rx.ring.invalidate_window(rx.ring.tail());
}

}  // namespace penstock::transport::pipelined

#include "transport/tx_channel.hpp"

#include <utility>

#include "base/format.hpp"
#include "transport/eager.hpp"
#include "transport/pipelined.hpp"
#include "transport/rendezvous_get.hpp"

namespace penstock::transport {
namespace {

/// True if on_sent waits until the receiver has consumed it: on request, or for a rendezvous get.
bool reports_on_consume(const SendOp& op) {
  return op.notify_delivered || op.get_lines != 0;
}

}  // namespace

Result<std::unique_ptr<TxChannel>> TxChannel::make(TxContext& context, const Address& peer,
                                                   const MailboxWords& mailbox,
                                                   EndpointStats& counts, bool intra_node) {
  if (context.pool.bytes() / channel_alignment >> 32 != 0)
    return fail(ErrorCode::invalid_argument,
                "pool {} is larger than 16 TiB, which announcements cannot name; make a smaller "
                "one: penstock pool create {} --size 16T --overwrite",
                context.pool.info().spec, base::shell_quote(context.pool.info().spec));
  const ChannelLayout layout(context.settings.cell_count, context.settings.first_ring_lines);
  auto at = PENSTOCK_TRY(context.tx_memory.allocate(TxRing::bytes_of(layout), "a channel"));
  ChannelHeader header{};
  header.job = context.self.job;
  header.source = context.self.slot;
  header.source_generation = context.self.generation;
  header.target = peer.slot;
  header.target_generation = peer.generation;
  header.cell_flags = static_cast<std::uint16_t>(context.settings.cell_count);
  header.intra_node = intra_node ? 1 : 0;
  const auto memory = intra_node ? context.memory.intra_node() : context.memory;
  const TxRing ring(memory, context.pool.base(), at, layout, header);
  std::unique_ptr<TxChannel> channel(new TxChannel(context, counts, memory, ring, mailbox));
  channel->parts_.ring.begin();
  channel->parts_.begin();
  return channel;
}

std::uint32_t TxChannel::take_error() {
  parts_.refresh_credits();
  const std::uint32_t of_left = parts_.resizer.take_error();
  if (of_left != 0) return of_left & ((1u << error_bits) - 1);
  ErrorsSeen& errors = parts_.errors;
  if (errors.seen == errors.taken) return 0;
  errors.taken = errors.seen;
  return errors.seen & ((1u << error_bits) - 1);
}

// ---- sending -----------------------------------------------------------------------------------

Result<bool> TxChannel::inject(const Header& header, const void* payload) {
  auto sent = inject_now(header, payload);
  parts_.refused = sent && !*sent;
  return sent;
}

/// The forms of short messages without a SendOp.
Result<bool> TxChannel::inject_now(const Header& header, const void* payload) {
  if (!parts_.queue.empty()) return false;
  if (header.bytes <= inline_bytes) {
    if (!parts_.room(1)) return false;
    inlined::put(parts_, header, payload, 0);
    return true;
  }
  if (eager::fits(parts_, header.bytes)) {
    if (!parts_.room(lines_of(header.bytes))) return false;
    eager::put(parts_, header, static_cast<const std::byte*>(payload), 0);
    return true;
  }
  SendOp op;
  op.header = header;
  op.iov[0] = {const_cast<void*>(payload), header.bytes};
  op.iov_count = 1;
  const Started started = pipelined::start(parts_, op);  // one cell: complete at once, or no credit
  if (started == Started::no_memory) return unexpected(parts_.memory_error);
  return started == Started::complete;
}

Result<bool> TxChannel::send(SendOp* op) {
  parts_.refused = false;  // a message that inject() refused now waits in the queue
  op->sent_bytes = op->position = 0;
  op->get_lines = 0;
  SendList& queue = parts_.queue;
  if (!queue.empty()) {
    op->urgent ? queue.push_urgent(op) : queue.push(op);
    return false;
  }
  switch (start_transfer(parts_, *op)) {
    case Started::complete:
      if (!reports_on_consume(*op)) return true;
      parts_.delivering.push(op);
      return false;
    case Started::no_memory:
      return unexpected(parts_.memory_error);
    case Started::partly:
    case Started::no_credit:
      queue.push(op);
      return false;
  }
  return false;
}

unsigned TxChannel::notify_delivered(EndpointCallbacks& callbacks) {
  SendList& delivering = parts_.delivering;
  if (delivering.empty()) return 0;
  parts_.refresh_credits();
  unsigned events = 0;
  while (!delivering.empty() && delivering.first()->position <= parts_.ring.consumed()) {
    callbacks.on_sent(delivering.pop());
    ++events;
  }
  return events;
}

unsigned TxChannel::advance(EndpointCallbacks& callbacks) {
  unsigned events = 0;
  SendList& queue = parts_.queue;
  const TxRing& ring = parts_.ring;
  // At most one ring a call: with a fast receiver a longer loop would not notice that the receiver
  // wants no more. After a move only the message that caused it: line numbers begin anew there.
  const std::uint64_t until = ring.head() + ring.lines(), nonce = ring.nonce();
  while (!queue.empty() && ring.head() < until && ring.nonce() == nonce) {
    SendOp* op = queue.first();
    if (op->position == 0) {
      const Started started = start_transfer(parts_, *op);
      if (started == Started::no_credit) break;
      if (started == Started::no_memory) {
        callbacks.on_send_failed(queue.pop(), parts_.memory_error);
        ++events;
        continue;
      }
    } else {
      const std::uint64_t before = op->sent_bytes;
      advance_transfer(parts_, *op);
      if (op->sent_bytes < op->header.bytes && op->sent_bytes != before) ++events;
    }
    if (op->sent_bytes < op->header.bytes) break;
    queue.pop();
    if (reports_on_consume(*op))
      parts_.delivering.push(op);
    else
      callbacks.on_sent(op);
    ++events;
  }
  return events + notify_delivered(callbacks);
}

// ---- damage and the end
// --------------------------------------------------------------------------

bool TxChannel::is_stuck() {
  const bool rests = parts_.ring.rests_unconsumed();
  if (!rests || parts_.ended) return false;
  parts_.refresh_credits();
  return !parts_.ended && parts_.ring.consumed() != parts_.ring.head();
}

void TxChannel::repair(const MailboxWords& mailbox) {
  parts_.announcer.use(mailbox);
  parts_.ring.repair_header();
  parts_.resizer.repair_previous(parts_.memory);
  parts_.announcer.announce_again(parts_.ring.offset());
  parts_.publish_position(true);  // the statistics' store fence orders it, as always
}

void TxChannel::abandon() {
  rendezvous_get::withdraw(parts_);
  // a pipelined message, whose one line is in the ring; it follows all of `delivering`
  parts_.breaks_off = parts_.queue.has_begun();
  parts_.queue = {};
  parts_.delivering = {};
  parts_.break_off();
}

void TxChannel::give_memory_back(bool quiescent) {
  TxMemory& memory = parts_.context.tx_memory;
  memory.give_back(parts_.ring.base(), TxRing::bytes_of(parts_.ring.layout()), quiescent);
  parts_.resizer.give_previous_back(parts_, quiescent);
  parts_.cells.give_back(memory);
}

void TxChannel::fail_all(EndpointCallbacks& callbacks, const Error& error) {
  rendezvous_get::withdraw(parts_);  // a receiver that was declared dead may resume copying
  while (!parts_.delivering.empty()) callbacks.on_send_failed(parts_.delivering.pop(), error);
  while (!parts_.queue.empty()) callbacks.on_send_failed(parts_.queue.pop(), error);
}

}  // namespace penstock::transport

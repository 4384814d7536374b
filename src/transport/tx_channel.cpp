#include "transport/tx_channel.hpp"

#include <sys/random.h>

#include <algorithm>
#include <cstring>

#include "base/checked.hpp"
#include "base/clock.hpp"
#include "base/format.hpp"
#include "transport/iov.hpp"

namespace penstock::transport {
namespace {

/// Draws from [2^62, 2^63), so neither zeroed nor freshly mapped memory holds a valid sequence tag
/// or credit. Bit 63 stays free for `flag_put`.
std::uint64_t random_nonce() {
  std::uint64_t value = 0;
  if (getrandom(&value, sizeof value, 0) != sizeof value)
    value = reinterpret_cast<std::uintptr_t>(&value) * 0x9e3779b97f4a7c15ull;
  return (value >> 3) | (1ull << 62);
}

/// True if on_sent waits until the receiver has consumed it: on request, or for a rendezvous get.
bool reports_on_consume(const SendOp& op) {
  return op.notify_delivered || op.get_lines != 0;
}

}  // namespace

void TxChannel::List::push(SendOp* op) {
  op->next = nullptr;
  if (last)
    last->next = op;
  else
    first = op;
  last = op;
}

/// Inserts after messages that have begun and other urgent ones.
void TxChannel::List::push_urgent(SendOp* op) {
  SendOp** at = &first;
  while (*at && ((*at)->position != 0 || (*at)->urgent)) at = &(*at)->next;
  if (!*at) return push(op);
  op->next = *at;
  *at = op;
}

SendOp* TxChannel::List::pop() {
  SendOp* op = first;
  first = op->next;
  if (!first) last = nullptr;
  return op;
}

Result<std::unique_ptr<TxChannel>> TxChannel::make(TxContext& context, const Address& peer,
                                                   const MailboxWords& mailbox,
                                                   EndpointStats& counts, bool intra_node) {
  if (context.pool.bytes() / channel_alignment >> 32 != 0)
    return fail(ErrorCode::invalid_argument,
                "pool {} is larger than 16 TiB, which announcements cannot name; make a smaller "
                "one: penstock pool create {} --size 16T --overwrite",
                context.pool.info().spec, base::shell_quote(context.pool.info().spec));
  const std::uint32_t ring_lines = context.settings.first_ring_lines;
  const ChannelLayout layout(context.settings.cell_count, ring_lines);
  auto at = PENSTOCK_TRY(context.tx_memory.allocate(bytes_of(layout), "a channel"));
  std::unique_ptr<TxChannel> channel(
      new TxChannel(context, at, layout, mailbox, counts, intra_node));
  channel->header_.target = peer.slot;
  channel->header_.target_generation = peer.generation;
  channel->header_.intra_node = intra_node ? 1 : 0;
  channel->begin(ring_lines);
  return channel;
}

TxChannel::TxChannel(TxContext& context, std::byte* at, const ChannelLayout& layout,
                     const MailboxWords& mailbox, EndpointStats& counts, bool intra_node)
    : context_(context),
      counts_(counts),
      memory_(intra_node ? context.memory.intra_node() : context.memory),
      base_(at),
      layout_(layout),
      mailbox_(mailbox),
      channel_offset_(*context.pool.offset_of(at)) {}

/// Initializes a channel in new memory, where nothing has been sent.
void TxChannel::begin(std::uint32_t ring_lines) {
  nonce_ = random_nonce();
  announced_ = static_cast<std::uint32_t>(nonce_);
  head_ = consumed_ = cells_head_ = cells_consumed_ = looked_at_ = 0;
  next_lap_ = ring_lines;
  error_seen_ = error_taken_ = 0;
  position_ = {};
  clear_to_send_ = {};
  header_.magic = channel_magic;
  header_.nonce = nonce_;
  header_.job = context_.self.job;
  header_.source = context_.self.slot;
  header_.source_generation = context_.self.generation;
  header_.ring_lines = ring_lines;
  header_.cell_flags = static_cast<std::uint16_t>(context_.settings.cell_count);
  header_.checksum = checksum_of(header_);
  memory_.publish_line(base_, &header_);
  memory_.store_fence();  // pairs with RxChannel::open, which reads it after the mailbox word
}

// ---- credits -----------------------------------------------------------------------------------

void TxChannel::refresh_credits() {
  CreditLine line;
  memory_.observe_line(&line,
                       base_ + ChannelLayout::credits);  // pairs with RxChannel::return_credits
  ended_ = ended_ || line.lines == broken_off(nonce_);
  const std::uint64_t lines = line.lines - nonce_, cells = line.cells - nonce_;
  if (lines <= head_ && lines > consumed_) consumed_ = lines;
  if (cells <= cells_head_ && cells > cells_consumed_) cells_consumed_ = cells;
  accept(line.clear_to_send);
  const std::uint64_t error = line.error - nonce_;
  if (line.error != 0 && error >> 32 == 0) error_seen_ = static_cast<std::uint32_t>(error);
  if (previous_.at != nullptr) read_previous_credits(lines);
}

std::uint32_t TxChannel::take_error() {
  refresh_credits();
  const std::uint32_t of_left = std::exchange(previous_error_, 0);
  if (of_left != 0) return of_left & ((1u << error_bits) - 1);
  if (error_seen_ == error_taken_) return 0;
  error_taken_ = error_seen_;
  return error_seen_ & ((1u << error_bits) - 1);
}

bool TxChannel::room(std::uint64_t lines) {
  if (wants_larger_) (void)try_to_move();
  if (head_ + lines - consumed_ <= layout_.ring_lines()) return true;
  refresh_credits();
  if (head_ + lines - consumed_ <= layout_.ring_lines()) return true;
  want_larger();
  if (wants_larger_ && try_to_move()) return true;
  ++counts_.stalls;
  return false;
}

bool TxChannel::cell_room() {
  if (cells_head_ - cells_consumed_ < cell_count_) return true;
  refresh_credits();
  if (cells_head_ - cells_consumed_ < cell_count_) return true;
  ++counts_.stalls;
  want_cells();
  return false;
}

bool TxChannel::consumed() {
  if (waiting()) return false;
  break_off();
  const auto all = [this] { return ended_ || (consumed_ == head_ && previous_consumed()); };
  if (!all()) refresh_credits();
  return all();
}

// ---- putting messages into the pool ------------------------------------------------------------

void TxChannel::count(const Header& header) {
  ++counts_.messages_sent;
  counts_.bytes_sent += header.bytes;
}

/// Also rings the bell if the last announcement is so old that the receiver may watch only its
/// bell. The bell has many writers; any value works that differs from the last one seen.
void TxChannel::announce() {
  memory_.publish_word(mailbox_.announcement, MailboxWord::pack(channel_offset_, ++announced_));
  if (head_ >= next_lap_) note_lap();
  const std::uint64_t now = context_.coarse_ns;
  if (now - announced_ns_ < ring_after_ns) return;
  announced_ns_ = now;
  if (memory_.mode() != coherence::Mode::hardware)
    memory_.publish_word(mailbox_.bell, nonce_ + announced_);
}

/// True if the caller has not polled since the last message, so it is not waiting for an answer.
bool TxChannel::streams() {
  const bool streams = sent_at_poll_ == context_.polls;
  sent_at_poll_ = context_.polls;
  return streams;
}

Result<bool> TxChannel::inject(const Header& header, const void* payload) {
  auto sent = inject_now(header, payload);
  refused_ = sent && !*sent;
  return sent;
}

Result<bool> TxChannel::inject_now(const Header& header, const void* payload) {
  if (queue_.first) return false;
  if (header.bytes <= inline_bytes) {
    if (!room(1)) return false;
    put_inline(header, payload, 0);
    return true;
  }
  if (is_eager(header.bytes)) {
    if (!room(lines_of(header.bytes))) return false;
    put_eager(header, static_cast<const std::byte*>(payload), 0);
    return true;
  }
  SendOp op;
  op.header = header;
  op.iov[0] = {const_cast<void*>(payload), header.bytes};
  op.iov_count = 1;
  const Started started = start_pipelined(&op);  // one cell: complete at once, or no credit
  if (started == Started::no_memory) return unexpected(memory_error_);
  return started == Started::complete;
}

// ---- queued operations -------------------------------------------------------------------------

TxChannel::Started TxChannel::start(SendOp* op) {
  const std::uint8_t flags = op->notify_delivered ? flag_acknowledge : 0;
  const std::uint64_t bytes = op->header.bytes;
  if (const auto offset = place_of(*op)) return start_get(op, *offset);
  if (!is_eager(bytes)) return start_pipelined(op);
  if (!room(lines_of(bytes))) return Started::no_credit;
  const std::byte* payload =
      iov_contiguous(op->iov, op->iov_count, 0, bytes, context_.staging.data());
  if (bytes <= inline_bytes)
    put_inline(op->header, payload, flags);
  else
    put_eager(op->header, payload, flags);
  op->sent_bytes = bytes;
  op->position = head_;
  return Started::complete;
}

Result<bool> TxChannel::send(SendOp* op) {
  refused_ = false;  // a message that inject() refused now waits in the queue
  op->sent_bytes = op->position = 0;
  op->get_lines = 0;
  if (queue_.first) {
    op->urgent ? queue_.push_urgent(op) : queue_.push(op);
    return false;
  }
  switch (start(op)) {
    case Started::complete:
      if (!reports_on_consume(*op)) return true;
      delivering_.push(op);
      return false;
    case Started::no_memory:
      return unexpected(memory_error_);
    case Started::partly:
    case Started::no_credit:
      queue_.push(op);
      return false;
  }
  return false;
}

bool TxChannel::cancel(SendOp* op) {
  SendOp* before = nullptr;
  for (SendOp* at = queue_.first; at; before = at, at = at->next) {
    if (at != op) continue;
    if (op->position != 0) return false;  // begun
    (before ? before->next : queue_.first) = op->next;
    if (queue_.last == op) queue_.last = before;
    return true;
  }
  return false;
}

SendOp* TxChannel::take_back(bool (*wanted)(const SendOp&)) {
  List all, taken;
  std::swap(all, queue_);
  while (all.first) {
    SendOp* const op = all.pop();
    (op->position == 0 && wanted(*op) ? taken : queue_).push(op);
  }
  return taken.first;
}

unsigned TxChannel::notify_delivered(EndpointCallbacks& callbacks) {
  if (!delivering_.first) return 0;
  refresh_credits();
  unsigned events = 0;
  while (delivering_.first && delivering_.first->position <= consumed_) {
    callbacks.on_sent(delivering_.pop());
    ++events;
  }
  return events;
}

unsigned TxChannel::advance(EndpointCallbacks& callbacks) {
  unsigned events = 0;
  // At most one ring a call: with a fast receiver a longer loop would not notice that the receiver
  // wants no more. After a move only the message that caused it: line numbers begin anew there.
  const std::uint64_t until = head_ + layout_.ring_lines(), nonce = nonce_;
  while (queue_.first && head_ < until && nonce_ == nonce) {
    SendOp* op = queue_.first;
    if (op->position == 0) {
      const Started started = start(op);
      if (started == Started::no_credit) break;
      if (started == Started::no_memory) {
        callbacks.on_send_failed(queue_.pop(), memory_error_);
        ++events;
        continue;
      }
    } else {
      const std::uint64_t before = op->sent_bytes;
      push_cells(op);
      if (op->sent_bytes < op->header.bytes && op->sent_bytes != before) ++events;
    }
    if (op->sent_bytes < op->header.bytes) break;
    queue_.pop();
    if (reports_on_consume(*op))
      delivering_.push(op);
    else
      callbacks.on_sent(op);
    ++events;
  }
  return events + notify_delivered(callbacks);
}

void TxChannel::abandon() {
  withdraw_get();
  // a pipelined message, whose one line is in the ring; it follows all of `delivering_`
  breaks_off_ = queue_.first && queue_.first->position != 0;
  queue_ = {};
  delivering_ = {};
  break_off();
}

/// Replaces the next cell's flag, once the cell's previous contents are consumed.
void TxChannel::break_off() {
  if (!breaks_off_ || !cell_room()) return;
  memory_.publish_word(flag_at(cells_head_), broken_off(nonce_ + cells_head_));
  memory_.store_fence();  // the receiver may be closing too, and wait for it
  breaks_off_ = false;
}

void TxChannel::give_memory_back(bool quiescent) {
  context_.tx_memory.give_back(base_, bytes_of(layout_), quiescent);
  if (previous_.at != nullptr)
    context_.tx_memory.give_back(previous_.at, previous_.bytes, quiescent);
  give_cells_back();
}

void TxChannel::fail_all(EndpointCallbacks& callbacks, const Error& error) {
  withdraw_get();  // a receiver that was declared dead may resume copying
  while (delivering_.first) callbacks.on_send_failed(delivering_.pop(), error);
  while (queue_.first) callbacks.on_send_failed(queue_.pop(), error);
}

}  // namespace penstock::transport

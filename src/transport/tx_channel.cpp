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

/// In [2^62, 2^63): then neither zeroed nor freshly mapped memory holds a valid seal or credit. Far
/// from 2^63, for `flag_stored` is beside it.
std::uint64_t random_nonce() {
  std::uint64_t value = 0;
  if (getrandom(&value, sizeof value, 0) != sizeof value)
    value = reinterpret_cast<std::uintptr_t>(&value) * 0x9e3779b97f4a7c15ull;
  return (value >> 3) | (1ull << 62);
}

/// Longer messages that follow each other within `stream_gap_ns` are a stream.
constexpr std::uint64_t stream_bytes = 4096, stream_gap_ns = 1000;
/// So long a message waits for the grant that it asks for: a receiver that polls answers sooner.
constexpr std::uint64_t grant_wait_ns = 30'000;
/// The lines of longer messages are sent as those of a stream: the first would come sooner, the
/// rest no later.
constexpr std::uint64_t alone_max_bytes = 448;
constexpr std::uint64_t stored_together = 4;  ///< cells' worth that is announced by one order

/// Only when the receiver has consumed it are its buffers free, or was that asked for.
bool told_when_consumed(const SendOp& op) {
  return op.notify_delivered || op.placed_lines != 0;
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

SendOp* TxChannel::List::pop() {
  SendOp* op = first;
  first = op->next;
  if (!first) last = nullptr;
  return op;
}

Result<std::unique_ptr<TxChannel>> TxChannel::make(TxContext& context, const Address& peer,
                                                   void* mailbox_word, EndpointStats& counts,
                                                   bool within_node) {
  if (context.pool.bytes() / channel_alignment >> 32 != 0)
    return fail(Code::invalid_argument,
                "pool {} is larger than 16 TiB, which announcements cannot name; make a smaller "
                "one: penstock pool create {} --size 16T --overwrite",
                context.pool.info().spec, base::shell_quote(context.pool.info().spec));
  auto at = context.tx_memory.allocate(context.settings.channel_bytes(), "a channel");
  if (!at) return unexpected(at.error());
  std::unique_ptr<TxChannel> channel(
      new TxChannel(context, *at, mailbox_word, counts, within_node));
  channel->write_header(peer, within_node);
  return channel;
}

TxChannel::TxChannel(TxContext& context, std::byte* at, void* mailbox_word, EndpointStats& counts,
                     bool within_node)
    : context_(context),
      counts_(counts),
      memory_(within_node ? context.memory.within_node() : context.memory),
      ring_(at + ring_at(context.settings.cell_count)),
      ring_mask_(context.settings.ring_lines - 1),
      nonce_(random_nonce()),
      mailbox_word_(mailbox_word),
      channel_offset_(*context.pool.offset_of(at)),
      announced_(static_cast<std::uint32_t>(nonce_)),
      credit_line_(at + credits_at),
      flags_(at + flags_at),
      base_(at) {}

void TxChannel::write_header(const Address& peer, bool within_node) {
  header_.magic = channel_magic;
  header_.nonce = nonce_;
  header_.job = context_.self.job;
  header_.source = context_.self.slot;
  header_.source_generation = context_.self.generation;
  header_.target = peer.slot;
  header_.target_generation = peer.generation;
  header_.ring_lines = context_.settings.ring_lines;
  header_.cell_flags = context_.settings.cell_count;
  header_.within_node = within_node ? 1 : 0;
  header_.check = check_of(header_);
  memory_.publish_line(base_, &header_);
  memory_.order();  // pairs with RxChannel::open, which reads it after the mailbox word
}

// ---- credits -----------------------------------------------------------------------------------

void TxChannel::refresh_credits() {
  CreditLine line;
  memory_.observe_line(&line, credit_line_);  // pairs with RxChannel::return_credits
  ended_ = ended_ || line.lines == broken_off(nonce_);
  const std::uint64_t lines = line.lines - nonce_, cells = line.cells - nonce_;
  if (lines <= head_ && lines > consumed_) consumed_ = lines;
  if (cells <= cells_head_ && cells > cells_consumed_) cells_consumed_ = cells;
  accept(line.grant);
  const std::uint64_t trouble = line.trouble - nonce_;
  if (line.trouble != 0 && trouble >> 32 == 0) trouble_ = static_cast<std::uint32_t>(trouble);
}

std::uint32_t TxChannel::trouble() {
  refresh_credits();
  if (trouble_ == trouble_told_) return 0;
  trouble_told_ = trouble_;
  return trouble_ & ((1u << trouble_bits) - 1);
}

bool TxChannel::room(std::uint64_t lines) {
  if (head_ + lines - consumed_ <= ring_mask_ + 1) return true;
  refresh_credits();
  if (head_ + lines - consumed_ <= ring_mask_ + 1) return true;
  ++counts_.stalls;
  return false;
}

bool TxChannel::cell_room() {
  if (cells_head_ - cells_consumed_ < cell_count_) return true;
  refresh_credits();
  if (cells_head_ - cells_consumed_ < cell_count_) return true;
  ++counts_.stalls;
  return false;
}

bool TxChannel::consumed() {
  if (waiting()) return false;
  break_off();
  if (ended_ || consumed_ == head_) return true;
  refresh_credits();
  return ended_ || consumed_ == head_;
}

// ---- putting messages into the pool ------------------------------------------------------------

void TxChannel::count(const Header& header) {
  ++counts_.messages_sent;
  counts_.bytes_sent += header.bytes;
}

void TxChannel::announce() {
  memory_.publish_word(mailbox_word_, MailboxWord::pack(channel_offset_, ++announced_));
}

/// Nobody has polled since the last message: the caller does not wait for an answer to it.
bool TxChannel::streams() {
  const bool streams = sent_at_poll_ == context_.polls;
  sent_at_poll_ = context_.polls;
  return streams;
}

void TxChannel::put_inline(const Header& header, const void* payload, std::uint8_t flags) {
  MessageLine line;
  line.meta = MessageLine::pack(header.bytes, flags, Form::inlined, header.kind);
  line.tag = header.tag;
  line.data = header.data;
  if (header.bytes != 0) std::memcpy(line.payload, payload, header.bytes);  // else it may be null
  line.seal = line.seal_of(nonce_ + head_);
  streams() ? memory_.stream_line(line_at(head_), &line) : memory_.send_line(line_at(head_), &line);
  ++head_;
  announce();
  memory_.order();
  count(header);
}

void TxChannel::put_lines(const Header& header, const std::byte* payload, std::uint8_t flags) {
  MessageLine line;
  line.meta = MessageLine::pack(header.bytes, flags, Form::lines, header.kind);
  line.tag = header.tag;
  line.data = header.data;
  std::memcpy(line.payload, payload, inline_bytes);
  line.seal = line.seal_of(nonce_ + head_);
  const bool stream = streams() || header.bytes > alone_max_bytes;
  stream ? memory_.stream_line(line_at(head_), &line) : memory_.send_line(line_at(head_), &line);
  ++head_;
  std::uint64_t rest = header.bytes - inline_bytes;
  payload += inline_bytes;
  while (rest > 0) {
    const std::uint64_t until_wrap = ring_mask_ + 1 - (head_ & ring_mask_);
    const std::uint64_t piece = std::min(rest, until_wrap * coherence::sealed_bytes);
    stream ? memory_.stream_sealed(line_at(head_), payload, piece, nonce_ + head_)
           : memory_.publish_sealed(line_at(head_), payload, piece, nonce_ + head_);
    head_ += (piece + coherence::sealed_bytes - 1) / coherence::sealed_bytes;
    payload += piece;
    rest -= piece;
  }
  announce();
  memory_.order();
  count(header);
  if (header.bytes > stream_bytes) long_sent_ns_ = base::now_ns();
}

/// Else by bulk. Lines reach the receiver sooner, cells take less of both sides' time: what comes
/// at the heels of another, or of a message that waits for credit, is part of a stream.
bool TxChannel::in_lines(std::uint64_t bytes) {
  if (bytes > context_.settings.lines_max_bytes) return false;
  if (bytes <= stream_bytes) return true;
  const bool stream = queue_.first || base::now_ns() - long_sent_ns_ < stream_gap_ns;
  if (!stream) return true;
  if (!cells_ && !no_cells_for_streams_) no_cells_for_streams_ = !make_cells();
  return !cells_;
}

Result<bool> TxChannel::inject(const Header& header, const void* payload) {
  if (queue_.first) return false;
  if (header.bytes <= inline_bytes) {
    if (!room(1)) return false;
    put_inline(header, payload, 0);
    return true;
  }
  if (in_lines(header.bytes)) {
    if (!room(lines_of(header.bytes))) return false;
    put_lines(header, static_cast<const std::byte*>(payload), 0);
    return true;
  }
  SendOp op;
  op.header = header;
  op.iov[0] = {const_cast<void*>(payload), header.bytes};
  op.iov_count = 1;
  const Started started = start_bulk(&op);  // one cell: at once or not at all
  if (started == Started::no_memory) return unexpected(memory_error_);
  return started == Started::complete;
}

// ---- bulk --------------------------------------------------------------------------------------

Result<void> TxChannel::make_cells() {
  if (cells_) return {};
  // fewer cells are slower, but better than no message
  Result<std::byte*> cells = unexpected(Error{});
  std::uint32_t number = context_.settings.cell_count;
  for (;; number /= 2) {
    cells = context_.tx_memory.allocate(
        static_cast<std::uint64_t>(number) * context_.settings.cell_bytes, "bulk transfer");
    if (cells || cells.error().code != Code::no_space || number == 1) break;
  }
  if (!cells) return unexpected(cells.error());
  cells_ = *cells;
  cell_bytes_ = context_.settings.cell_bytes;
  cell_count_ = number;
  return {};
}

void TxChannel::put_bulk_line(const SendOp& op, std::uint64_t ready) {
  MessageLine line;
  const int flags =
      (op.notify_delivered ? flag_acknowledge : 0) | (asked_at_ns_ != 0 ? flag_asks : 0);
  line.meta = MessageLine::pack(op.header.bytes, static_cast<std::uint8_t>(flags), Form::bulk,
                                op.header.kind);
  line.tag = op.header.tag;
  line.data = op.header.data;
  line.bulk.offset = *context_.pool.offset_of(cells_);
  line.bulk.cell_bytes = cell_bytes_;
  line.bulk.cell_count = cell_count_;
  line.bulk.first_cell = cells_head_ - ready;
  line.bulk.ready = ready;
  line.seal = line.seal_of(nonce_ + head_);
  memory_.send_line(line_at(head_), &line);
  bulk_line_ = head_++;
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

/// Those from `first` on, which lie in the cells or all in the receiver's buffer.
void TxChannel::announce_cells(std::uint64_t first, bool stored) {
  memory_.order();  // the cells before what announces them
  for (std::uint64_t cell = first; cell < cells_head_; ++cell)
    memory_.publish_word(flags_ + 8 * (cell % cell_count_),
                         (nonce_ + cell) | (stored ? flag_stored : 0));
}

/// All cells once at most: a receiver that keeps up would hold the caller for the whole message.
/// Each cell is announced at once, for the receiver copies it meanwhile. What is stored where it
/// shall lie only costs the receiver a drop: some of it is announced together.
bool TxChannel::push_cells(SendOp* op) {
  const std::uint64_t head_before = cells_head_;
  if (asked_at_ns_ != 0 || grant_.until != 0) refresh_credits();  // more of it, or withdrawn
  std::uint64_t first = cells_head_;
  bool stored = false;
  while (op->sent_bytes < op->header.bytes && cells_head_ - head_before < cell_count_ &&
         cell_room()) {
    const std::uint64_t bytes =
        std::min<std::uint64_t>(cell_bytes_, op->header.bytes - op->sent_bytes);
    std::byte* to = place_of_next(*op, bytes);
    if (!to) break;
    const bool stores = to != next_cell();
    if (first != cells_head_ && (!stored || !stores || cells_head_ - first == stored_together)) {
      announce_cells(first, stored);
      first = cells_head_;
      if (stored && stores) {  // is that still wanted?
        refresh_credits();
        continue;
      }
    }
    stored = stores;
    put_cell(*op, to, bytes);
    op->sent_bytes += bytes;
  }
  if (first != cells_head_) announce_cells(first, stored);
  if (cells_head_ != head_before) memory_.order();
  return op->sent_bytes == op->header.bytes;
}

TxChannel::Started TxChannel::start_bulk(SendOp* op) {
  if (!cells_) {
    if (auto made = make_cells(); !made) {
      memory_error_ = made.error();
      return Started::no_memory;
    }
  }
  if (!room(1) || !cell_room()) return Started::no_credit;
  count(op->header);
  grant_ = {};
  asked_at_ns_ = 0;
  if (op->header.bytes <= cell_bytes_) {
    put_cell(*op, next_cell(), op->header.bytes);
    memory_.order();  // all there when announced: no flag to wait for
    put_bulk_line(*op, 1);
    memory_.order();
    op->sent_bytes = op->header.bytes;
    long_sent_ns_ = base::now_ns();
  } else {
    if (asks_for_grant(*op)) asked_at_ns_ = base::now_ns();
    put_bulk_line(*op, 0);  // the receiver can match while the first cell is written
    if (asked_at_ns_ != 0) memory_.order();
    if (asked_at_ns_ == 0) push_cells(op);
  }
  op->position = head_;
  return op->sent_bytes == op->header.bytes ? Started::complete : Started::partly;
}

// ---- payload that is stored where it shall lie --------------------------------------------------

bool TxChannel::asks_for_grant(const SendOp& op) const {
  return expects_grant_ && op.header.bytes >= context_.settings.stored_min_bytes;
}

/// Of the message that is being sent; a torn line says nothing. One that does not name it any more
/// was withdrawn: the receiver is going.
void TxChannel::accept(const Grant& grant) {
  if (grant.message == 0) {
    grant_ = {};
    return;
  }
  if (grant.message != nonce_ + bulk_line_ || grant.check != check_of(grant)) return;
  const bool whole_lines =
      grant.offset % 64 == 0 && grant.until % 64 == 0 && grant.from <= grant.until;
  if (!whole_lines || !context_.pool.at(grant.offset, grant.until)) return;
  grant_ = grant;
  expects_grant_ = grant.until != 0;
  asked_at_ns_ = 0;
}

/// Each look is a device access, so a message that did not ask makes few.
bool TxChannel::looks_for_grant(const SendOp& op) const {
  const std::uint64_t cells = op.sent_bytes / cell_bytes_;
  const bool early = cells == 2 || cells == 4 || cells == 8;
  return early && op.header.bytes >= context_.settings.stored_min_bytes;
}

/// Where the next `bytes` of the message go: the receiver's buffer as far as it was granted, else
/// a cell. Null: a grant is awaited.
std::byte* TxChannel::place_of_next(const SendOp& op, std::uint64_t bytes) {
  if (asked_at_ns_ != 0) {
    if (base::now_ns() - asked_at_ns_ < grant_wait_ns) return nullptr;
    asked_at_ns_ = 0;
    expects_grant_ = false;
  }
  const std::uint64_t at = op.sent_bytes;
  if (grant_.until == 0 && looks_for_grant(op)) refresh_credits();
  if (grant_.until == 0 || at < grant_.from || bytes % 64 != 0) return next_cell();
  if (at + bytes > grant_.until) refresh_credits();
  if (at + bytes > grant_.until) return grant_.until == 0 ? next_cell() : nullptr;
  return context_.pool.base() + grant_.offset + at;
}

// ---- payload that stays where it lies in the pool -----------------------------------------------

std::optional<std::uint64_t> TxChannel::place_of(const SendOp& op) const {
  if (op.header.bytes < context_.settings.placed_min_bytes || op.iov_count != 1)
    return std::nullopt;
  return context_.pool.aliases().lasting_offset_of(op.iov[0].iov_base, op.header.bytes);
}

void TxChannel::put_placed_line(const SendOp& op, std::uint64_t offset, std::uint64_t piece_bytes) {
  MessageLine line{};
  line.meta = MessageLine::pack(op.header.bytes, flag_acknowledge, Form::placed, op.header.kind);
  line.tag = op.header.tag;
  line.data = op.header.data;
  line.placed.offset = offset;
  line.placed.piece_bytes = piece_bytes;
  line.seal = line.seal_of(nonce_ + head_);
  memory_.send_line(line_at(head_), &line);
}

/// What the user has stored is sent on piece by piece, so that the receiver copies one while the
/// next is on its way. The pieces of a long message are larger: the ring has few lines.
TxChannel::Started TxChannel::start_placed(SendOp* op, std::uint64_t offset) {
  const std::uint64_t bytes = op->header.bytes;
  const std::uint64_t least = context_.settings.placed_piece_bytes;
  const std::uint64_t piece_bytes =
      least == 0 ? bytes
                 : std::max(least, base::align_up((bytes - 1) / max_placed_pieces + 1,
                                                  coherence::line_bytes));
  const std::uint64_t pieces = pieces_of(bytes, piece_bytes);
  if (!room(pieces)) return Started::no_credit;
  count(op->header);
  const std::byte* at = context_.pool.base() + offset;
  for (std::uint64_t done = 0; done < bytes; done += piece_bytes, ++head_) {
    memory_.write_back(at + done, std::min(piece_bytes, bytes - done));
    memory_.order();  // the piece before what announces it
    if (done == 0) {
      put_placed_line(*op, offset, piece_bytes);
      announce();
      continue;
    }
    MessageLine line{};
    line.seal = nonce_ + head_;
    memory_.send_line(line_at(head_), &line);
  }
  memory_.order();
  op->sent_bytes = bytes;
  op->position = head_;
  op->placed_lines = static_cast<std::uint32_t>(pieces);
  return Started::complete;
}

/// From now on the user may store where a placed message lies: a receiver that has not finished
/// with it must notice. It looks at the message's first line when it has copied all
/// (RxChannel::still_placed), and that line says so before anything is stored.
void TxChannel::withdraw_placed() {
  bool looked = false;
  for (const SendOp* op = delivering_.first; op; op = op->next) {
    if (op->placed_lines == 0) continue;
    if (!looked) refresh_credits();
    looked = true;
    if (op->position <= consumed_) continue;
    const std::uint64_t number = op->position - op->placed_lines;
    MessageLine line{};
    line.meta = MessageLine::pack(op->header.bytes, 0, Form::withdrawn, op->header.kind);
    line.seal = line.seal_of(nonce_ + number);
    memory_.send_line(line_at(number), &line);
  }
  if (looked) memory_.order();
}

// ---- queued operations -------------------------------------------------------------------------

TxChannel::Started TxChannel::start(SendOp* op) {
  const std::uint8_t flags = op->notify_delivered ? flag_acknowledge : 0;
  const std::uint64_t bytes = op->header.bytes;
  if (const auto offset = place_of(*op)) return start_placed(op, *offset);
  if (!in_lines(bytes)) return start_bulk(op);
  if (!room(lines_of(bytes))) return Started::no_credit;
  const std::byte* payload =
      iov_contiguous(op->iov, op->iov_count, 0, bytes, context_.staging.data());
  if (bytes <= inline_bytes)
    put_inline(op->header, payload, flags);
  else
    put_lines(op->header, payload, flags);
  op->sent_bytes = bytes;
  op->position = head_;
  return Started::complete;
}

Result<bool> TxChannel::send(SendOp* op) {
  op->sent_bytes = op->position = 0;
  op->placed_lines = 0;
  if (queue_.first) {
    queue_.push(op);
    return false;
  }
  switch (start(op)) {
    case Started::complete:
      if (!told_when_consumed(*op)) return true;
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

unsigned TxChannel::notify_delivered(Sink& sink) {
  if (!delivering_.first) return 0;
  refresh_credits();
  unsigned events = 0;
  while (delivering_.first && delivering_.first->position <= consumed_) {
    sink.on_sent(delivering_.pop());
    ++events;
  }
  return events;
}

unsigned TxChannel::advance(Sink& sink) {
  unsigned events = 0;
  while (queue_.first) {
    SendOp* op = queue_.first;
    if (op->position == 0) {
      const Started started = start(op);
      if (started == Started::no_credit) break;
      if (started == Started::no_memory) {
        sink.on_send_failed(queue_.pop(), memory_error_);
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
    if (told_when_consumed(*op))
      delivering_.push(op);
    else
      sink.on_sent(op);
    ++events;
  }
  return events + notify_delivered(sink);
}

void TxChannel::abandon() {
  withdraw_placed();
  // a message in cells, whose one line is in the ring; it was begun behind all in `delivering_`
  breaks_off_ = queue_.first && queue_.first->position != 0;
  queue_ = {};
  delivering_ = {};
  break_off();
}

/// Where the next cell's flag would be, when the message that had the cell before is taken.
void TxChannel::break_off() {
  if (!breaks_off_ || !cell_room()) return;
  memory_.publish_word(flags_ + 8 * (cells_head_ % cell_count_), broken_off(nonce_ + cells_head_));
  memory_.order();  // the receiver may be closing too, and waits for it
  breaks_off_ = false;
}

void TxChannel::give_memory_back(bool still) {
  context_.tx_memory.give_back(base_, context_.settings.channel_bytes(), still);
  if (!cells_) return;  // which nobody else stores to
  context_.tx_memory.give_back(cells_, static_cast<std::uint64_t>(cell_count_) * cell_bytes_, true);
}

void TxChannel::fail_all(Sink& sink, const Error& error) {
  withdraw_placed();  // who is taken for dead may go on copying one day
  while (delivering_.first) sink.on_send_failed(delivering_.pop(), error);
  while (queue_.first) sink.on_send_failed(queue_.pop(), error);
}

}  // namespace penstock::transport

#include "transport/rx_channel.hpp"

#include <algorithm>
#include <cstring>
#include <utility>

#include "base/checked.hpp"
#include "base/clock.hpp"
#include "base/format.hpp"
#include "transport/iov.hpp"

namespace penstock::transport {
namespace {

constexpr std::uint64_t max_window = 16;
constexpr unsigned max_messages_per_poll = 64;
/// Limits of deferring an unexpected long message, and how many are taken after a vain deferral.
constexpr std::uint64_t short_bytes = 8192, defer_ns = 20'000, defer_for_room_ns = 1'000'000;
constexpr std::uint32_t undeferred_after_late = 64;

}  // namespace

Result<std::unique_ptr<RxChannel>> RxChannel::open(RxContext& context, std::uint64_t offset,
                                                   Peer source, EndpointStats& counts,
                                                   const AskIntraNode& intra_node) {
  const void* at = context.pool.at(offset, ChannelLayout::least_bytes);
  if (!at)
    return penstock::fail(ErrorCode::wrong_format,
                          "endpoint {} announces a channel at {}, outside the pool", source,
                          offset);
  ChannelHeader header;
  context.memory.observe_line(&header, at);  // pairs with TxChannel::begin
  if (header.magic != channel_magic || header.checksum != checksum_of(header))
    return penstock::fail(ErrorCode::wrong_format,
                          "endpoint {} announces a channel at {}, but none is there", source,
                          offset);
  if (header.source != source || header.target != context.self.slot ||
      header.target_generation != context.self.generation || header.job != context.self.job)
    return penstock::fail(ErrorCode::mismatch,
                          "the channel at {} is not from endpoint {} to this one", offset, source);
  const std::optional<bool> is_intra_node =
      header.intra_node != 0 ? intra_node(header.source_generation) : true;
  if (!is_intra_node)
    return penstock::fail(ErrorCode::unavailable, "the node of endpoint {} is not known now",
                          source);
  if (!*is_intra_node)
    return penstock::fail(ErrorCode::mismatch,
                          "the channel at {} counts on one node's caches, but endpoint {} is on "
                          "another node",
                          offset, source);
  const bool shape_ok = header.ring_lines >= 8 && header.ring_lines <= (1u << 20) &&
                        (header.ring_lines & (header.ring_lines - 1)) == 0 &&
                        header.cell_flags % ChannelLayout::flags_a_line == 0 &&
                        header.cell_flags <= 4096;
  if (!shape_ok || offset < context.pool.info().arena_offset ||
      !context.pool.at(offset, ChannelLayout(header).bytes()))
    return penstock::fail(ErrorCode::wrong_format, "the channel at {} claims {} lines and {} cells",
                          offset, header.ring_lines, header.cell_flags);
  return std::unique_ptr<RxChannel>(new RxChannel(context, header, offset, counts));
}

RxChannel::RxChannel(RxContext& context, const ChannelHeader& header, std::uint64_t offset,
                     EndpointStats& counts)
    : context_(context),
      counts_(counts),
      memory_(header.intra_node != 0 ? context.memory.intra_node() : context.memory),
      offset_(offset),
      base_(context.pool.base() + offset),
      layout_(header),
      flag_count_(header.cell_flags),
      nonce_(header.nonce),
      source_(header.source),
      source_generation_(header.source_generation),
      intra_node_(header.intra_node != 0),
      previous_(header.previous * channel_alignment),
      lines_before_(header.lines_before),
      consumed_messages_(static_cast<std::uint32_t>(header.nonce)),
      announced_(consumed_messages_) {}

bool RxChannel::current() const {
  ChannelHeader header;
  context_.memory.observe_line(&header, base_);  // also sees later writes of another node
  return header.magic == channel_magic && header.nonce == nonce_;
}

bool RxChannel::broken(std::string text) {
  fault_ = std::move(text);
  return false;
}

// ---- polling -----------------------------------------------------------------------------------

void RxChannel::invalidate_window() {
  if (stage_ == Stage::pipelined && ready_ == 0) {
    memory_.invalidate(flag_line(), line_bytes);
    return;
  }
  drop_consumed();
  // a rendezvous get keeps its lines until everything is copied
  const std::uint64_t next = stage_ == Stage::rendezvous_get ? tail_ + pieces_ : tail_;
  // lines that were prefetched before the sender wrote them are stale
  const std::uint64_t fetched = fetched_until_ > next ? fetched_until_ - next : 0;
  const std::uint64_t lines = std::min(std::max(window_, fetched), layout_.lines_to_wrap(next));
  memory_.invalidate(line_at(next), line_bytes * lines);
  fresh_until_ = next + lines;
  fetched_until_ = 0;
}

/// Invalidates consumed lines while there is time, so that the next lap finds no copies of them and
/// need not invalidate while a message waits. Only sequence tags decide what is new: a copy that
/// was prefetched meanwhile costs another look, never a wrong byte.
void RxChannel::drop_consumed() {
  while (cached_from_ < tail_) {
    const std::uint64_t lines = std::min(tail_ - cached_from_, layout_.lines_to_wrap(cached_from_));
    memory_.invalidate(line_at(cached_from_), line_bytes * lines);
    cached_from_ += lines;
  }
}

/// Makes loads of the lines up to `until` see the device; `until` is at most one wrap away.
void RxChannel::freshen(std::uint64_t until) {
  if (fresh_until_ >= until || !memory_.loads_may_be_stale()) return;
  const std::uint64_t from = std::max(fresh_until_, tail_);
  memory_.invalidate(line_at(from), line_bytes * (until - from));
  memory_.load_fence();
  fresh_until_ = until;
}

/// Prefetches the lines up to `until`, within this lap, while the lines before them are read.
/// Without this each load would wait for the device, since a line's sequence tag decides whether to
/// read the next line. This node has no copies of them (drop_consumed); the next poll drops lines
/// that the sender had not written yet.
void RxChannel::fetch(std::uint64_t until) {
  const std::uint64_t from = std::max(fetched_until_, tail_);
  until = std::min(until, tail_ + layout_.lines_to_wrap(tail_));
  if (from >= until) return;
  memory_.fetch(line_at(from), line_bytes * (until - from));
  fetched_until_ = until;
}

unsigned RxChannel::poll(EndpointCallbacks& callbacks) {
  const std::uint64_t tail_before = tail_;
  unsigned messages = 0;
  while (!ended_ && messages < max_messages_per_poll && context_.has_budget()) {
    bool advanced = false;
    switch (stage_) {
      case Stage::header:
        advanced = poll_header(callbacks);
        break;
      case Stage::eager:
        advanced = continue_eager();
        break;
      case Stage::pipelined:
        advanced = continue_pipelined();
        break;
      case Stage::rendezvous_get:
        advanced = continue_get();
        break;
    }
    if (!advanced) break;
    ++messages;
  }
  if (tail_ == tail_before) {
    backlog_ = false;
  } else {
    // A sender that awaits our answer repeats its pattern: look at as many lines as it sent. Each
    // further line delays every look (by 60 ns here), so only a backlog gets a larger window.
    const std::uint64_t taken = tail_ - tail_before;
    window_ = std::min(backlog_ ? 2 * taken : taken, max_window);
    backlog_ = true;
    if (tail_ - credited_lines_ > layout_.ring_lines() / 4) return_credits();
  }
  return messages;
}

bool RxChannel::poll_header(EndpointCallbacks& callbacks) {
  if (!fault_.empty()) return false;
  // Beyond the window a look costs a device access and would delay the message just taken. With a
  // backlog the next message is probably there; the sequence tag exposes a stale copy.
  if (tail_ >= fresh_until_ && memory_.loads_may_be_stale() && !backlog_) return false;
  const std::byte* at = line_at(tail_);
  // load the sequence tag first: it arrives last
  const std::uint64_t sequence_tag = memory_.load_word(at + offsetof(MessageLine, sequence_tag));
  if (!MessageLine::may_be(sequence_tag, nonce_ + tail_)) return false;
  MessageLine line;
  memory_.load_line(&line, at);
  if (sequence_tag != line.sequence_tag_of(nonce_ + tail_)) return false;
  if (backlog_) fetch(tail_ + lines_ahead);
  header_.tag = line.tag;
  header_.data = line.data;
  header_.bytes = line.bytes();
  header_.kind = line.kind();
  acknowledge_ = line.flags() & flag_acknowledge;
  switch (line.form()) {
    case Form::inlined:
      if (header_.bytes > inline_bytes) break;
      ++tail_;
      callbacks.on_message({.from = source_, .header = header_, .payload = line.payload});
      count(header_.bytes);
      if (acknowledge_) return_credits();
      return true;
    case Form::eager:
      if (header_.bytes <= inline_bytes || lines_of(header_.bytes) > layout_.ring_lines()) break;
      return ask_for_buffer(callbacks, false) && begin_eager(line);
    case Form::pipelined:
      return check_cells(line) && ask_for_buffer(callbacks, true) && begin_pipelined(line);
    case Form::rendezvous_get:
      return check_get(line) && ask_for_buffer(callbacks, true) && begin_get(line);
    case Form::withdrawn:
      return end_channel();
  }
  return broken(fmt::format("message line {:#x} from endpoint {}", line.meta, source_));
}

/// A long message that comes shortly before its receive waits in the pool: an extra copy into fresh
/// memory and out of it would triple the cost. It waits only briefly, since the user may need a
/// message behind it. After a receive that came too late, the next messages do not wait.
bool RxChannel::may_defer() const {
  if (header_.bytes <= short_bytes || undeferred_left_ > 0) return false;
  const std::uint64_t now = base::now_ns();
  return now >= context_.no_deferral_until_ns &&
         (deferred_since_ns_ == 0 || now - deferred_since_ns_ < defer_ns);
}

/// Waits for room in this process: otherwise the sender's next messages would fill its memory
/// before the sender learns of it. Does not apply to the last messages of an ended peer.
bool RxChannel::may_wait_for_room() const {
  if (header_.bytes <= short_bytes || context_.no_deferral_until_ns == ~std::uint64_t{0})
    return false;
  return deferred_since_ns_ == 0 || base::now_ns() - deferred_since_ns_ < defer_for_room_ns;
}

/// Reports the message to matching and gets a buffer. False: the message stays in the pool for now.
/// `deferrable`: false for an eager message, whose lines were fetched with the first one and would
/// block the lines behind them.
bool RxChannel::ask_for_buffer(EndpointCallbacks& callbacks, bool deferrable) {
  const bool may_wait = deferrable && may_defer();
  const bool for_room = deferrable && may_wait_for_room();
  const ReceiveBuffer buffer = callbacks.on_message({.from = source_,
                                                     .header = header_,
                                                     .payload = nullptr,
                                                     .may_wait = may_wait,
                                                     .may_wait_for_room = for_room});
  if ((may_wait && buffer.match == Match::later) || (for_room && buffer.match == Match::no_room)) {
    if (deferred_since_ns_ == 0) deferred_since_ns_ = base::now_ns();
    context_.deferred = true;
    return false;
  }
  deferred_since_ns_ = 0;
  if (deferrable && buffer.match != Match::posted && header_.bytes > short_bytes)
    undeferred_left_ = undeferred_left_ > 0 ? undeferred_left_ - 1 : undeferred_after_late;
  set_receive_buffer(buffer);
  return true;
}

void RxChannel::count(std::uint64_t bytes) {
  ++consumed_messages_;
  ++counts_.messages_received;
  counts_.bytes_received += bytes;
}

/// Sets the buffer for the payload, and `direct_` if it is contiguous and long enough.
void RxChannel::set_receive_buffer(const ReceiveBuffer& receive_buffer) {
  receive_buffer_ = receive_buffer;
  direct_ = receive_buffer.iov_count == 1 && receive_buffer.iov[0].iov_len >= header_.bytes
                ? static_cast<std::byte*>(receive_buffer.iov[0].iov_base)
                : nullptr;
  got_ = 0;
}

void RxChannel::finish() {
  stage_ = Stage::header;
  count(header_.bytes);
  if (acknowledge_) return_credits();
  Arrival* const owner = std::exchange(receive_buffer_.arrival, nullptr);
  if (owner != nullptr && context_.reports) owner->arrived();
}

/// The closing sender has withdrawn a message: neither that one nor later ones will be delivered. A
/// closing sender waits for this line, the last store to its channel.
bool RxChannel::end_channel() {
  const bool begun = stage_ != Stage::header;
  stage_ = Stage::header;
  end_clear_to_send();
  CreditLine line{};
  line.lines = broken_off(nonce_);
  // pairs with TxChannel::refresh_credits
  memory_.publish_line(base_ + ChannelLayout::credits, &line);
  memory_.store_fence();
  ended_ = true;
  if (begun) report_failure({ErrorCode::peer_dead, "the sender closed in the midst of it"});
  return false;
}

void RxChannel::report_failure(const Error& error) {
  Arrival* const owner = std::exchange(receive_buffer_.arrival, nullptr);
  if (owner != nullptr && context_.reports) owner->failed(error);
}

void RxChannel::return_credits() {
  publish_credits();
  memory_.store_fence();
}

void RxChannel::send_error(std::uint32_t code) {
  error_ = ((error_ >> error_bits) + 1) << error_bits | code;
  return_credits();
}

/// The caller does the store fence.
void RxChannel::publish_credits() {
  if (ended_) return;
  CreditLine line{};
  line.lines = nonce_ + tail_;
  line.cells = nonce_ + cell_;
  line.clear_to_send = clear_to_send_;
  line.clear_to_send.checksum = checksum_of(clear_to_send_);
  line.error = error_ == 0 ? 0 : nonce_ + error_;
  // pairs with TxChannel::refresh_credits
  memory_.publish_line(base_ + ChannelLayout::credits, &line);
  credited_lines_ = tail_;
  credited_cells_ = cell_;
}

void RxChannel::fail(const Error& error) {
  if (fault_.empty()) fault_ = error.message;
  end_clear_to_send();
  announced_ = consumed_messages_;  // nothing more will arrive
  if (stage_ == Stage::header) return;
  stage_ = Stage::header;
  report_failure(error);
}

}  // namespace penstock::transport

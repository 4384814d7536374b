#include "transport/rx_channel.hpp"

#include <algorithm>
#include <cstring>

#include "base/checked.hpp"
#include "base/clock.hpp"
#include "base/format.hpp"
#include "transport/iov.hpp"

namespace penstock::transport {
namespace {

constexpr std::uint64_t max_window = 16;
/// Where messages queue up, so many lines beyond the one that is read are on their way here.
constexpr std::uint64_t lines_ahead = 32;
constexpr unsigned max_messages_per_poll = 64;
/// A longer message without a receive is held back for so long, and so many then are not.
constexpr std::uint64_t short_bytes = 8192, patience_ns = 20'000;
constexpr std::uint32_t taken_after_one_held = 64;
/// Lines looked at again together while the rest of a message is still being written.
constexpr std::uint64_t retry_lines = 32;
constexpr int retries_per_poll = 4;
/// Cells' worth of a landing that is granted together: little at first, so that the sender begins
/// soon. And cells that a sender writes which did not ask, until it can have seen a grant.
constexpr std::uint64_t first_granted_cells = 2, granted_cells = 16, cells_granted_ahead = 32;
constexpr std::uint64_t cells_before_grant = 4;
constexpr std::uint64_t look_every_ns = 100'000'000;

}  // namespace

std::optional<std::uint64_t> RxContext::place_of(const std::byte* landing, std::uint64_t bytes) {
  auto& aliases = pool.aliases();
  if (const auto offset = aliases.lasting_offset_of(landing, bytes)) return offset;
  const std::uint64_t now = base::now_ns();
  if (now < next_look_ns) return std::nullopt;
  next_look_ns = now + look_every_ns;
  aliases.follow_attachments();
  return aliases.lasting_offset_of(landing, bytes);
}

Result<std::unique_ptr<RxChannel>> RxChannel::open(RxContext& context, std::uint64_t offset,
                                                   Peer source, EndpointStats& counts,
                                                   const AskNear& near) {
  const void* at = context.pool.at(offset, flags_at);
  if (!at)
    return penstock::fail(Code::wrong_format,
                          "endpoint {} announces a channel at {}, outside the pool", source,
                          offset);
  ChannelHeader header;
  context.memory.observe_line(&header, at);  // pairs with TxChannel::write_header
  if (header.magic != channel_magic || header.check != check_of(header))
    return penstock::fail(Code::wrong_format,
                          "endpoint {} announces a channel at {}, but none is there", source,
                          offset);
  if (header.source != source || header.target != context.self.slot ||
      header.target_generation != context.self.generation || header.job != context.self.job)
    return penstock::fail(Code::mismatch, "the channel at {} is not from endpoint {} to this one",
                          offset, source);
  const std::optional<bool> is_near =
      header.within_node != 0 ? near(header.source_generation) : true;
  if (!is_near)
    return penstock::fail(Code::unavailable, "where endpoint {} is cannot be told now", source);
  if (!*is_near)
    return penstock::fail(Code::mismatch,
                          "the channel at {} counts on one node's caches, but endpoint {} is on "
                          "another node",
                          offset, source);
  const bool shape_ok = header.ring_lines >= 8 && header.ring_lines <= (1u << 20) &&
                        (header.ring_lines & (header.ring_lines - 1)) == 0 &&
                        header.cell_flags % 8 == 0 && header.cell_flags <= 4096;
  const std::uint64_t bytes = channel_end(header.cell_flags, header.ring_lines);
  if (!shape_ok || offset < context.pool.info().arena_offset || !context.pool.at(offset, bytes))
    return penstock::fail(Code::wrong_format, "the channel at {} claims {} lines and {} cells",
                          offset, header.ring_lines, header.cell_flags);
  return std::unique_ptr<RxChannel>(new RxChannel(context, header, offset, counts));
}

RxChannel::RxChannel(RxContext& context, const ChannelHeader& header, std::uint64_t offset,
                     EndpointStats& counts)
    : context_(context),
      counts_(counts),
      memory_(header.within_node != 0 ? context.memory.within_node() : context.memory),
      offset_(offset),
      base_(context.pool.base() + offset),
      flags_(base_ + flags_at),
      ring_(base_ + ring_at(header.cell_flags)),
      ring_mask_(header.ring_lines - 1),
      flag_count_(header.cell_flags),
      nonce_(header.nonce),
      source_(header.source),
      source_generation_(header.source_generation),
      near_(header.within_node != 0),
      consumed_messages_(static_cast<std::uint32_t>(header.nonce)),
      announced_(consumed_messages_) {}

bool RxChannel::current() const {
  ChannelHeader header;
  context_.memory.observe_line(&header, base_);  // also what another node has written there since
  return header.magic == channel_magic && header.nonce == nonce_;
}

bool RxChannel::broken(std::string text) {
  fault_ = std::move(text);
  return false;
}

// ---- polling -----------------------------------------------------------------------------------

void RxChannel::invalidate_window() {
  if (stage_ == Stage::bulk && ready_ == 0) {
    memory_.invalidate(flags_ + 64 * (cell_ % cell_count_ / 8), 64);
    return;
  }
  drop_consumed();
  // of a placed message the lines of its pieces stay until all is done
  const std::uint64_t next = stage_ == Stage::placed ? tail_ + pieces_ : tail_;
  const std::uint64_t at = next & ring_mask_;
  // what was fetched before the sender had written it is old
  const std::uint64_t fetched = fetched_until_ > next ? fetched_until_ - next : 0;
  const std::uint64_t lines = std::min(std::max(window_, fetched), ring_mask_ + 1 - at);
  memory_.invalidate(ring_ + 64 * at, 64 * lines);
  fresh_until_ = next + lines;
  fetched_until_ = 0;
}

/// Lines that were read are dropped while there is time, so that the next lap finds no copies of
/// them and need not invalidate with a message waiting. Only seals decide what is new: a copy that
/// was prefetched meanwhile costs another look, never a wrong byte.
void RxChannel::drop_consumed() {
  while (cached_from_ < tail_) {
    const std::uint64_t at = cached_from_ & ring_mask_;
    const std::uint64_t lines = std::min(tail_ - cached_from_, ring_mask_ + 1 - at);
    memory_.invalidate(ring_ + 64 * at, 64 * lines);
    cached_from_ += lines;
  }
}

/// Lines up to `until` are as the device has them now; `until` is at most a wrap away.
void RxChannel::freshen(std::uint64_t until) {
  if (fresh_until_ >= until || !memory_.loads_may_be_stale()) return;
  const std::uint64_t from = std::max(fresh_until_, tail_);
  memory_.invalidate(line_at(from), 64 * (until - from));
  memory_.settle();
  fresh_until_ = until;
}

/// Lines up to `until`, but not beyond this lap, come while those before them are read: each would
/// be waited for by itself, because its seal decides whether the next is looked at. No copies of
/// them are here (drop_consumed); what the sender has not written yet the next poll drops.
void RxChannel::fetch(std::uint64_t until) {
  const std::uint64_t from = std::max(fetched_until_, tail_);
  until = std::min(until, (tail_ | ring_mask_) + 1);
  if (from >= until) return;
  memory_.fetch(line_at(from), 64 * (until - from));
  fetched_until_ = until;
}

unsigned RxChannel::poll(Sink& sink) {
  const std::uint64_t tail_before = tail_;
  unsigned messages = 0;
  while (!ended_ && messages < max_messages_per_poll && context_.may_go_on()) {
    bool advanced = false;
    switch (stage_) {
      case Stage::header:
        advanced = poll_header(sink);
        break;
      case Stage::lines:
        advanced = continue_lines(sink);
        break;
      case Stage::bulk:
        advanced = continue_bulk(sink);
        break;
      case Stage::placed:
        advanced = continue_placed(sink);
        break;
    }
    if (!advanced) break;
    ++messages;
  }
  if (tail_ == tail_before) {
    backlog_ = false;
  } else {
    // A sender that is waited for sends again what it sent: look at that many lines. Each one more
    // delays every look (60 ns here), so only where messages queue up are more looked at together.
    const std::uint64_t taken = tail_ - tail_before;
    window_ = std::min(backlog_ ? 2 * taken : taken, max_window);
    backlog_ = true;
    if (tail_ - credited_lines_ > (ring_mask_ + 1) / 4) return_credits();
  }
  return messages;
}

bool RxChannel::poll_header(Sink& sink) {
  if (!fault_.empty()) return false;
  // Beyond the window a look costs a device access, which the message just taken would wait for.
  // Where messages queue up the next is likely there; an old copy shows by its seal.
  if (tail_ >= fresh_until_ && memory_.loads_may_be_stale() && !backlog_) return false;
  const std::byte* at = line_at(tail_);
  // the seal first: it arrives last
  const std::uint64_t seal = memory_.load_word(at + offsetof(MessageLine, seal));
  if (!MessageLine::may_be(seal, nonce_ + tail_)) return false;
  MessageLine line;
  memory_.load_line(&line, at);
  if (seal != line.seal_of(nonce_ + tail_)) return false;
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
      sink.on_message(source_, header_, line.payload);
      count(header_.bytes);
      if (acknowledge_) return_credits();
      return true;
    case Form::lines:
      if (header_.bytes <= inline_bytes || lines_of(header_.bytes) > ring_mask_ + 1) break;
      return begin_lines(sink, line);
    case Form::bulk:
      return !holds_back(sink) && begin_bulk(sink, line);
    case Form::placed:
      return !holds_back(sink) && begin_placed(sink, line);
    case Form::withdrawn:
      return end_for_good(sink);
  }
  return broken(fmt::format("message line {:#x} from endpoint {}", line.meta, source_));
}

/// A long message that comes a little before its receive waits for it where it lies, for a copy
/// into fresh memory and one more out of it cost thrice the copy that is needed. Never for long:
/// what was sent after it may be awaited. A receiver that is late once is not waited for soon
/// again.
bool RxChannel::holds_back(Sink& sink) {
  if (header_.bytes <= short_bytes) return false;
  if (sink.ready_for(source_, header_)) {
    held_since_ns_ = 0;
    return false;
  }
  if (not_to_hold_ > 0) {
    --not_to_hold_;
    return false;
  }
  const std::uint64_t now = base::now_ns();
  if (held_since_ns_ == 0) held_since_ns_ = now;
  const bool hold = now >= context_.impatient_until_ns && now - held_since_ns_ < patience_ns;
  if (hold) {
    context_.held_back = true;
  } else {
    held_since_ns_ = 0;
    not_to_hold_ = taken_after_one_held;
  }
  return hold;
}

void RxChannel::count(std::uint64_t bytes) {
  ++consumed_messages_;
  ++counts_.messages_received;
  counts_.bytes_received += bytes;
}

/// Where the payload goes; `direct_` when it is one long enough buffer.
void RxChannel::land(const Landing& landing) {
  landing_ = landing;
  direct_ = landing.iov_count == 1 && landing.iov[0].iov_len >= header_.bytes
                ? static_cast<std::byte*>(landing.iov[0].iov_base)
                : nullptr;
  got_ = 0;
}

void RxChannel::finish(Sink& sink) {
  stage_ = Stage::header;
  count(header_.bytes);
  if (acknowledge_) return_credits();
  sink.on_arrived(source_, header_, landing_.cookie);
}

/// Its sender is going and has taken a message back: neither that nor what was sent after it will
/// be delivered. Who closes waits for this, the last that is stored to its channel.
bool RxChannel::end_for_good(Sink& sink) {
  const bool begun = stage_ != Stage::header;
  stage_ = Stage::header;
  end_grant();
  CreditLine line{};
  line.lines = broken_off(nonce_);
  memory_.publish_line(base_ + credits_at, &line);  // pairs with TxChannel::refresh_credits
  memory_.order();
  ended_ = true;
  if (begun)
    sink.on_receive_failed(source_, landing_.cookie,
                           Error{Code::peer_dead, "the sender closed in the midst of it"});
  return false;
}

void RxChannel::return_credits() {
  publish_credits();
  memory_.order();
}

void RxChannel::tell_trouble(std::uint32_t code) {
  trouble_ = ((trouble_ >> trouble_bits) + 1) << trouble_bits | code;
  return_credits();
}

/// The caller orders it.
void RxChannel::publish_credits() {
  if (ended_) return;
  CreditLine line{};
  line.lines = nonce_ + tail_;
  line.cells = nonce_ + cell_;
  line.grant = grant_;
  line.grant.check = check_of(grant_);
  line.trouble = trouble_ == 0 ? 0 : nonce_ + trouble_;
  memory_.publish_line(base_ + credits_at, &line);  // pairs with TxChannel::refresh_credits
  credited_lines_ = tail_;
  credited_cells_ = cell_;
}

void RxChannel::fail(Sink& sink, const Error& error) {
  if (fault_.empty()) fault_ = error.message;
  end_grant();
  announced_ = consumed_messages_;  // nothing more will come
  if (stage_ == Stage::header) return;
  stage_ = Stage::header;
  sink.on_receive_failed(source_, landing_.cookie, error);
}

// ---- messages in sealed lines ------------------------------------------------------------------

bool RxChannel::begin_lines(Sink& sink, const MessageLine& line) {
  land(sink.on_begin(source_, header_));
  if (!direct_) {
    if (staging_.size() < header_.bytes) staging_.resize(header_.bytes);
  }
  std::memcpy(direct_ ? direct_ : staging_.data(), line.payload, inline_bytes);
  got_ = inline_bytes;
  ++tail_;
  stage_ = Stage::lines;
  return continue_lines(sink);
}

bool RxChannel::continue_lines(Sink& sink) {
  std::byte* to = direct_ ? direct_ : staging_.data();
  int retries = 0;
  while (got_ < header_.bytes) {
    const std::uint64_t rest = header_.bytes - got_;
    std::uint64_t lines = (rest + coherence::sealed_bytes - 1) / coherence::sealed_bytes;
    lines = std::min(lines, ring_mask_ + 1 - (tail_ & ring_mask_));
    if (retries > 0) {
      lines = std::min(lines, retry_lines);
      freshen(std::max(tail_ + lines, fetched_until_));
    } else if (backlog_) {
      fetch(tail_ + lines + lines_ahead);
    }
    const std::uint64_t wanted = std::min(rest, lines * coherence::sealed_bytes);
    const std::uint64_t got =
        memory_.load_sealed(to + got_, line_at(tail_), wanted, nonce_ + tail_);
    got_ += got;
    tail_ += got == wanted ? lines : got / coherence::sealed_bytes;
    if (got == wanted) continue;
    fresh_until_ = tail_;  // copies of what follows may be older than what the device has by now
    ++counts_.retries;
    if (++retries > retries_per_poll) return false;
  }
  if (!direct_) iov_scatter(landing_.iov, landing_.iov_count, 0, to, header_.bytes);
  context_.took(header_.bytes);
  finish(sink);
  return true;
}

// ---- bulk --------------------------------------------------------------------------------------

bool RxChannel::begin_bulk(Sink& sink, const MessageLine& line) {
  cell_bytes_ = line.bulk.cell_bytes;
  cell_count_ = line.bulk.cell_count;
  const bool shape_ok = cell_bytes_ >= 64 && cell_bytes_ % 64 == 0 && cell_count_ >= 1 &&
                        cell_count_ <= flag_count_ && line.bulk.ready <= 1 &&
                        line.bulk.first_cell == cell_ && line.bulk.offset % 64 == 0;
  cells_ = shape_ok ? static_cast<const std::byte*>(context_.pool.at(
                          line.bulk.offset, static_cast<std::uint64_t>(cell_bytes_) * cell_count_))
                    : nullptr;
  if (!cells_)
    return broken(fmt::format("endpoint {} claims {} cells of {} bytes at {}, from cell {} on",
                              source_, cell_count_, cell_bytes_, line.bulk.offset,
                              line.bulk.first_cell));
  ready_ = line.bulk.ready;
  stored_ = false;
  land(sink.on_begin(source_, header_));
  stage_ = Stage::bulk;
  begin_grant(line.flags() & flag_asks);
  return continue_bulk(sink);
}

// What of the landing lies in the pool is granted to the sender, part by part: this end drops its
// copies of the lines, and those that its user has stored to with them, before the sender stores
// there; and again when it has, for some may have been fetched meanwhile.

/// A sender that did not ask is writing its first cells by now.
void RxChannel::begin_grant(bool asked) {
  end_grant();
  std::optional<std::uint64_t> offset;
  if (direct_ && !near_ && header_.bytes >= context_.settings.stored_min_bytes)
    offset = context_.place_of(direct_, header_.bytes);
  if (offset && *offset % coherence::line_bytes == 0) {
    grant_.message = nonce_ + tail_;
    grant_.offset = *offset;
    grant_end_ = header_.bytes / coherence::line_bytes * coherence::line_bytes;
    grant_.from = grant_.until = asked ? 0 : std::min(cells_before_grant * cell_bytes_, grant_end_);
    if (!asked && grant_.until == grant_end_) return end_grant();  // it ends with those cells
    const std::uint64_t cleared = std::min(landing_.cleared, grant_end_);
    if (cleared > grant_.until) {
      grant_.until = cleared / coherence::line_bytes * coherence::line_bytes;
      return_credits();
    }
  } else if (asked) {
    grant_.message = nonce_ + tail_;  // refused
    return_credits();
  }
}

/// Not far ahead of the sender: what it has stored is taken meanwhile.
bool RxChannel::may_extend_grant() const {
  return grant_.until < grant_end_ && grant_.until < got_ + cells_granted_ahead * cell_bytes_;
}

void RxChannel::extend_grant() {
  const std::uint64_t cells = grant_.until == grant_.from ? first_granted_cells : granted_cells;
  const std::uint64_t end = std::min(grant_.until + cells * cell_bytes_, grant_end_);
  memory_.invalidate(context_.pool.base() + grant_.offset + grant_.until, end - grant_.until);
  memory_.settle();  // nothing dirty is left that could be written back over what the sender stores
  grant_.until = end;
  return_credits();
}

void RxChannel::end_grant() {
  grant_ = {};
  grant_end_ = 0;
}

void RxChannel::withdraw_grant() {
  end_grant();
  return_credits();
}

bool RxChannel::take_stored(std::uint32_t count) {
  const std::uint64_t bytes =
      std::min<std::uint64_t>(std::uint64_t{count} * cell_bytes_, header_.bytes - got_);
  if (got_ < grant_.from || got_ + bytes > grant_.until)
    return broken(
        fmt::format("endpoint {} claims to have stored bytes {} to {} of a message; "
                    "granted were {} to {}",
                    source_, got_, got_ + bytes, grant_.from, grant_.until));
  memory_.invalidate(context_.pool.base() + grant_.offset + got_, bytes);
  memory_.settle();
  got_ += bytes;
  cell_ += count;
  context_.took(bytes);
  return true;
}

/// Cells from cell_ on that are complete, as far as one line of flags tells.
std::uint32_t RxChannel::ready_cells() {
  const std::uint64_t slot = cell_ % cell_count_;
  const std::byte* at = flags_ + 64 * (slot / 8);
  std::uint64_t words[8];
  memory_.load_line(words, at);
  const std::uint64_t in_line = std::min<std::uint64_t>(8, cell_count_ - slot / 8 * 8);
  std::uint32_t ready = 0;
  broken_off_ = words[slot % 8] == broken_off(nonce_ + cell_);
  if (broken_off_) return 0;
  stored_ = (words[slot % 8] & flag_stored) != 0;
  const std::uint64_t first = (nonce_ + cell_) | (stored_ ? flag_stored : 0);
  while (slot % 8 + ready < in_line && words[slot % 8 + ready] == first + ready) ++ready;
  return ready;
}

void RxChannel::deliver(const std::byte* from, std::uint64_t bytes) {
  if (direct_) {
    memory_.load_bulk(direct_ + got_, from, bytes);
  } else {
    iov_visit(landing_.iov, landing_.iov_count, got_, bytes,
              [&](std::byte* to, std::uint64_t n, std::uint64_t done) {
                memory_.load_bulk(to, from + done, n);
              });
  }
  got_ += bytes;
  context_.took(bytes);
}

void RxChannel::take_cells(std::uint32_t count) {
  if (memory_.loads_may_be_stale()) {
    std::uint64_t rest = header_.bytes - got_;
    for (std::uint32_t i = 0; i < count; ++i) {
      const std::uint64_t bytes = std::min<std::uint64_t>(cell_bytes_, rest);
      memory_.invalidate(cells_ + (cell_ + i) % cell_count_ * cell_bytes_, bytes);
      rest -= bytes;
    }
  }
  memory_.settle();  // in every mode: the flags were read before the cells are
  for (std::uint32_t i = 0; i < count; ++i, ++cell_)
    deliver(cells_ + cell_ % cell_count_ * cell_bytes_,
            std::min<std::uint64_t>(cell_bytes_, header_.bytes - got_));
}

bool RxChannel::continue_bulk(Sink& sink) {
  const std::uint32_t batch = std::max(1u, context_.settings.batch_bytes / cell_bytes_);
  while (got_ < header_.bytes) {
    if (!context_.may_go_on()) return false;
    if (may_extend_grant()) extend_grant();
    if (ready_ == 0) ready_ = ready_cells();
    if (broken_off_) return end_for_good(sink);
    if (ready_ == 0) return in_vain();
    const std::uint64_t left = (header_.bytes - got_ + cell_bytes_ - 1) / cell_bytes_;
    const auto take = static_cast<std::uint32_t>(std::min<std::uint64_t>({ready_, left, batch}));
    if (!stored_)
      take_cells(take);
    else if (!take_stored(take))
      return false;
    ready_ -= take;
    if (got_ == header_.bytes) break;
    const bool owes = cell_ - credited_cells_ >= std::max(1u, cell_count_ / 4);
    if (owes) publish_credits();
    // the line of flags that was loaded may have moved on meanwhile
    if (ready_ == 0) memory_.invalidate(flags_ + 64 * (cell_ % cell_count_ / 8), 64);
    owes ? memory_.full_order() : memory_.settle();  // one fence for both
  }
  ready_ = 0;
  stored_ = false;
  end_grant();
  ++tail_;  // only now: so that consumed lines mean consumed messages
  return_credits();
  acknowledge_ = false;
  finish(sink);
  return true;
}

// ---- placed -------------------------------------------------------------------------------------

bool RxChannel::begin_placed(Sink& sink, const MessageLine& line) {
  const std::uint64_t piece_bytes = line.placed.piece_bytes;
  placed_ =
      header_.bytes == 0
          ? nullptr
          : static_cast<const std::byte*>(context_.pool.at(line.placed.offset, header_.bytes));
  if (!placed_ || piece_bytes == 0 ||
      pieces_of(header_.bytes, piece_bytes) > std::min(max_placed_pieces, ring_mask_ + 1))
    return broken(fmt::format("endpoint {} claims {} bytes in pieces of {} at {}", source_,
                              header_.bytes, piece_bytes, line.placed.offset));
  placed_line_ = line;
  pieces_ = 1;
  land(sink.on_begin(source_, header_));
  stage_ = Stage::placed;
  return continue_placed(sink);
}

/// Bytes of the message that are at the device.
std::uint64_t RxChannel::placed_ready() {
  const std::uint64_t piece_bytes = placed_line_.placed.piece_bytes;
  const std::uint64_t pieces = pieces_of(header_.bytes, piece_bytes);
  while (pieces_ < pieces) {
    const std::uint64_t number = tail_ + pieces_;
    if (number >= fresh_until_ && memory_.loads_may_be_stale()) break;
    // pairs with the order in TxChannel::start_placed
    if (memory_.load_word(line_at(number) + offsetof(MessageLine, seal)) != nonce_ + number) break;
    ++pieces_;
  }
  return pieces_ == pieces ? header_.bytes : pieces_ * piece_bytes;
}

/// What was copied was what the sender had placed there: its user stores there again only when the
/// line says that the message was withdrawn.
bool RxChannel::still_placed() const {
  MessageLine now;
  // Settles in every mode: the payload was loaded before. Pairs with TxChannel::withdraw_placed.
  memory_.observe_line(&now, line_at(tail_));
  return std::memcmp(&now, &placed_line_, sizeof now) == 0;
}

/// One batch of it; true when anything was done.
bool RxChannel::continue_placed(Sink& sink) {
  const std::uint64_t ready = placed_ready();
  const std::uint64_t bytes = std::min<std::uint64_t>(ready - got_, context_.settings.batch_bytes);
  if (bytes != 0) {
    memory_.invalidate(placed_ + got_, bytes);
    memory_.settle();  // in every mode: the line was read before the payload is
    deliver(placed_ + got_, bytes);
  } else if (got_ < header_.bytes) {
    return in_vain();
  }
  if (got_ < header_.bytes) return true;
  if (!still_placed()) return end_for_good(sink);
  tail_ += pieces_;
  finish(sink);
  return true;
}

}  // namespace penstock::transport

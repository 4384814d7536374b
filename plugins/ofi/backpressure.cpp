#include "backpressure.hpp"

#include <rdma/fi_errno.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <utility>

#include "base/clock.hpp"
#include "base/cpus.hpp"
#include "base/env.hpp"
#include "base/format.hpp"
#include "base/log.hpp"
#include "base/wait.hpp"
#include "ep.hpp"
#include "lib.hpp"

namespace penstock::ofi {

namespace {

constexpr const char* variable = "PENSTOCK_UNEXPECTED_BYTES";
constexpr std::uint64_t least_limit = 64 << 10, least_default = 64 << 20;
/// Messages of more than this part of the limit are always announced.
constexpr std::uint64_t announced_part = 16;
constexpr std::uint64_t longest_unheard = 1 << 20;
/// A sender whose copies are at the limit, and of which nothing is fetched for so long, may take as
/// much again, up to this many times.
constexpr std::uint64_t patience_ns = 200'000'000, longest = 4;
constexpr std::uint64_t complain_after_ns = 5'000'000'000, complain_every_ns = 60'000'000'000;
constexpr std::uint64_t room_part = 2;  ///< senders go on below this part of the limit

/// A rank's part of an eighth of the host's memory, when every core has a rank.
std::uint64_t default_limit() {
  const auto pages = static_cast<std::uint64_t>(std::max(::sysconf(_SC_PHYS_PAGES), 0l));
  const auto page = static_cast<std::uint64_t>(std::max(::sysconf(_SC_PAGESIZE), 1l));
  return std::max(pages * page / 8 / base::shared_cpus(), least_default);
}

bool is_plain(const transport::SendOp& op) {
  return (op.header.kind & (kind_tagged | kind_service | kind_announced)) == kind_tagged;
}

}  // namespace

Result<void> Backpressure::set_up() {
  limit_ = default_limit();
  if (base::env_is_set(variable)) limit_ = PENSTOCK_TRY(base::env_number(variable));
  if (limit_ < least_limit)
    return penstock::fail(ErrorCode::invalid_argument, "{}={}: at least {} is needed", variable,
                          limit_, least_limit);
  announced_from_ = limit_ / announced_part;
  hears_every_ = std::min(limit_ / 4, longest_unheard);
  allowed_ = limit_;
  ep_.matcher.set_limit(limit_);
  return {};
}

Backpressure::To& Backpressure::to(Peer peer) {
  if (to_.size() <= peer) to_.resize(peer + 1);
  return to_[peer];
}
Backpressure::From& Backpressure::from(Peer peer) {
  if (from_.size() <= peer) from_.resize(peer + 1);
  return from_[peer];
}

// ---- the sender ---------------------------------------------------------------------------------

bool Backpressure::must_announce(Peer to, const Header& header) const {
  if ((header.kind & kind_tagged) == 0 || to == ep_.transport->address().slot) return false;
  return header.bytes > announced_from_ || (to < to_.size() && to_[to].held);
}

void Backpressure::add(AnnouncedSend* op) {
  op->message = op->header;
  std::copy_n(op->iov, op->iov_count, op->pieces);
  op->piece_count = op->iov_count;
  op->delivered = op->notify_delivered;
  op->stage = AnnouncedSend::Stage::waiting;
  to(op->peer).waiting.push_back(op);
  advance(op->peer);
}

/// Announces what may be announced.
void Backpressure::advance(Peer peer) {
  To& state = to(peer);
  while (!state.waiting.empty() && (!state.held || state.outstanding < state.window)) {
    ++state.outstanding;
    announce(state.waiting.pop_front());
  }
}

void Backpressure::announce(AnnouncedSend* op) {
  if (free_.empty()) {
    free_.push_back(static_cast<std::uint32_t>(sent_.size()));
    sent_.push_back(nullptr);
  }
  const std::uint32_t slot = free_.back();
  free_.pop_back();
  sent_[slot] = op;
  op->announcement = {++uses_ << 32 | slot, op->message.bytes};
  op->token = 0;
  op->iov[0] = {&op->announcement, sizeof op->announcement};
  op->iov_count = 1;
  op->notify_delivered = false;
  const auto kind = static_cast<std::uint8_t>(op->message.kind | kind_announced);
  send(op, AnnouncedSend::Stage::announcing,
       {op->message.tag, op->message.data, sizeof op->announcement, kind});
}

/// Hands it to the transport as something new.
void Backpressure::send(AnnouncedSend* op, AnnouncedSend::Stage stage, const Header& header) {
  op->stage = stage;
  op->header = header;
  op->sent_bytes = op->position = 0;
  op->get_lines = 0;
  auto sent_now = ep_.transport->send(op->peer, op);
  if (!sent_now)
    ep_.on_send_failed(op, sent_now.error());
  else if (*sent_now)
    ep_.on_sent(op);
}

/// Announced under this id to this peer.
AnnouncedSend* Backpressure::find(Peer peer, std::uint64_t id) const {
  const auto slot = static_cast<std::uint32_t>(id);
  AnnouncedSend* const op = slot < sent_.size() ? sent_[slot] : nullptr;
  if (op == nullptr || op->announcement.id != id || op->peer != peer) return nullptr;
  return op;
}

/// It is no longer announced.
void Backpressure::take(AnnouncedSend* op) {
  const auto slot = static_cast<std::uint32_t>(op->announcement.id);
  sent_[slot] = nullptr;
  free_.push_back(slot);
  --to(op->peer).outstanding;
  ++fetches_;
}

void Backpressure::send_plain(AnnouncedSend* op) {
  std::copy_n(op->pieces, op->piece_count, op->iov);
  op->iov_count = op->piece_count;
  op->notify_delivered = op->delivered;
  send(op, AnnouncedSend::Stage::plain, op->message);
}

void Backpressure::send_payload(AnnouncedSend* op, std::uint64_t token) {
  take(op);
  std::copy_n(op->pieces, op->piece_count, op->iov);
  op->iov_count = op->piece_count;
  op->notify_delivered = op->delivered;
  send(op, AnnouncedSend::Stage::payload,
       {token, op->announcement.id, op->message.bytes, kind_of(Service::payload)});
}

void Backpressure::unsent(AnnouncedSend* op) {
  take(op);
}

void Backpressure::sent(AnnouncedSend* op) {
  op->stage = AnnouncedSend::Stage::announced;
  if (op->token == 0) return;
  const Peer peer = op->peer;
  send_payload(op, op->token);
  advance(peer);
}

void Backpressure::call(Peer from, const Header& header, const void* payload) {
  switch (static_cast<HoldCall>(header.data)) {
    case HoldCall::announce:
      return be_held(from, header.tag);
    case HoldCall::go_on:
      return be_let_go(from);
    case HoldCall::fetch: {
      AnnouncedSend* const op = find(from, header.tag);
      std::uint64_t token = 0;
      if (op == nullptr || header.bytes != sizeof token) return;
      std::memcpy(&token, payload, sizeof token);
      op->token = token;
      if (op->stage == AnnouncedSend::Stage::announced) send_payload(op, token);
      return advance(from);
    }
    case HoldCall::forget: {
      AnnouncedSend* const op = find(from, header.tag);
      if (op == nullptr || op->stage != AnnouncedSend::Stage::announced) return;
      take(op);
      ep_.end_send(op);
      return advance(from);
    }
  }
}

/// What the transport has not begun to send is taken back: it would only fill the receiver's
/// memory.
void Backpressure::be_held(Peer by, std::uint64_t window) {
  To& state = to(by);
  state.window = std::max<std::uint64_t>(window, 1);
  if (!state.held) {
    state.held = true;
    ++held_;
    transport::SendOp* op = ep_.transport->take_back(by, is_plain);
    while (op != nullptr) {
      transport::SendOp* const next = op->next;
      auto* const send = static_cast<AnnouncedSend*>(op);
      send->message = send->header;
      std::copy_n(send->iov, send->iov_count, send->pieces);
      send->piece_count = send->iov_count;
      send->delivered = send->notify_delivered;
      send->stage = AnnouncedSend::Stage::waiting;
      state.waiting.push_back(send);
      op = next;
    }
  }
  advance(by);
}

void Backpressure::be_let_go(Peer by) {
  To& state = to(by);
  if (!state.held) return;
  state.held = false;
  --held_;
  while (AnnouncedSend* const op = state.waiting.pop_front())
    op->message.bytes > announced_from_ ? (++state.outstanding, announce(op)) : send_plain(op);
}

/// Waits until something is fetched. After some time in vain it takes more, for the receiver may
/// wait for what the caller does next; at once where this rank holds others itself: so ranks that
/// all send before they receive go on.
int Backpressure::may_copy(Peer peer, std::uint64_t bytes) {
  if (copied_ < limit_ / room_part) allowed_ = limit_;
  if (copied_ + bytes <= allowed_) return 0;
  const std::uint64_t now = base::now_ns();
  if (copied_ < stuck_at_ || fetches_then_ != fetches_ || stuck_since_ns_ == 0) {
    stuck_since_ns_ = now;
    fetches_then_ = fetches_;
  }
  stuck_at_ = copied_;
  if (allowed_ >= longest * limit_) return complain(peer, now);
  if (holding_ == 0 && now - stuck_since_ns_ < patience_ns) return -FI_EAGAIN;
  allowed_ += limit_;
  stuck_since_ns_ = now;
  return copied_ + bytes <= allowed_ ? 0 : -FI_EAGAIN;
}

/// Without others that wait for this rank it waits on: the receiver may be slow.
int Backpressure::complain(Peer to, std::uint64_t now) {
  const std::uint64_t waited_ns = now - stuck_since_ns_;
  const bool ends = holding_ != 0 && waited_ns > base::default_timeout_ns();
  if (!ends && (waited_ns < complain_after_ns || now < next_complaint_ns_)) return -FI_EAGAIN;
  next_complaint_ns_ = now + complain_every_ns;
  base::log(
      ends ? base::Level::error : base::Level::warn,
      "sends to {} {}: it has as many messages as it may keep that it has not received, and "
      "{} bytes that were sent are copied here; a larger {} (now {}) on all ranks allows more",
      ep_.transport->describe(to), ends ? "fail, for others wait for this rank too" : "wait",
      copied_, variable, limit_);
  return ends ? -FI_ENOBUFS : -FI_EAGAIN;
}

/// What has no copy is left: its user closes the endpoint before the send has ended.
void Backpressure::let_copies_go() {
  for (To& state : to_) {
    List<AnnouncedSend> waiting;
    std::swap(waiting, state.waiting);
    while (AnnouncedSend* const op = waiting.pop_front())
      if (ep_.is_copy(op)) send_plain(op);
  }
  for (std::size_t slot = 0; slot < sent_.size(); ++slot) {
    AnnouncedSend* const op = sent_[slot];
    if (op != nullptr && op->stage == AnnouncedSend::Stage::announced && ep_.is_copy(op))
      send_payload(op, 0);
  }
}

// ---- the receiver -------------------------------------------------------------------------------

void Backpressure::tell(Peer peer, HoldCall call, std::uint64_t word, std::uint64_t token) {
  const Header header{word, static_cast<std::uint64_t>(call), 0, kind_of(Service::hold)};
  Answers::Answer* const answer =
      ep_.answers.make(header, &token, call == HoldCall::fetch ? sizeof token : 0);
  if (answer != nullptr) return ep_.answers.post(peer, answer);
  base::log(base::Level::error, "no memory to tell {} what to do with its messages",
            ep_.transport->describe(peer));
}

void Backpressure::too_many(Peer peer) {
  if (peer == ep_.transport->address().slot || from(peer).held) return;
  From& state = from(peer);
  state.held = true;
  state.window = state.announced + first_window;
  ++holding_;
  ++holds_;
  ep_.matcher.set_room(limit_ / room_part);
  tell(peer, HoldCall::announce, state.window);
}

void Backpressure::room() {
  for (std::size_t peer = 0; peer < from_.size(); ++peer) {
    if (!from_[peer].held) continue;
    from_[peer].held = false;
    tell(static_cast<Peer>(peer), HoldCall::go_on, 0);
  }
  holding_ = 0;
}

void Backpressure::announced(Peer peer, bool awaited) {
  From& state = from(peer);
  ++state.announced;
  if (!awaited && state.held && state.announced >= state.window && ep_.matcher.awaits(peer))
    extend(peer);
}

void Backpressure::fetched(Peer peer) {
  From& state = from(peer);
  if (state.announced > 0) --state.announced;
}

int Backpressure::look_further(Peer source) {
  const std::size_t first = source == any_peer ? 0 : source;
  const std::size_t end = source == any_peer ? from_.size() : std::min(first + 1, from_.size());
  int too_much = 0;
  for (std::size_t peer = first; peer < end; ++peer)
    if (from_[peer].held && from_[peer].announced >= from_[peer].window)
      too_much = std::max(too_much, extend(static_cast<Peer>(peer)));
  return too_much;
}

/// The message that is wanted may stand behind all that the peer has announced.
int Backpressure::extend(Peer peer) {
  From& state = from(peer);
  const Unexpected& had = ep_.matcher.unexpected();
  if (had.announced * Matcher::announced_bytes() <= limit_) {
    state.window = 2 * std::max(state.window, state.announced);
    state.told = false;
    tell(peer, HoldCall::announce, state.window);
    return 0;
  }
  const std::string words = fmt::format(
      "{} has sent {} messages that were not received, before one that is waited for: with {} "
      "messages of {} bytes kept, and {} announced of {} bytes each, that is more than {}={} "
      "allows; receive them first, or set it higher",
      ep_.transport->describe(peer), state.announced, had.messages, had.bytes, had.announced,
      Matcher::announced_bytes(), variable, limit_);
  if (!std::exchange(state.told, true)) base::log(base::Level::error, "{}", words);
  const int detail = remember_text(words);
  ep_.matcher.fail_awaiting(peer, FI_ENOBUFS, detail);
  return detail;
}

// ---- both ---------------------------------------------------------------------------------------

void Backpressure::gone(Peer peer, int error, int detail) {
  if (peer < from_.size()) {
    if (from_[peer].held) --holding_;
    from_[peer] = {};
  }
  if (peer >= to_.size()) return;
  if (to_[peer].held) --held_;
  List<AnnouncedSend> ended;
  std::swap(ended, to_[peer].waiting);
  to_[peer] = {};
  for (std::size_t slot = 0; slot < sent_.size(); ++slot) {
    AnnouncedSend* const op = sent_[slot];
    if (op == nullptr || op->peer != peer) continue;
    sent_[slot] = nullptr;
    free_.push_back(static_cast<std::uint32_t>(slot));
    ended.push_back(op);
  }
  while (AnnouncedSend* const op = ended.pop_front()) ep_.fail_announced(op, error, detail);
}

void Backpressure::print() const {
  const Unexpected& had = ep_.matcher.unexpected();
  if (had.peak_bytes + had.peak_announced == 0) return;
  base::log(base::Level::info,
            "unexpected messages: at most {} bytes kept and {} announced, limit {}; {} times a "
            "sender was held back",
            had.peak_bytes, had.peak_announced, limit_, holds_);
}

}  // namespace penstock::ofi

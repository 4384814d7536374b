#include "messages/backpressure.hpp"

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
#include "messages/queues.hpp"

namespace penstock::messages {

namespace {

constexpr const char* variable = "PENSTOCK_UNEXPECTED_BYTES";
constexpr std::uint64_t least_default = 64 << 20;
/// Messages longer than this part of the limit are always announced.
constexpr std::uint64_t announced_part = 16;
constexpr std::uint64_t max_unpolled_bytes = 1 << 20;
/// If a sender's copies are at the limit and none is fetched for this long, it may copy as much
/// again, as often as Copies allows.
constexpr std::uint64_t patience_ns = 200'000'000;
constexpr std::uint64_t complain_after_ns = 5'000'000'000, complain_every_ns = 60'000'000'000;
constexpr std::uint64_t room_part = 2;  ///< senders resume below this part of the limit

/// A rank's part of an eighth of the host's memory, if every core has a rank.
std::uint64_t default_limit() {
  const auto pages = static_cast<std::uint64_t>(std::max(::sysconf(_SC_PHYS_PAGES), 0l));
  const auto page = static_cast<std::uint64_t>(std::max(::sysconf(_SC_PAGESIZE), 1l));
  return std::max(pages * page / 8 / base::shared_cpus(), least_default);
}

bool is_of_user(const transport::SendOp& op) {
  return (op.header.kind & (kind_tagged | kind_service)) == kind_tagged;
}

}  // namespace

Result<void> Backpressure::set_up(transport::Endpoint& transport, std::uint64_t announced_from) {
  limit_ = default_limit();
  if (base::env_is_set(variable)) limit_ = PENSTOCK_TRY(base::env_number(variable));
  announced_from_ = std::min(limit_ / announced_part, announced_from);
  poll_interval_bytes_ = std::min(limit_ / 4, max_unpolled_bytes);
  copies_.set_limit(limit_);
  transport_ = &transport;
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
  if ((header.kind & kind_tagged) == 0 || to == transport_->address().slot) return false;
  return header.bytes > announced_from_ || (to < to_.size() && to_[to].held);
}

void Backpressure::add(AnnouncedSend* op) {
  keep_message(op);
  to(op->peer).waiting.push_back(op);
  advance(op->peer);
}

void Backpressure::keep_message(AnnouncedSend* op) {
  op->message = op->header;
  std::copy_n(op->iov, op->iov_count, op->pieces);
  op->piece_count = op->iov_count;
  op->delivered = op->notify_delivered;
  op->stage = AnnouncedSend::Stage::waiting;
}

bool Backpressure::cancel(AnnouncedSend* op) {
  switch (op->stage) {
    case AnnouncedSend::Stage::waiting:
      to(op->peer).waiting.remove(op);
      return true;
    case AnnouncedSend::Stage::announcing:
      if (!transport_->cancel(op->peer, op)) return false;
      unsent(op);
      advance(op->peer);
      return true;
    case AnnouncedSend::Stage::plain:
      return transport_->cancel(op->peer, op);
    case AnnouncedSend::Stage::announced:
    case AnnouncedSend::Stage::payload:  // a receive waits for it
      return false;
  }
  return false;
}

/// Announces as many messages as the window allows.
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

/// Hands the operation to the transport as a new message.
void Backpressure::send(AnnouncedSend* op, AnnouncedSend::Stage stage, const Header& header) {
  op->stage = stage;
  op->header = header;
  op->sent_bytes = op->position = 0;
  op->get_lines = 0;
  auto sent_now = transport_->send(op->peer, op);
  if (!sent_now)
    owner_.on_send_failed(op, sent_now.error());
  else if (*sent_now)
    owner_.on_sent(op);
}

/// Finds the message that was announced to this peer under this id.
AnnouncedSend* Backpressure::find(Peer peer, std::uint64_t id) const {
  const auto slot = static_cast<std::uint32_t>(id);
  AnnouncedSend* const op = slot < sent_.size() ? sent_[slot] : nullptr;
  if (op == nullptr || op->announcement.id != id || op->peer != peer) return nullptr;
  return op;
}

/// The message no longer counts as announced.
void Backpressure::take(AnnouncedSend* op) {
  const auto slot = static_cast<std::uint32_t>(op->announcement.id);
  sent_[slot] = nullptr;
  free_.push_back(slot);
  --to(op->peer).outstanding;
}

void Backpressure::send_pieces(AnnouncedSend* op, AnnouncedSend::Stage stage,
                               const Header& header) {
  std::copy_n(op->pieces, op->piece_count, op->iov);
  op->iov_count = op->piece_count;
  op->notify_delivered = op->delivered;
  send(op, stage, header);
}

void Backpressure::send_payload(AnnouncedSend* op, std::uint64_t token) {
  take(op);
  copies_.note_fetch();
  send_pieces(op, AnnouncedSend::Stage::payload,
              {token, op->announcement.id, op->message.bytes, kind_payload});
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
      return resume(from);
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
      copies_.note_fetch();
      owner_.end_send(op);
      return advance(from);
    }
  }
}

void Backpressure::be_held(Peer by, std::uint64_t window) {
  To& state = to(by);
  state.window = std::max<std::uint64_t>(window, 1);
  if (!state.held) {
    state.held = true;
    ++held_;
    take_back(by);
  }
  advance(by);
}

/// Takes back messages that the transport has not begun to send: they would only fill the
/// receiver's memory. Also takes back announcements of long messages, which would overtake earlier
/// ones.
void Backpressure::take_back(Peer from) {
  transport::SendOp* op = transport_->take_back(from, is_of_user);
  while (op != nullptr) {
    transport::SendOp* const next = op->next;
    auto* const send = static_cast<AnnouncedSend*>(op);
    if (send->stage == AnnouncedSend::Stage::announcing) {
      take(send);
      send->stage = AnnouncedSend::Stage::waiting;
    } else {
      keep_message(send);
    }
    to(from).waiting.push_back(send);
    op = next;
  }
}

void Backpressure::resume(Peer by) {
  To& state = to(by);
  if (!state.held) return;
  state.held = false;
  --held_;
  Sends waiting;
  std::swap(waiting, state.waiting);
  while (AnnouncedSend* const op = waiting.pop_front()) {
    if (op->message.bytes <= announced_from_) {
      send_pieces(op, AnnouncedSend::Stage::plain, op->message);
      continue;
    }
    ++to(by).outstanding;
    announce(op);
  }
}

/// Waits until something is fetched. After some time in vain it allows more, because the receiver
/// may wait for what the caller does next; at once if this rank holds senders back itself: so ranks
/// that all send before they receive make progress.
Backpressure::Room Backpressure::may_copy(Peer peer, std::uint64_t bytes) {
  if (copies_.has_room(bytes)) return Room::yes;
  const std::uint64_t now = base::now_ns();
  const std::uint64_t stuck_ns = copies_.stuck_ns(now);
  if (!copies_.may_extend()) return complain(peer, now, stuck_ns);
  if (holding_ == 0 && stuck_ns < patience_ns) return Room::wait;
  return copies_.extend(bytes, now) ? Room::yes : Room::wait;
}

/// While no other rank waits for this one, the wait goes on: the receiver may be slow.
Backpressure::Room Backpressure::complain(Peer to, std::uint64_t now, std::uint64_t waited_ns) {
  const bool ends = holding_ != 0 && waited_ns > base::default_timeout_ns();
  if (!ends && (waited_ns < complain_after_ns || now < next_complaint_ns_)) return Room::wait;
  next_complaint_ns_ = now + complain_every_ns;
  base::log(
      ends ? base::Level::error : base::Level::warn,
      "sends to {} {}: {} bytes that were sent and not taken yet are copied here; a larger {} (now "
      "{}) on all ranks allows more",
      transport_->describe(to), ends ? "fail, for others wait for this rank too" : "wait",
      copies_.bytes(), variable, limit_);
  return ends ? Room::never : Room::wait;
}

/// Sends without a copy are left alone: their user closes the endpoint before they have ended.
void Backpressure::send_copies_now() {
  for (To& state : to_) {
    Sends waiting;
    std::swap(waiting, state.waiting);
    while (AnnouncedSend* const op = waiting.pop_front())
      if (op->copy) send_pieces(op, AnnouncedSend::Stage::plain, op->message);
  }
  for (std::size_t slot = 0; slot < sent_.size(); ++slot) {
    AnnouncedSend* const op = sent_[slot];
    if (op != nullptr && op->stage == AnnouncedSend::Stage::announced && op->copy)
      send_payload(op, 0);
  }
}

// ---- the receiver -------------------------------------------------------------------------------

/// It overtakes what this rank has queued: if two ranks flood each other, neither waits until the
/// other has taken all of that.
void Backpressure::notify(Peer peer, HoldCall call, std::uint64_t word,
                          const std::uint64_t* token) {
  const std::uint64_t bytes = token != nullptr ? sizeof *token : 0;
  owner_.post_call(peer, {word, static_cast<std::uint64_t>(call), bytes, kind_hold}, token);
}

void Backpressure::too_many(Peer peer) {
  if (peer == transport_->address().slot || from(peer).held) return;
  From& state = from(peer);
  state.held = true;
  state.window = state.announced + first_window;
  ++holding_;
  ++holds_;
  owner_.set_room(limit_ / room_part);
  notify(peer, HoldCall::announce, state.window);
}

void Backpressure::room() {
  for (std::size_t peer = 0; peer < from_.size(); ++peer) {
    if (!from_[peer].held) continue;
    from_[peer].held = false;
    notify(static_cast<Peer>(peer), HoldCall::go_on, 0);
  }
  holding_ = 0;
}

void Backpressure::announced(Peer peer, bool awaited) {
  From& state = from(peer);
  ++state.announced;
  if (!awaited && state.held && state.announced >= state.window && owner_.awaits(peer))
    (void)extend(peer);
}

void Backpressure::fetch(Peer peer, std::uint64_t id, std::uint64_t token) {
  fetched(peer);
  notify(peer, HoldCall::fetch, id, &token);
}

void Backpressure::forget(Peer peer, std::uint64_t id) {
  fetched(peer);
  notify(peer, HoldCall::forget, id);
}

void Backpressure::fetched(Peer peer) {
  From& state = from(peer);
  if (state.announced > 0) --state.announced;
}

const std::string* Backpressure::look_further(Peer source) {
  const bool any = source == any_source;
  const std::size_t first = any ? 0 : source;
  const std::size_t end = any ? from_.size() : std::min(first + 1, from_.size());
  const std::string* too_much = nullptr;
  for (std::size_t peer = first; peer < end; ++peer)
    if (from_[peer].held && from_[peer].announced >= from_[peer].window)
      if (const std::string* why = extend(static_cast<Peer>(peer))) too_much = why;
  return too_much;
}

/// The wanted message may stand behind all those that the peer has announced.
const std::string* Backpressure::extend(Peer peer) {
  From& state = from(peer);
  const Unexpected& had = owner_.kept();
  if (had.announced * owner_.announced_bytes() <= limit_) {
    state.window = 2 * std::max(state.window, state.announced);
    state.reported = false;
    notify(peer, HoldCall::announce, state.window);
    return nullptr;
  }
  too_much_ = fmt::format(
      "{} has sent {} messages that were not received, before one that is waited for: with {} "
      "messages of {} bytes kept, and {} announced of {} bytes each, that is more than {}={} "
      "allows; receive them first, or set it higher",
      transport_->describe(peer), state.announced, had.messages, had.bytes, had.announced,
      owner_.announced_bytes(), variable, limit_);
  if (!std::exchange(state.reported, true)) base::log(base::Level::error, "{}", too_much_);
  owner_.fail_awaiting(peer, too_much_);
  return &too_much_;
}

// ---- both ---------------------------------------------------------------------------------------

void Backpressure::gone(Peer peer, const Error& error) {
  if (peer < from_.size()) {
    if (from_[peer].held) --holding_;
    from_[peer] = {};
  }
  if (peer >= to_.size()) return;
  if (to_[peer].held) --held_;
  Sends ended;
  std::swap(ended, to_[peer].waiting);
  to_[peer] = {};
  for (std::size_t slot = 0; slot < sent_.size(); ++slot) {
    AnnouncedSend* const op = sent_[slot];
    if (op == nullptr || op->peer != peer) continue;
    sent_[slot] = nullptr;
    free_.push_back(static_cast<std::uint32_t>(slot));
    ended.push_back(op);
  }
  while (AnnouncedSend* const op = ended.pop_front()) owner_.fail_send(op, error);
}

void Backpressure::print() const {
  const Unexpected& had = owner_.kept();
  if (had.peak_bytes + had.peak_announced == 0) return;
  base::log(base::Level::info,
            "unexpected messages: at most {} bytes kept and {} announced, limit {}; {} times a "
            "sender was held back",
            had.peak_bytes, had.peak_announced, limit_, holds_);
}

}  // namespace penstock::messages

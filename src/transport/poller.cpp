#include "transport/poller.hpp"

#include <algorithm>
#include <utility>

#include "base/clock.hpp"
#include "base/log.hpp"
#include "pool/members.hpp"

namespace penstock::transport {
namespace {

/// Polls between sweeps of the mailbox, which announces new channels, while channels are active.
/// Its lines cost more than a channel's one line, above all while senders write them.
constexpr std::uint32_t sweep_every = 16, sweep_every_in_crowd = 4;
/// Empty polls after which due credits are returned.
constexpr std::uint32_t polls_to_credit = 64;
/// Empty polls after which a channel without announced messages is no longer polled.
constexpr std::uint32_t polls_to_rest = 1u << 14;
/// With more active channels than `crowd`, a channel rests after this many empty polls: an active
/// channel costs every poll about 25 ns, and waking it costs about 300 ns.
constexpr std::size_t crowd = 8;
constexpr std::uint32_t polls_to_rest_in_crowd = 64;
/// Payload that one poll takes, give or take one piece: about 50 us.
constexpr std::int64_t bytes_a_poll = 512 << 10;
/// Without an active channel, sweeps of the mailbox become rarer: after a rest of `rest_by_delay`
/// times x, a message is found at most x later.
constexpr std::uint64_t rest_by_delay = 4096, longest_delay_ns = 10'000;
/// While nothing arrives, a part of the mailbox is swept this often even without a ring.
constexpr std::uint64_t unrung_sweep_ns = 20'000'000;
/// At the slow pace, the bell is checked this often.
constexpr std::uint64_t bell_ns = 200'000;
/// Limit of polls for the last messages of an ended peer.
constexpr int max_drain_polls = 16'000;
/// Mailbox words whose channels each audit checks.
constexpr std::uint32_t audits_a_check = 16;
/// Audits between scans for mailbox lines whose announcement was lost: about a second.
constexpr std::uint32_t audits_per_rescan = 50;

}  // namespace

Poller::Poller(const EndpointTable& table, Peers& peers, RxContext& context,
               OnNewChannel on_new_channel)
    : table_(table),
      peers_(peers),
      context_(context),
      memory_(context.memory),
      intra_node_memory_(memory_.intra_node()),
      on_new_channel_(std::move(on_new_channel)),
      mailbox_(table, memory_, context.self.slot) {
  active_.reserve(table.count());
}

unsigned Poller::poll(EndpointCallbacks& callbacks) {
  if (!is_due()) return 0;
  const std::uint64_t read = memory_.device_reads();
  const Mailbox::Part part = next_part();
  prepare(part);
  unsigned events = poll_active(callbacks);
  if (!part.empty()) events += sweep(part);
  if (events != 0 || (pace_.slow() && mailbox_.rung())) {
    speed_up();
  } else if (memory_.mode() != coherence::Mode::hardware) {
    slow_down(memory_.device_reads() - read);
  }
  return events;
}

/// A waiting process that looked all the time would load the device and slow down processes that
/// exchange messages.
bool Poller::is_due() {
  if (pace_.slow()) return pace_.due() || has_rung();
  return !active_.empty() || is_time_to_sweep();
}

/// True: a message has arrived or will at once; a sender that was silent for as long rings.
bool Poller::has_rung() {
  if (watches_bell_) return false;  // the next poll checks the bell
  const std::uint64_t now = base::now_ns();
  if (now < next_bell_ns_) return false;
  next_bell_ns_ = now + bell_ns;
  mailbox_.drop_bell();
  memory_.load_fence();
  const bool rung = mailbox_.rung();
  if (rung) speed_up();
  return rung;
}

/// Returns to the fast pace: a message has arrived or will at once.
void Poller::speed_up() {
  pace_.reset();
  watches_bell_ = false;
  quiet_since_ns_ = resting_since_ns_ = next_sweep_ns_ = 0;
}

/// Called after an empty poll. After a long wait the endpoint watches only the bell and
/// half-received messages: a sender that was silent for as long rings.
void Poller::slow_down(std::uint64_t lines_looked_at) {
  pace_.looked(lines_looked_at);
  if (!pace_.slow() || watches_bell_) return;
  const std::uint64_t now = base::now_ns();
  if (quiet_since_ns_ == 0) quiet_since_ns_ = now;
  watches_bell_ = now - quiet_since_ns_ >= rest_ns;
  if (watches_bell_) deactivate_quiet(0);
}

/// The part of the mailbox that this poll sweeps.
Mailbox::Part Poller::next_part() {
  if (watches_bell_) {
    const std::uint64_t now = base::now_ns();
    if (now < next_sweep_ns_) return {};
    next_sweep_ns_ = now + unrung_sweep_ns;
    return mailbox_.next_part();
  }
  if (active_.empty() || pace_.slow()) return mailbox_.next_part();
  const bool crowded = active_.size() > crowd;
  ++polls_;
  if (crowded && polls_ % polls_to_rest_in_crowd == 0) deactivate_quiet(polls_to_rest_in_crowd);
  const bool sweeps = polls_ % (crowded ? sweep_every_in_crowd : sweep_every) == 0;
  return sweeps ? mailbox_.next_part() : Mailbox::Part{};
}

/// True when an endpoint without active channels must sweep again.
bool Poller::is_time_to_sweep() {
  const std::uint64_t now = base::now_ns();
  if (resting_since_ns_ == 0) resting_since_ns_ = now;
  if (now < next_sweep_ns_) return false;
  next_sweep_ns_ = now + std::min((now - resting_since_ns_) / rest_by_delay, longest_delay_ns);
  return true;
}

/// Invalidates all lines that this poll reads; one load fence covers them.
void Poller::prepare(Mailbox::Part part) {
  bool dropped = !memory_.loads_may_be_stale();  // coherent: the fence is cheap
  if (memory_.loads_may_be_stale()) {
    for (const Peer source : active_) {
      RxChannel& channel = *peers_[source].rx;
      if (!channel.loads_may_be_stale()) continue;
      channel.invalidate_window();
      dropped = true;
    }
    if (!part.empty()) {
      mailbox_.drop_copies(part);
      dropped = true;
    }
    if (pace_.slow() && !part.box) {
      mailbox_.drop_bell();
      dropped = true;
    }
  }
  dropped ? memory_.load_fence() : intra_node_memory_.load_fence();
}

unsigned Poller::poll_active(EndpointCallbacks& callbacks) {
  unsigned events = 0;
  context_.bytes_left = bytes_a_poll;
  for (std::size_t polled = 0; polled < active_.size(); ++polled) {
    if (first_ >= active_.size()) first_ = 0;
    PeerState& peer = peers_[active_[first_++]];
    const std::int64_t left = context_.bytes_left;
    unsigned messages = peer.rx->poll(callbacks);
    if (messages == 0 && context_.bytes_left != left) messages = 1;  // part of a long message
    peer.empty_polls = messages != 0 ? 0 : peer.empty_polls + 1;
    events += messages;
    // the next poll begins with the channels after this one
    if (!context_.has_budget()) break;
  }
  return events;
}

unsigned Poller::sweep(Mailbox::Part part) {
  return mailbox_.sweep(part, [this](Peer source, std::uint64_t word) {
    return activate(source, word) != ActivateResult::retry;
  });
}

/// Repeats until no new lines turn up.
void Poller::sweep() {
  for (std::uint32_t known = mailbox_.lines() + 1; known != mailbox_.lines();) {
    const Mailbox::Part whole = mailbox_.whole();
    known = whole.lines;
    prepare(whole);
    (void)sweep(whole);
  }
}

// ---- channels ----------------------------------------------------------------------------------

/// nullopt: the line is torn or missing, because a process is writing it.
std::optional<bool> Poller::is_intra_node(Peer source, std::uint32_t generation) const {
  const auto line = table_.read(source);
  if (!line) return std::nullopt;
  if (line->generation != generation) return false;  // the sender has ended
  const pool::Pool& pool = context_.pool;
  if (const auto node = pool.members().node_of(line->token)) return *node == pool.node();
  return pool.alive(line->token) ? std::nullopt : std::optional(false);
}

/// `follow`: returns `retry` until the sender's previous channel is drained.
Poller::ActivateResult Poller::open(Peer source, std::uint64_t offset, bool follow) {
  auto channel =
      RxChannel::open(context_, offset, source, peers_[source].counts,
                      [&](std::uint32_t generation) { return is_intra_node(source, generation); });
  if (!channel) {
    base::log(base::Level::debug, "endpoint {}: {}", context_.self.slot, channel.error().message);
    // otherwise the word belongs to an earlier owner of the slot, or comes from a dying process
    return channel.error().code == ErrorCode::unavailable ? ActivateResult::retry
                                                          : ActivateResult::ignored;
  }
  PeerState& peer = peers_[source];
  const std::uint32_t generation = (*channel)->source_generation();
  // Ignore an ended or faulty endpoint, also on a new channel. The word may still name an earlier
  // endpoint of the slot while the receiver has not moved to its successor's channel yet.
  if (peer.gone(generation) || peer.is_after(generation)) return ActivateResult::ignored;
  if (follow && (*channel)->previous() != 0 && !previous_is_drained(**channel)) {
    if (peer.rx) wake(source);
    return ActivateResult::retry;
  }
  on_new_channel_(source, generation);
  peer.data_missing = false;
  peer.rx = std::move(*channel);
  return ActivateResult::activated;
}

/// After a move, the messages of the previous channel come first, even if it was never polled. The
/// sender keeps that channel until then.
bool Poller::previous_is_drained(const RxChannel& next) {
  const Peer source = next.source();
  const auto is_previous = [&](const RxChannel* rx) {
    return rx != nullptr && rx->offset() == next.previous() &&
           rx->source_generation() == next.source_generation();
  };
  if (next.lines_before() == 0) return true;
  if (!is_previous(peers_[source].rx.get()) &&
      open(source, next.previous(), false) != ActivateResult::activated)
    return false;  // overwritten: the sender publishes it again
  const RxChannel& previous = *peers_[source].rx;
  return previous.fault().empty() && previous.taken(next.lines_before());  // a fault is reported
}

/// Returns credits on the new channel, so the sender can free the previous one. If nothing was sent
/// there yet, the sender does not wait and may have closed: then a later check comes first.
void Poller::ack_move(Peer source) {
  RxChannel& channel = *peers_[source].rx;
  if (channel.quiet())
    moved_senders_.push_back(source);
  else
    channel.return_credits();
}

Poller::ActivateResult Poller::activate(Peer source, std::uint64_t word) {
  if (source == context_.self.slot) return ActivateResult::ignored;
  PeerState& peer = peers_[source];
  const std::uint64_t offset = MailboxWord::offset(word);
  // The nonce shows whether this offset still holds the same channel. It is loaded only if the
  // channel was at rest or the word is implausible, so not for each message.
  const bool known = peer.rx && peer.rx->offset() == offset &&
                     ((peer.active && peer.rx->plausible(word)) || peer.rx->current());
  if (known && !peer.rx->fault().empty()) return ActivateResult::ignored;
  if (!known) {
    if (const ActivateResult result = open(source, offset); result != ActivateResult::activated)
      return result;
  }
  peer.rx->announced(word);
  if (!known && peer.rx->previous() != 0) ack_move(source);
  wake(source);
  return ActivateResult::activated;
}

void Poller::look_again(Peer source) {
  const RxChannel* const rx = peers_[source].rx.get();
  const std::uint64_t word = mailbox_.seen(source);
  if (word != 0 && (rx == nullptr || rx->offset() != MailboxWord::offset(word)))
    activate(source, word);
}

/// A new sender's channel could announce itself by exactly the word that the old one left there.
/// That is very unlikely, but would lose a message for ever, so each audit checks some words.
void Poller::audit() {
  if (audits_++ % audits_per_rescan == 0) mailbox_.rescan_directory();
  const std::uint32_t words = words_a_line * mailbox_.lines();
  for (std::uint32_t i = 0; i < audits_a_check && i < words; ++i) {
    const Peer source = mailbox_.next_to_audit();
    const PeerState& peer = peers_[source];
    if (!has_announced(source) || !peer.rx || peer.active) continue;
    if (!peer.rx->current()) activate(source, mailbox_.seen(source));
  }
}

void Poller::wake(Peer source) {
  PeerState& peer = peers_[source];
  if (peer.active) return;
  peer.active = true;
  peer.empty_polls = 0;
  active_.push_back(source);
  speed_up();
}

void Poller::rest(Peer source) {
  peers_[source].active = false;
  std::erase(active_, source);
}

/// Skips channels whose faults are not reported yet.
void Poller::deactivate_quiet(std::uint32_t empty_polls) {
  for (std::size_t i = 0; i < active_.size();) {
    PeerState& peer = peers_[active_[i]];
    const bool rests = peer.rx->quiet() && peer.rx->fault().empty();
    if (!rests || peer.empty_polls < empty_polls) {
      ++i;
      continue;
    }
    if (peer.rx->credits_due()) peer.rx->return_credits();
    peer.active = false;
    active_[i] = active_.back();
    active_.pop_back();
  }
}

/// A channel with due credits is active: it rests only when everything is consumed and credited.
void Poller::return_all_credits() {
  for (const Peer source : active_)
    if (peers_[source].rx->credits_due()) peers_[source].rx->return_credits();
}

void Poller::idle(std::uint32_t polls) {
  if (polls % polls_to_credit == 0) return_all_credits();
  if (polls % polls_to_rest == 0) deactivate_quiet(polls_to_rest);
}

void Poller::drain_closed(Peer source, EndpointCallbacks& callbacks) {
  PeerState& peer = peers_[source];
  const std::uint64_t no_deferral_until_ns =
      std::exchange(context_.no_deferral_until_ns, ~std::uint64_t{0});
  for (int polls_left = max_drain_polls; polls_left > 0 && peer.active; --polls_left) {
    peer.rx->invalidate_window();
    memory_.load_fence();
    context_.bytes_left = bytes_a_poll;
    if (peer.rx->poll(callbacks) == 0 && context_.bytes_left == bytes_a_poll) break;
  }
  context_.no_deferral_until_ns = no_deferral_until_ns;
}

}  // namespace penstock::transport

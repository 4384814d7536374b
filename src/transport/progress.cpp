// Polling: mailbox sweeps, active channels, and what is looked after when nothing arrives.
#include <algorithm>
#include <cstring>
#include <utility>

#include "base/clock.hpp"
#include "base/format.hpp"
#include "base/log.hpp"
#include "transport/endpoint_impl.hpp"

namespace penstock::transport {
namespace {

/// With active channels the mailbox, where new ones announce themselves, is swept every so many
/// polls: its lines cost more than the one line of a channel, above all while they are written.
constexpr std::uint32_t sweep_every = 16, sweep_every_in_crowd = 4;
/// Mailbox lines of a sweep at least, and the fourth part of all at most: in a large job they come
/// in turn, so that an empty look costs no more for the many who are silent.
constexpr std::uint32_t lines_of_sweep = 8, parts_of_mailbox = 4;
/// Empty polls after which credits that were kept back are returned.
constexpr std::uint32_t polls_to_credit = 64;
/// Empty polls after which a channel without outstanding messages is no longer polled itself.
constexpr std::uint32_t polls_to_rest = 1u << 14;
/// Of more active channels than these, one rests that had nothing for so many polls: each costs
/// every poll some 25 ns, and to wake it again some 300.
constexpr std::size_t crowd = 8;
constexpr std::uint32_t polls_to_rest_in_crowd = 64;
/// Payload that one poll takes at most, or one piece more: some 50 us.
constexpr std::int64_t bytes_a_poll = 512 << 10;
/// Where no channel is active the mailbox is swept the less often the longer nobody has written: a
/// message after a rest of this many times x is found at most x later.
constexpr std::uint64_t rest_by_delay = 4096, longest_delay_ns = 10'000;
constexpr std::uint64_t check_every_ns = 20'000'000;
/// Polls at most that take what a peer had published before it went.
constexpr int polls_for_the_last = 16'000;
/// After so long without a message a process says what it waits for.
constexpr std::uint64_t quiet_ns = 300'000'000;
/// Checks between looks at what changes seldom: about a second.
constexpr std::uint32_t checks_to_look_around = 50;
/// Mailbox words looked at behind their value at each check.
constexpr std::uint32_t audits_a_check = 16;

}  // namespace

unsigned Endpoint::Impl::progress_rx() {
  if (active_rx.empty() && !sweep_is_due()) return 0;
  const bool crowded = active_rx.size() > crowd;
  const bool sweep =
      active_rx.empty() || ++polls % (crowded ? sweep_every_in_crowd : sweep_every) == 0;
  if (crowded && polls % polls_to_rest_in_crowd == 0) deactivate_quiet(polls_to_rest_in_crowd);
  const MailboxPart part = sweep ? next_part() : MailboxPart{};
  prepare_poll(part);
  unsigned events = poll_active();
  if (part.lines != 0) events += sweep_mailbox(part);
  return events;
}

Endpoint::Impl::MailboxPart Endpoint::Impl::next_part() {
  const std::uint32_t lines = std::max(lines_of_sweep, (mailbox_lines - 1) / parts_of_mailbox + 1);
  const std::uint32_t first = next_mailbox_line < mailbox_lines ? next_mailbox_line : 0;
  next_mailbox_line = first + lines;
  return {first, std::min(lines, mailbox_lines - first)};
}

/// Who waits would else read the device for nothing, at the cost of those who have messages there.
bool Endpoint::Impl::sweep_is_due() {
  const std::uint64_t now = base::now_ns();
  if (resting_since_ns == 0) resting_since_ns = now;
  if (now < next_sweep_ns) return false;
  next_sweep_ns = now + std::min((now - resting_since_ns) / rest_by_delay, longest_delay_ns);
  return true;
}

/// One fence for all that is about to be looked at.
void Endpoint::Impl::prepare_poll(MailboxPart part) {
  bool dropped = !memory.loads_may_be_stale();  // then nothing needs to be, and settling is cheap
  if (memory.loads_may_be_stale()) {
    for (const Peer source : active_rx) {
      RxChannel& channel = *peers[source].rx;
      if (!channel.loads_may_be_stale()) continue;
      channel.invalidate_window();
      dropped = true;
    }
    if (part.lines != 0) {
      if (part.first == 0) memory.invalidate(table.high_water_line(), line_bytes);
      memory.invalidate(table.mailbox_line(self.slot, part.first), line_bytes * part.lines);
      dropped = true;
    }
  }
  dropped ? memory.load_fence() : intra_node_memory.load_fence();
}

unsigned Endpoint::Impl::poll_active() {
  unsigned events = 0;
  rx_context.bytes_left = bytes_a_poll;
  for (std::size_t polled = 0; polled < active_rx.size(); ++polled) {
    if (first_rx >= active_rx.size()) first_rx = 0;
    PeerState& peer = peers[active_rx[first_rx++]];
    const std::int64_t left = rx_context.bytes_left;
    unsigned messages = peer.rx->poll(*callbacks);
    if (messages == 0 && rx_context.bytes_left != left) messages = 1;  // a part of one
    peer.polls_in_vain = messages != 0 ? 0 : peer.polls_in_vain + 1;
    events += messages;
    // the next time those behind it have their turn first
    if (!rx_context.may_go_on()) break;
  }
  return events;
}

unsigned Endpoint::Impl::sweep_mailbox(MailboxPart part) {
  unsigned events = 0;
  // all at once, so that the lines come side by side; a torn word would only wake in vain
  const std::uint64_t first = std::uint64_t{words_a_line} * part.first,
                      words = std::uint64_t{words_a_line} * part.lines;
  memory.load_bulk(&mailbox[first], table.mailbox_line(self.slot, part.first), 8 * words);
  const bool news = std::memcmp(&mailbox[first], &seen[first], 8 * words) != 0;
  for (std::uint64_t source = first; news && source < first + words; ++source) {
    if (mailbox[source] == seen[source]) continue;
    if (activate(static_cast<Peer>(source), mailbox[source]) == Heard::again) continue;
    seen[source] = mailbox[source];
    ++events;
  }
  if (part.first != 0) return events;
  HighWater high_water;
  memory.load_line(&high_water, table.high_water_line());
  mailbox_lines = std::max(1u, table.mailbox_lines(high_water));  // newcomers: from now on
  return events;
}

/// A line that is torn or missing is no answer: somebody is writing it.
std::optional<bool> Endpoint::Impl::is_intra_node(Peer source, std::uint32_t generation) const {
  const auto line = table.read(source);
  if (!line) return std::nullopt;
  if (line->generation != generation) return false;  // the sender has gone
  if (const auto node = pool.node_of(line->token)) return *node == pool.node();
  return pool.alive(line->token) ? std::nullopt : std::optional(false);
}

Endpoint::Impl::Heard Endpoint::Impl::open_rx(Peer source, std::uint64_t offset) {
  auto channel =
      RxChannel::open(rx_context, offset, source, peers[source].counts,
                      [&](std::uint32_t generation) { return is_intra_node(source, generation); });
  if (!channel) {
    base::log(base::Level::debug, "endpoint {}: {}", self.slot, channel.error().message);
    // else an announcement to an earlier owner of the slot, or by the dying
    return channel.error().code == ErrorCode::unavailable ? Heard::again : Heard::nothing;
  }
  PeerState& peer = peers[source];
  const std::uint32_t generation = (*channel)->source_generation();
  // of whom was said that it is gone or broken, nothing more is believed: not on a new channel
  // either
  if (peer.gone(generation)) return Heard::nothing;
  if (!watch.watched(source, generation)) {
    const auto line = table.read(source);
    if (line && line->generation == generation)
      watch_peer(source, generation, line->token);
    else if (watch.token(source) == 0)
      watch.add(source, generation, 0);  // it has gone: the watch says so
  }
  // also where the watch has ended for it: what it had announced last may be where the new owner
  // announces itself
  if (peer.rx) end_rx(source, Error{ErrorCode::peer_dead, "the sender has gone"});
  (void)counts_of(source, generation);
  peer.misses = false;
  peer.rx = std::move(*channel);
  if (!peer.resolved) peer.address = {self.pool_id, self.job, source, generation};
  return Heard::yes;
}

Endpoint::Impl::Heard Endpoint::Impl::activate(Peer source, std::uint64_t word) {
  if (source == self.slot) return Heard::nothing;
  PeerState& peer = peers[source];
  const std::uint64_t offset = MailboxWord::offset(word);
  // the nonce tells whether the same place still holds the same channel; looked at only when the
  // channel was at rest or the word is odd, so not for each message
  const bool known = peer.rx && peer.rx->offset() == offset &&
                     ((peer.active && peer.rx->plausible(word)) || peer.rx->current());
  if (known && !peer.rx->fault().empty()) return Heard::nothing;
  if (!known) {
    if (const Heard heard = open_rx(source, offset); heard != Heard::yes) return heard;
  }
  peer.rx->announced(word);
  wake(source);
  return Heard::yes;
}

void Endpoint::Impl::wake(Peer source) {
  PeerState& peer = peers[source];
  if (peer.active) return;
  peer.active = true;
  peer.polls_in_vain = 0;
  active_rx.push_back(source);
  resting_since_ns = next_sweep_ns = 0;
}

void Endpoint::Impl::deactivate_quiet(std::uint32_t polls_in_vain) {
  for (std::size_t i = 0; i < active_rx.size();) {
    PeerState& peer = peers[active_rx[i]];
    if (!peer.rx->quiet() || peer.polls_in_vain < polls_in_vain) {
      ++i;
      continue;
    }
    if (peer.rx->credits_due()) peer.rx->return_credits();
    peer.active = false;
    active_rx[i] = active_rx.back();
    active_rx.pop_back();
  }
}

/// A channel with credits due is active: it rests only when all is consumed and said so.
void Endpoint::Impl::return_all_credits() {
  for (const Peer source : active_rx)
    if (peers[source].rx->credits_due()) peers[source].rx->return_credits();
}

/// So much of an awaited buffer is made ready by one idle poll; it takes less than a microsecond.
constexpr std::uint64_t invalidated_per_poll = 16 << 10;

/// What a sender can then be cleared to send with the first line of its message
/// (RxChannel::begin_clear_to_send).
void Endpoint::Impl::invalidate(const PostedReceive& posted) {
  if (posted.invalidated == nullptr || posted.invalidated->done) return;
  InvalidatedPrefix& invalidated = *posted.invalidated;
  const auto offset =
      posted.bytes >= settings.rendezvous_put_min_bytes && memory.loads_may_be_stale()
          ? pool.mappings().attached_offset_of(posted.at, posted.bytes)
          : std::nullopt;
  const bool is_eager = offset && *offset % coherence::line_bytes == 0;
  const std::uint64_t whole = posted.bytes / coherence::line_bytes * coherence::line_bytes;
  const std::uint64_t end = std::min(invalidated.bytes + invalidated_per_poll, whole);
  invalidated.done = !is_eager || end == whole;
  if (!is_eager) return;
  // Nothing dirty stays that could be written back over what a sender stores. It takes effect by
  // the load_fence of the poll that finds the message, before it is cleared to send.
  memory.invalidate(pool.base() + *offset + invalidated.bytes, end - invalidated.bytes);
  invalidated.bytes = end;
}

void Endpoint::Impl::idle() {
  ++idle_polls;
  if (idle_polls % polls_to_credit == 0) return_all_credits();
  if (idle_polls % polls_to_rest == 0) deactivate_quiet(polls_to_rest);
}

void Endpoint::Impl::look_at_clock() {
  const std::uint64_t now = base::now_ns();
  if (now >= next_check_ns) slow_checks(now);
}

// ---- now and then ------------------------------------------------------------------------------

void Endpoint::Impl::slow_checks(std::uint64_t now) {
  next_check_ns = now + check_every_ns;
  publish_peers();
  const EndpointStats counts = all_counts();
  publish_stats(counts);  // orders the peers' too
  tell_activity(now, counts);
  if (checks++ % checks_to_look_around == 0) {
    pool.mappings().follow_attachments();  // a user's library may have attached since
    const auto policy = base::WaitPolicy::for_processes(pool.local_processes());
    looks = policy.spins > settings.warm_looks * 100 ? settings.warm_looks : 1;
  }
  return_all_credits();  // also while other senders keep this endpoint from ever being idle
  audit_mailbox();
  look_for_damage(now);
  look_for_faults();
  tell_troubles();
  watch.look(
      [&](Peer peer, std::uint32_t generation, PeerFate fate, const std::string& description) {
        peer_gone(peer, generation, fate, description);
      });
}

std::string Endpoint::Impl::waiting_text() const {
  if (tx_waiting.empty()) return "polls for messages";
  const std::string others =
      tx_waiting.size() > 1 ? fmt::format(" and to {} others", tx_waiting.size() - 1) : "";
  return fmt::format("sends to {}{}", pool.describe(watch.token(tx_waiting[0])), others);
}

/// Shows in `penstock ps` since when nothing has moved, and what the endpoint does meanwhile.
void Endpoint::Impl::tell_activity(std::uint64_t now, const EndpointStats& counts) {
  const std::uint64_t messages = counts.messages_sent + counts.messages_received;
  if (messages != moved || moved_ns == 0) {
    moved = messages;
    moved_ns = now;
  }
  const bool quiet = now - moved_ns >= quiet_ns;
  if (quiet == !activity.empty()) return;
  asks_what_is_awaited = quiet && tx_waiting.empty();
  activity = quiet ? waiting_text() : "";
  if (!quiet) return pool.publish_activity("");
  pool.publish_activity(base::since_text(activity, now - moved_ns));
}

void Endpoint::Impl::tell_awaited(const Awaited& awaited) {
  asks_what_is_awaited = false;
  if (activity.empty() || awaited.receives == 0) return;
  const std::string from =
      awaited.from_anybody ? "anybody" : pool.describe(watch.token(awaited.from));
  activity = fmt::format("receives from {}, tag {:#x}", from, awaited.tag);
  pool.publish_activity(base::since_text(activity, base::now_ns() - moved_ns));
}

/// A new channel of a new sender could announce itself by the very word that the old one left
/// there. That is as good as impossible, but a message lost for ever is no thing to be likely.
void Endpoint::Impl::audit_mailbox() {
  const std::uint32_t words = 8 * mailbox_lines;
  for (std::uint32_t i = 0; i < audits_a_check && i < words; ++i) {
    const Peer source = audited++ % words;
    PeerState& peer = peers[source];
    if (seen[source] == 0 || !peer.rx || peer.active) continue;
    if (!peer.rx->current()) activate(source, seen[source]);
  }
}

/// A sender that writes what cannot be right is as good as dead: nothing of it can be believed.
void Endpoint::Impl::look_for_faults() {
  for (std::size_t i = 0; i < active_rx.size(); ++i) {
    const Peer source = active_rx[i];
    if (!peers[source].hears() || peers[source].rx->fault().empty()) continue;
    base::log(base::Level::error, "damaged message: {}", peers[source].rx->fault());
    peer_gone(source, peers[source].rx->source_generation(), PeerFate::faulty,
              pool.describe(watch.token(source)));
  }
}

void Endpoint::Impl::rest(Peer source) {
  peers[source].active = false;
  std::erase(active_rx, source);
}

/// The slot has a new owner, who has announced itself already: its channel is not the old one's.
void Endpoint::Impl::predecessor_gone(Peer gone, std::uint32_t generation, PeerFate fate,
                                      const Error& error) {
  PeerState& peer = peers[gone];
  if (!peer.resolved || peer.address.generation != generation) return;
  if (peer.tx) peer.tx->notify_delivered(*callbacks);
  const bool unfinished = peer.tx && peer.tx->waiting();
  if (!peer.gone(generation)) peer.dead_generation = generation;
  peer.description = error.message;
  if (peer.tx) peer.tx->fail_all(*callbacks, error);
  drop_tx(gone, fate);
  if (fate == PeerFate::closed && !unfinished) return callbacks->on_peer_left(gone, error.message);
  base::log(base::Level::error, "{}", error.message);
  callbacks->on_peer_dead(gone, error.message);
}

/// Its slot may have had another owner, whose end nobody has seen yet: it is told of now.
void Endpoint::Impl::watch_peer(Peer peer, std::uint32_t generation, std::uint64_t token) {
  if (watch.watched(peer, generation)) return;
  const std::uint32_t before = watch.generation(peer);
  const bool died = watch.fate(peer) == PeerFate::dead;
  const std::string description = pool.describe(watch.token(peer));
  watch.add(peer, generation, token);
  if (before == 0) return;
  const PeerFate fate = died ? PeerFate::dead : PeerFate::closed;
  const Error error{ErrorCode::peer_dead,
                    fmt::format("{} {}", description, died ? "died" : "left")};
  if (peers[peer].rx && peers[peer].rx->source_generation() == before) end_rx(peer, error);
  predecessor_gone(peer, before, fate, error);
}

/// What its sender had published before it went is delivered; what is half received fails.
void Endpoint::Impl::end_rx(Peer source, const Error& error) {
  if (peers[source].hears()) {
    wake(source);
    take_the_last(peers[source]);
  }
  peers[source].rx->fail(error);
  rest(source);
}

/// Also what no receive waits for yet.
void Endpoint::Impl::take_the_last(PeerState& peer) {
  const std::uint64_t no_deferral_until_ns =
      std::exchange(rx_context.no_deferral_until_ns, ~std::uint64_t{0});
  for (int polls_left = polls_for_the_last; polls_left > 0 && peer.active; --polls_left) {
    peer.rx->invalidate_window();
    memory.load_fence();
    rx_context.bytes_left = bytes_a_poll;
    if (peer.rx->poll(*callbacks) == 0 && rx_context.bytes_left == bytes_a_poll) break;
  }
  rx_context.no_deferral_until_ns = no_deferral_until_ns;
}

void Endpoint::Impl::peer_gone(Peer gone, std::uint32_t generation, PeerFate fate,
                               const std::string& description) {
  PeerState& peer = peers[gone];
  // what it had published before it went is still good; its announcements first
  prepare_poll(whole_mailbox());
  sweep_mailbox(whole_mailbox());
  take_the_last(peer);
  if (peer.tx && fate != PeerFate::faulty) peer.tx->notify_delivered(*callbacks);
  const char* how = fate == PeerFate::dead     ? "died"
                    : fate == PeerFate::closed ? "left"
                                               : "is broken";
  const Error error{ErrorCode::peer_dead, fmt::format("{} {}", description, how)};
  const std::uint32_t heard = peer.rx ? peer.rx->source_generation() : generation;
  if (heard != generation && watch.watched(gone, heard))
    return predecessor_gone(gone, generation, fate, error);
  const bool unfinished = (peer.tx && peer.tx->waiting()) || (peer.rx && !peer.rx->quiet());
  const bool in_order = fate == PeerFate::closed && !unfinished;
  if (!peer.gone(generation)) peer.dead_generation = generation;
  peer.description = error.message;
  if (peer.tx) peer.tx->fail_all(*callbacks, error);
  drop_tx(gone, fate);
  if (peer.rx) {
    // one that is broken may live, and store into the user's buffer
    if (fate == PeerFate::faulty && peer.rx->cleared()) peer.rx->withdraw_clear_to_send();
    peer.rx->fail(error);
    rest(gone);
  }
  if (in_order) return callbacks->on_peer_left(gone, error.message);
  base::log(base::Level::error, "{}", error.message);
  callbacks->on_peer_dead(gone, error.message);
}

}  // namespace penstock::transport

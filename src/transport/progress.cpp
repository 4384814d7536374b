// A call of progress, and its periodic checks.
#include <pthread.h>

#include <algorithm>

#include "base/clock.hpp"
#include "base/log.hpp"
#include "device/pool_mappings.hpp"
#include "pool/members.hpp"
#include "transport/endpoint_impl.hpp"

namespace penstock::transport {
namespace {

/// Polls between looks at the clock.
constexpr std::uint32_t polls_to_clock = 512;

/// A conversation is warm for this many empty polls after its last event.
constexpr std::uint32_t warm_polls = 32;

/// No message is deferred for this long after stop_deferring(): a program that probes will probe
/// again.
constexpr std::uint64_t no_deferral_ns = 100'000'000;

constexpr std::uint64_t check_every_ns = 20'000'000;
/// Minimum pause between looks at slowly changing state, and additional pause for each line that
/// the last look read: it reads the slots of all processes, and there may be thousands.
constexpr std::uint64_t look_around_every_ns = 1'000'000'000, ns_a_line = 1'000'000;

/// Bytes of a posted buffer that one call invalidates: less than a microsecond.
constexpr std::uint64_t invalidated_per_poll = 16 << 10;

}  // namespace

unsigned Endpoint::progress() {
  impl_->tx_context.coarse_ns = impl_->pool.confirm();
  ++impl_->tx_context.polls;
  unsigned events = impl_->tx_waiting.empty() ? 0 : impl_->progress_tx();
  impl_->rx_context.deferred = false;
  events += impl_->progress_rx();
  // An answer is probably on its way, and the caller's loop (MPICH yields in it) costs more than
  // another look. A deferred message, however, waits for the caller.
  if (impl_->pace.idle_polls < warm_polls)
    for (std::uint32_t look = 1;
         events == 0 && !impl_->rx_context.deferred && look < impl_->pace.looks; ++look)
      events += impl_->progress_rx();
  if (events == 0)
    impl_->idle();
  else
    impl_->pace.idle_polls = 0;
  if (events != 0 && impl_->publisher.is_idle())
    impl_->publisher.publish_activity(base::now_ns(), impl_->tx_waiting);
  if (++impl_->pace.calls % polls_to_clock == 0) impl_->look_at_clock();
  return events;
}

void Endpoint::return_credits() {
  impl_->poller.return_all_credits();
}

void Endpoint::prepare(const PostedReceive& posted) {
  impl_->prepare(posted);
}

bool Endpoint::wants_report_of_waiting() const {
  return impl_->publisher.wants_report_of_waiting();
}

void Endpoint::report_waiting(const PendingReceives& pending) {
  impl_->publisher.report_waiting(pending);
}

void Endpoint::stop_deferring() {
  impl_->rx_context.no_deferral_until_ns = base::now_ns() + no_deferral_ns;
}

std::uint64_t InvalidatedPrefix::of_this_thread() const {
  return bytes != 0 && thread == pthread_self() ? bytes : 0;
}

/// Invalidates a prefix that the receiver can clear to send as soon as the message begins
/// (ClearToSendGrant::begin). If several threads poll, the prefix belongs to the first one
/// and helps only if that thread finds the message.
void Endpoint::Impl::prepare(const PostedReceive& posted) {
  if (posted.invalidated == nullptr || posted.invalidated->done) return;
  InvalidatedPrefix& invalidated = *posted.invalidated;
  if (invalidated.bytes == 0) invalidated.thread = pthread_self();
  if (invalidated.thread != pthread_self()) return;
  const auto offset =
      posted.bytes >= settings.rendezvous_put_min_bytes && memory.loads_may_be_stale()
          ? pool.mappings().attached_offset_of(posted.at, posted.bytes)
          : std::nullopt;
  const bool eligible = offset && *offset % coherence::line_bytes == 0;
  const std::uint64_t whole = posted.bytes / coherence::line_bytes * coherence::line_bytes;
  const std::uint64_t end = std::min(invalidated.bytes + invalidated_per_poll, whole);
  invalidated.done = !eligible || end == whole;
  if (!eligible) return;
  // No dirty line may later be written back over the sender's stores. The load fence of the poll
  // that finds the message makes this effective before the buffer is cleared to send.
  memory.invalidate(pool.base() + *offset + invalidated.bytes, end - invalidated.bytes);
  invalidated.bytes = end;
}

void Endpoint::Impl::idle() {
  poller.idle(++pace.idle_polls);
}

void Endpoint::Impl::look_at_clock() {
  const std::uint64_t now = base::now_ns();
  if (now >= pace.next_check_ns) slow_checks(now);
}

// ---- periodic checks ---------------------------------------------------------------------------

void Endpoint::Impl::slow_checks(std::uint64_t now) {
  pace.next_check_ns = now + check_every_ns;
  publisher.publish_peers(now);
  publisher.publish_totals();  // its store fence orders the peers' rows too
  publisher.publish_activity(now, tx_waiting);
  if (now >= pace.next_look_around_ns) look_around(now);
  poller.return_all_credits();  // an endpoint busy with other senders is never idle
  poller.audit();
  damage.look(now);
  look_for_faults();
  for (const Peer source : poller.take_moved_senders()) credit_reports.add(source, std::nullopt);
  credit_reports.send();
  peers.watch.look(
      [&](Peer peer, std::uint32_t generation, PeerFate fate, const std::string& description) {
        peer_gone(peer, generation, fate, description);
      });
}

void Endpoint::Impl::look_around(std::uint64_t now) {
  const std::uint64_t read = memory.device_reads();
  pool.mappings().follow_attachments();  // another copy of the library may have attached
  const auto policy = base::WaitPolicy::for_processes(pool.members().local_processes());
  pace.looks = policy.spins > settings.warm_looks * 100 ? settings.warm_looks : 1;
  const std::uint64_t pause_ns = (memory.device_reads() - read) * ns_a_line;
  pace.next_look_around_ns = now + std::max(look_around_every_ns, pause_ns);
}

/// A sender that writes impossible values is treated as dead: none of its data can be trusted.
void Endpoint::Impl::look_for_faults() {
  for (std::size_t i = 0; i < poller.active().size(); ++i) {
    const Peer source = poller.active()[i];
    if (!peers[source].has_live_rx() || peers[source].rx->fault().empty()) continue;
    base::log(base::Level::error, "damaged message: {}", peers[source].rx->fault());
    peer_gone(source, peers[source].rx->source_generation(), PeerFate::faulty,
              peers.describe(source));
  }
}

}  // namespace penstock::transport

// The public face of an endpoint: opening, addresses, sending, closing.
#include <algorithm>
#include <atomic>
#include <cstring>

#include "base/clock.hpp"
#include "base/format.hpp"
#include "base/log.hpp"
#include "transport/endpoint_impl.hpp"
#include "transport/iov.hpp"

namespace penstock::transport {
namespace {

std::uint64_t hash_job(const std::string& job) {
  std::uint64_t hash = 0xcbf29ce484222325ull;  // FNV-1a
  for (const unsigned char c : job) hash = (hash ^ c) * 0x100000001b3ull;
  return hash;
}

/// Polls between looks at the clock.
constexpr std::uint32_t polls_to_clock = 512;

/// Empty polls after the last event during which a conversation is warm.
constexpr std::uint32_t warm_polls = 32;

/// For what may wait until another time, where somebody who was stopped holds the pool's lock.
constexpr std::uint64_t briefly_ns = 10'000'000;

/// In which a sender that runs ends what it was storing when its clear-to-send was withdrawn.
constexpr std::uint64_t run_of_stores_ns = 100'000'000;

/// For which nothing is held back after somebody has asked: who probes will probe again.
constexpr std::uint64_t flush_ns = 100'000'000;

/// Takes what still comes in while an endpoint closes.
class NoCallbacks final : public EndpointCallbacks {
 public:
  ReceiveBuffer on_message(const Message&) override { return {}; }
  void on_sent(SendOp*) override {}
  void on_send_failed(SendOp*, const Error&) override {}
  void on_peer_dead(Peer, const std::string&) override {}
};

}  // namespace

Endpoint::Impl::Impl(arena::Arena& arena_in, EndpointTable table_in,
                     EndpointCallbacks& callbacks_in, const Settings& settings_in,
                     const Address& self_in)
    : arena(arena_in),
      pool(arena_in.pool()),
      memory(pool.memory()),
      intra_node_memory(memory.intra_node()),
      table(table_in),
      settings(settings_in),
      limits{settings_in.inject_bytes, static_cast<std::uint32_t>(inline_bytes)},
      self(self_in),
      callbacks(&callbacks_in),
      peer_statistics(arena_in, self_in),
      tx_memory(std::make_unique<TxMemory>(arena_in, self_in)),
      tx_context{.pool = pool,
                 .memory = memory,
                 .settings = settings,
                 .tx_memory = *tx_memory,
                 .self = self},
      rx_context{.pool = pool, .memory = memory, .settings = settings, .self = self},
      watch(pool, table),
      peers(table.count()),
      seen(table.count(), 0),
      mailbox(table.count(), 0) {
  tx_context.staging.resize(std::max<std::size_t>(settings.cell_bytes, settings.lines_max_bytes));
  tx_waiting.reserve(table.count());
  active_rx.reserve(table.count());
}

Endpoint::Impl::~Impl() = default;

Endpoint::Endpoint(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}

Result<std::unique_ptr<Endpoint>> Endpoint::open(arena::Arena& arena, EndpointCallbacks& callbacks,
                                                 const Options& options) {
  auto settings = settings_for(arena.pool().memory().mode());
  if (!settings) return unexpected(settings.error());
  auto table = EndpointTable::open(arena);
  if (!table) return unexpected(table.error());
  auto self = table->claim(hash_job(options.job));
  if (!self) return unexpected(self.error());
  auto impl = std::make_unique<Impl>(arena, *table, callbacks, *settings, *self);
  impl->while_closing = options.while_closing;
  impl->closing_timeout_ns = options.closing_timeout_ns;
  impl->pool.mappings().follow_attachments();
  // What lies in the mailbox was announced to earlier owners of the slot. Nobody can announce to
  // this one yet: its address has not been given out. An old copy will do: what has changed since
  // wakes this endpoint in vain.
  impl->memory.load_bulk(impl->seen.data(), table->word(self->slot, 0), 8ull * table->count());
  return std::unique_ptr<Endpoint>(new Endpoint(std::move(impl)));
}

Endpoint::~Endpoint() {
  if (!impl_->pool.attached_here()) {
    [[maybe_unused]] Impl* leaked = impl_.release();  // the parent talks on
    return;
  }
  impl_->drain_for_close();
  impl_->publish_stats(impl_->all_counts());
  impl_->table.release(impl_->self);
}

Address Endpoint::address() const {
  return impl_->self;
}
const Limits& Endpoint::limits() const {
  return impl_->limits;
}
EndpointStats Endpoint::stats() const {
  return impl_->all_counts();
}
Address Endpoint::address_of(Peer peer) const {
  return peer < impl_->peers.size() ? impl_->peers[peer].address : Address{};
}

Result<Peer> Endpoint::resolve(const Address& address) {
  Impl& im = *impl_;
  if (address.pool_id != im.self.pool_id)
    return fail(ErrorCode::mismatch,
                "the peer's address is in pool {:016x}, this process is attached to {} ({:016x}); "
                "give all ranks the same PENSTOCK_POOL",
                address.pool_id, im.pool.info().spec, im.self.pool_id);
  if (address.job != im.self.job)
    return fail(ErrorCode::mismatch,
                "the peer's address belongs to another job on pool {}; give all ranks of a job the "
                "same PENSTOCK_JOB",
                im.pool.info().spec);
  const auto line = im.table.read_for_certain(address.slot);
  if (!line && line.error().code != ErrorCode::not_found) return unexpected(line.error());
  if (!line || line->generation != address.generation || !line->open())
    return fail(ErrorCode::not_found, "endpoint {} of pool {} is closed: its process has ended",
                address.slot, im.pool.info().spec);
  Impl::PeerState& peer = im.peers[address.slot];
  if (address.slot != im.self.slot) im.watch_peer(address.slot, address.generation, line->token);
  peer.address = address;
  peer.resolved = true;
  return address.slot;
}

Result<void> Endpoint::set_user_word(std::uint64_t user_word) {
  return impl_->table.set_user_word(impl_->self, user_word);
}

Result<std::uint64_t> Endpoint::user_word_of(Peer peer) const {
  const Address address = address_of(peer);
  const auto line = impl_->table.read_for_certain(peer);
  if (!line && line.error().code != ErrorCode::not_found) return unexpected(line.error());
  if (!line || line->generation != address.generation || !line->open())
    return fail(ErrorCode::not_found, "endpoint {} of pool {} is closed: its process has ended",
                peer, impl_->pool.info().spec);
  return line->user_word;
}

// ---- sending -----------------------------------------------------------------------------------

Result<TxChannel*> Endpoint::Impl::channel_to(Peer to) {
  pool.confirm();
  if (to >= peers.size() || !peers[to].resolved)
    return fail(ErrorCode::invalid_argument, "endpoint {} was not resolved before it was sent to",
                to);
  PeerState& peer = peers[to];
  if (peer.dead()) return fail(ErrorCode::peer_dead, "{}", peer.description);
  if (!peer.tx) {
    auto made = TxChannel::make(tx_context, peer.address, table.word(to, self.slot),
                                counts_of(to, peer.address.generation),
                                pool.node_of(watch.token(to)) == pool.node());
    if (!made) return unexpected(made.error());
    peer.tx = std::move(*made);
    peer_statistics.make_room(to);
  }
  return peer.tx.get();
}

/// The peer has gone, and what waited has been failed. Of one that is broken, but may live and
/// store its credits, the memory stays.
void Endpoint::Impl::drop_tx(Peer to, PeerFate fate) {
  std::unique_ptr<TxChannel>& tx = peers[to].tx;
  if (!tx || fate == PeerFate::faulty) return;
  tx->give_memory_back(fate == PeerFate::closed);
  tx.reset();
  std::erase(tx_waiting, to);
}

void Endpoint::Impl::deliver_to_self(SendOp* op) {
  const Header& header = op->header;
  ++other_counts.messages_sent;
  ++other_counts.messages_received;
  other_counts.bytes_sent += header.bytes;
  other_counts.bytes_received += header.bytes;
  if (header.bytes <= inline_bytes) {
    std::byte payload[inline_bytes];
    iov_visit(op->iov, op->iov_count, 0, header.bytes,
              [&](std::byte* at, std::uint64_t n, std::uint64_t done) {
                std::memcpy(payload + done, at, n);
              });
    callbacks->on_message({.from = self.slot, .header = header, .payload = payload});
    return;
  }
  const ReceiveBuffer receive_buffer = callbacks->on_message({.from = self.slot, .header = header});
  iov_visit(op->iov, op->iov_count, 0, header.bytes,
            [&](std::byte* at, std::uint64_t n, std::uint64_t done) {
              iov_scatter(receive_buffer.iov, receive_buffer.iov_count, done, at, n);
            });
  if (receive_buffer.arrival != nullptr) receive_buffer.arrival->arrived();
}

Result<bool> Endpoint::try_inject(Peer to, const Header& header, const void* payload) {
  Impl& im = *impl_;
  if (header.bytes > im.limits.inject_bytes)
    return fail(ErrorCode::invalid_argument, "inject of {} bytes, at most {} can be", header.bytes,
                im.limits.inject_bytes);
  if (to == im.self.slot) {
    SendOp op;
    op.header = header;
    op.iov[0] = {const_cast<void*>(payload), header.bytes};
    op.iov_count = 1;
    im.deliver_to_self(&op);
    return true;
  }
  auto channel = im.channel_to(to);
  if (!channel) return unexpected(channel.error());
  return (*channel)->inject(header, payload);
}

Result<bool> Endpoint::send(Peer to, SendOp* op) {
  Impl& im = *impl_;
  if (op->header.bytes > max_message_bytes || op->iov_count > max_iov ||
      iov_bytes(op->iov, op->iov_count) != op->header.bytes)
    return fail(ErrorCode::invalid_argument,
                "a message of {} bytes in {} buffers; at most {} bytes in {} can be",
                op->header.bytes, op->iov_count, max_message_bytes, max_iov);
  if (to == im.self.slot) {
    im.deliver_to_self(op);
    return true;
  }
  auto channel = im.channel_to(to);
  if (!channel) return unexpected(channel.error());
  const bool was_waiting = (*channel)->waiting();
  auto sent = (*channel)->send(op);
  if (sent && !*sent && !was_waiting) im.tx_waiting.push_back(to);
  return sent;
}

std::uint32_t Endpoint::sender_generation(Peer from) const {
  const auto& peers = impl_->peers;
  return from < peers.size() && peers[from].rx ? peers[from].rx->source_generation() : 0;
}

Result<bool> Endpoint::answer(Peer to, std::uint32_t generation, SendOp* op) {
  const Address& self = impl_->self;
  if (generation != sender_generation(to) && to != self.slot)
    return fail(ErrorCode::not_found, "endpoint {} of pool {} is closed: its process has ended", to,
                impl_->pool.info().spec);
  if (to < impl_->peers.size() && to != self.slot) {
    const auto& peer = impl_->peers[to];
    if (!peer.resolved || peer.address.generation != generation) {
      auto resolved = resolve({self.pool_id, self.job, to, generation});
      if (!resolved) return unexpected(resolved.error());
    }
  }
  return send(to, op);
}

void Endpoint::tell_trouble(Peer from, std::uint32_t code) {
  if (from >= impl_->peers.size() || !impl_->peers[from].rx) return;
  impl_->troubles.push_back({from, impl_->peers[from].rx->source_generation(), code});
  impl_->tell_troubles();
}

/// Who has closed waits no longer, and where its channel was is others'. It closes under the lock,
/// which somebody who was stopped may hold: then another time.
void Endpoint::Impl::tell_troubles() {
  if (troubles.empty()) return;
  const auto guard = pool.lock(briefly_ns);
  // credits are looked at again in a second
  if (!guard) std::erase_if(troubles, [](const Trouble& trouble) { return !trouble.code; });
  if (!guard) return;
  for (const Trouble& trouble : troubles) {
    RxChannel* const channel = peers[trouble.peer].rx.get();
    const auto line = table.read(trouble.peer);
    if (channel && channel->source_generation() == trouble.generation && line && line->open() &&
        line->generation == trouble.generation && channel->current())
      trouble.code ? channel->tell_trouble(*trouble.code) : channel->return_credits();
  }
  troubles.clear();
}

std::uint32_t Endpoint::trouble_of(Peer to) {
  if (to >= impl_->peers.size() || !impl_->peers[to].tx) return 0;
  return impl_->peers[to].tx->trouble();
}

bool Endpoint::cancel(Peer to, SendOp* op) {
  if (to >= impl_->peers.size() || !impl_->peers[to].tx) return false;
  return impl_->peers[to].tx->cancel(op);
}

unsigned Endpoint::Impl::progress_tx() {
  unsigned events = 0;
  for (std::size_t i = 0; i < tx_waiting.size();) {
    TxChannel* channel = peers[tx_waiting[i]].tx.get();
    if (channel) events += channel->advance(*callbacks);
    if (channel && channel->waiting()) {
      ++i;
    } else {
      tx_waiting[i] = tx_waiting.back();
      tx_waiting.pop_back();
    }
  }
  return events;
}

unsigned Endpoint::progress() {
  impl_->pool.confirm();
  ++impl_->tx_context.polls;
  unsigned events = impl_->tx_waiting.empty() ? 0 : impl_->progress_tx();
  impl_->rx_context.deferred = false;
  events += impl_->progress_rx();
  // An answer is on its way: the caller's loop (MPICH yields in it) costs more than a look. But a
  // message that is held back waits for the caller.
  if (impl_->idle_polls < warm_polls)
    for (std::uint32_t look = 1; events == 0 && !impl_->rx_context.deferred && look < impl_->looks;
         ++look)
      events += impl_->progress_rx();
  if (events == 0)
    impl_->idle();
  else
    impl_->idle_polls = 0;
  if (events != 0 && !impl_->activity.empty())
    impl_->tell_activity(base::now_ns(), impl_->all_counts());
  if (++impl_->calls % polls_to_clock == 0) impl_->look_at_clock();
  return events;
}

void Endpoint::prepare(const PostedReceive& posted) {
  impl_->invalidate(posted);
}

bool Endpoint::wants_to_know_what_is_awaited() const {
  return impl_->asks_what_is_awaited;
}

void Endpoint::await(const Awaited& awaited) {
  impl_->tell_awaited(awaited);
}

void Endpoint::flush() {
  impl_->rx_context.no_deferral_until_ns = base::now_ns() + flush_ns;
}

// ---- closing -----------------------------------------------------------------------------------

bool Endpoint::drained() const {
  if (!impl_->tx_waiting.empty()) return false;
  for (auto& peer : impl_->peers)
    if (peer.tx && !peer.dead() && !peer.tx->consumed()) return false;
  for (const Peer source : impl_->active_rx)
    if (!impl_->peers[source].rx->quiet()) return false;
  return true;
}

/// Has it to take something yet, or does it store into a buffer of this endpoint's user?
bool Endpoint::Impl::is_posted(PeerState& peer) const {
  const bool sends = peer.tx && !peer.dead() && !peer.tx->consumed();
  return sends || (peer.hears() && peer.rx->cleared());
}

/// The deadline has ended. Who was cleared to send a buffer looks at the clear-to-send before each
/// run of stores; one run may be on its way.
void Endpoint::Impl::leave_what_peers_use(const Error& error, Peer posted) {
  base::log(base::Level::warn, "endpoint {} closes although {} has not taken all: {}", self.slot,
            pool.describe(watch.token(posted)), error.message);
  bool cleared = false;
  for (auto& peer : peers) {
    if (!peer.rx || !peer.rx->cleared()) continue;
    peer.rx->withdraw_clear_to_send();
    cleared = true;
  }
  base::Waiter run("the stores that are on their way", cleared ? run_of_stores_ns : 1, {},
                   base::WaitPolicy::for_processes(pool.local_processes()));
  while (cleared && run.pause()) progress_rx();
  tx_memory->leave_to_burial();
}

void Endpoint::Impl::drain_for_close() {
  NoCallbacks no_callbacks;
  callbacks = &no_callbacks;
  rx_context.reports = false;
  tx_waiting.clear();
  for (auto& peer : peers)
    if (peer.tx) peer.tx->abandon();
  base::Waiter waiter("the peers to take what was sent to them", closing_timeout_ns, {},
                      base::WaitPolicy::for_processes(pool.local_processes()));
  std::vector<Peer> posted;
  for (Peer peer = 0; peer < peers.size(); ++peer)
    if (is_posted(peers[peer])) posted.push_back(peer);
  for (std::size_t turn = 0; !posted.empty(); ++turn) {
    progress_rx();
    return_all_credits();  // the peer may be closing too, and waiting for ours
    if (while_closing) while_closing();
    // whether a peer has gone is a slower look: at one of them
    const Peer looked_at = posted[turn % posted.size()];
    const bool gone = watch.fate(looked_at) != PeerFate::present;
    std::erase_if(
        posted, [&](Peer peer) { return (gone && peer == looked_at) || !is_posted(peers[peer]); });
    if (posted.empty()) break;
    if (auto waited = waiter.pause(); !waited)
      return leave_what_peers_use(waited.error(), posted.front());
  }
  return_all_credits();
  const auto may_store = [this](Peer peer) {  // one that is broken, but lives
    return peers[peer].dead() && peers[peer].tx && watch.fate(peer) == PeerFate::present;
  };
  for (Peer peer = 0; peer < peers.size(); ++peer)
    if (may_store(peer)) return tx_memory->leave_to_burial();
}

/// Of the endpoint of this generation in the slot.
EndpointStats& Endpoint::Impl::counts_of(Peer peer, std::uint32_t generation) {
  PeerState& state = peers[peer];
  if (state.counted_generation != generation) {
    other_counts += state.counts;
    state.counts = {};
    state.counted_generation = generation;
  }
  return state.counts;
}

EndpointStats Endpoint::Impl::all_counts() const {
  EndpointStats sum = other_counts;
  for (const PeerState& peer : peers) sum += peer.counts;
  return sum;
}

void Endpoint::Impl::publish_stats(const EndpointStats& counts) {
  // a process may have several endpoints: its record holds the sum
  static std::atomic<std::uint64_t> sums[4];
  const auto add = [](std::atomic<std::uint64_t>& sum, std::uint64_t now, std::uint64_t before) {
    return sum.fetch_add(now - before, std::memory_order_relaxed) + now - before;
  };
  pool::ProcessStats sum;
  sum.messages_sent = add(sums[0], counts.messages_sent, published.messages_sent);
  sum.bytes_sent = add(sums[1], counts.bytes_sent, published.bytes_sent);
  sum.messages_received = add(sums[2], counts.messages_received, published.messages_received);
  sum.bytes_received = add(sums[3], counts.bytes_received, published.bytes_received);
  published = counts;
  pool.publish_stats(sum);
}

/// Of some peers, others the next time.
void Endpoint::Impl::publish_peers() {
  constexpr std::size_t peers_a_check = 256;
  const std::size_t number = std::min(peers.size(), peers_a_check);
  for (std::size_t i = 0; i < number; ++i) {
    const Peer peer = next_row;
    next_row = (next_row + 1) % static_cast<Peer>(peers.size());
    if (peers[peer].tx && !peers[peer].dead()) peers[peer].tx->publish_position();
    if (peers[peer].counts != EndpointStats{})
      peer_statistics.publish(peer, peers[peer].counted_generation, peers[peer].counts);
  }
}

}  // namespace penstock::transport

// Public calls of an endpoint: opening, addresses, sending.
#include <algorithm>
#include <cstring>

#include "base/checksum.hpp"
#include "base/format.hpp"
#include "device/pool_mappings.hpp"
#include "pool/reclaim.hpp"
#include "transport/endpoint_impl.hpp"
#include "transport/iov.hpp"

namespace penstock::transport {

Endpoint::Impl::Impl(arena::Arena& arena, EndpointTable table_in, EndpointCallbacks& callbacks_in,
                     const Settings& settings_in, const Address& self_in)
    : pool(arena.pool()),
      memory(pool.memory()),
      table(table_in),
      settings(settings_in),
      limits{settings_in.inject_bytes, static_cast<std::uint32_t>(inline_bytes)},
      self(self_in),
      callbacks(&callbacks_in),
      tx_memory(std::make_unique<TxMemory>(arena, table_in, self_in)),
      tx_context{.pool = pool,
                 .memory = memory,
                 .settings = settings,
                 .tx_memory = *tx_memory,
                 .self = self},
      rx_context{.pool = pool, .memory = memory, .settings = settings, .self = self},
      peers(pool, table),
      publisher(arena, table, self_in, peers),
      poller(table, peers, rx_context,
             [this](Peer source, std::uint32_t generation) {
               prepare_for_channel(source, generation);
             }),
      credit_reports(pool, table, peers),
      damage(table, self.slot, peers, poller, credit_reports) {
  tx_context.staging.resize(std::max<std::size_t>(settings.cell_bytes, settings.lines_max_bytes));
  tx_waiting.reserve(table.count());
}

Endpoint::Endpoint(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}

Result<std::unique_ptr<Endpoint>> Endpoint::open(arena::Arena& arena, EndpointCallbacks& callbacks,
                                                 const Options& options) {
  auto settings = PENSTOCK_TRY(settings_for(arena.pool().memory().mode()));
  auto table = PENSTOCK_TRY(EndpointTable::open(arena));
  auto self = PENSTOCK_TRY(table.claim(base::xxh64(options.job.data(), options.job.size(), 0)));
  auto impl = std::make_unique<Impl>(arena, table, callbacks, settings, self);
  impl->options = options;
  impl->pool.mappings().follow_attachments();
  return std::unique_ptr<Endpoint>(new Endpoint(std::move(impl)));
}

Endpoint::~Endpoint() {
  if (!impl_->pool.attached_here()) {
    [[maybe_unused]] Impl* leaked = impl_.release();  // belongs to the parent process
    return;
  }
  impl_->drain_for_close();
  impl_->publisher.publish_totals();
  impl_->table.release(impl_->self);
}

Address Endpoint::address() const {
  return impl_->self;
}
const Limits& Endpoint::limits() const {
  return impl_->limits;
}
EndpointStats Endpoint::stats() const {
  return impl_->peers.all_counts();
}
Address Endpoint::address_of(Peer peer) const {
  return peer < impl_->peers.size() ? impl_->peers[peer].address : Address{};
}

std::string Endpoint::describe(Peer peer) const {
  return impl_->peers.describe(peer);
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
  const auto line = im.table.read(address.slot);
  if (!line || line->generation != address.generation || !line->open())
    return fail(ErrorCode::not_found, "endpoint {} of pool {} is closed: its process has ended",
                address.slot, im.pool.info().spec);
  // A receiver needs no announcement of its own: a sender has resolved it, before its first
  // channel.
  if (im.options.peers_may_be_of_other_jobs)
    PENSTOCK_TRY(im.pool.reclaim().shares_with({&line->token, 1}));
  PeerState& peer = im.peers[address.slot];
  if (address.slot != im.self.slot) im.watch_peer(address.slot, address.generation, line->token);
  peer.address = address;
  peer.resolved = true;
  return address.slot;
}

Result<void> Endpoint::set_user_word(std::uint64_t user_word) {
  impl_->table.set_user_word(impl_->self, user_word);
  return {};
}

Result<std::uint64_t> Endpoint::user_word_of(Peer peer) const {
  const Address address = address_of(peer);
  const auto line = impl_->table.read(peer);
  if (!line || line->generation != address.generation || !line->open())
    return fail(ErrorCode::not_found, "endpoint {} of pool {} is closed: its process has ended",
                peer, impl_->pool.info().spec);
  return line->user_word;
}

// ---- sending -----------------------------------------------------------------------------------

Result<TxChannel*> Endpoint::Impl::channel_to(Peer to) {
  tx_context.coarse_ns = pool.confirm();
  if (to >= peers.size() || !peers[to].resolved)
    return fail(ErrorCode::invalid_argument, "endpoint {} was not resolved before it was sent to",
                to);
  PeerState& peer = peers[to];
  if (peer.dead()) return fail(ErrorCode::peer_dead, "{}", peer.description);
  if (!peer.tx) {
    const MailboxWords words = PENSTOCK_TRY(table.words(to, self.slot));
    peer.tx = PENSTOCK_TRY(TxChannel::make(tx_context, peer.address, words,
                                           peers.counts_of(to, peer.address.generation),
                                           peers.on_this_node(to)));
    publisher.make_room(to);
  }
  return peer.tx.get();
}

void Endpoint::Impl::deliver_to_self(SendOp* op) {
  const Header& header = op->header;
  peers.other_counts += {.messages_sent = 1,
                         .bytes_sent = header.bytes,
                         .messages_received = 1,
                         .bytes_received = header.bytes};
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
  auto channel = PENSTOCK_TRY(im.channel_to(to));
  return channel->inject(header, payload);
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
  auto channel = PENSTOCK_TRY(im.channel_to(to));
  const bool was_waiting = channel->waiting();
  auto sent = channel->send(op);
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
      PENSTOCK_TRY(resolve({self.pool_id, self.job, to, generation}));
    }
  }
  return send(to, op);
}

void Endpoint::send_error(Peer from, std::uint32_t code) {
  if (from >= impl_->peers.size() || !impl_->peers[from].rx) return;
  impl_->credit_reports.add(from, code);
  impl_->credit_reports.send();
}

std::uint32_t Endpoint::take_error(Peer to) {
  if (to >= impl_->peers.size() || !impl_->peers[to].tx) return 0;
  return impl_->peers[to].tx->take_error();
}

bool Endpoint::cancel(Peer to, SendOp* op) {
  if (to >= impl_->peers.size() || !impl_->peers[to].tx) return false;
  return impl_->peers[to].tx->cancel(op);
}

SendOp* Endpoint::take_back(Peer to, bool (*wanted)(const SendOp&)) {
  if (to >= impl_->peers.size() || !impl_->peers[to].tx) return nullptr;
  return impl_->peers[to].tx->take_back(wanted);
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

}  // namespace penstock::transport

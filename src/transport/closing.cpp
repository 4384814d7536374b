// Closing an endpoint: its peers first consume the messages sent to them, and stop storing into its
// memory.
#include "base/log.hpp"
#include "pool/members.hpp"
#include "transport/endpoint_impl.hpp"

namespace penstock::transport {
namespace {

/// A running sender ends its stores within this time after a clear-to-send is withdrawn.
constexpr std::uint64_t store_run_ns = 100'000'000;

/// Drops messages that arrive while an endpoint closes.
class NoCallbacks final : public EndpointCallbacks {
 public:
  ReceiveBuffer on_message(const Message&) override { return {}; }
  void on_sent(SendOp*) override {}
  void on_send_failed(SendOp*, const Error&) override {}
  void on_peer_dead(Peer, const std::string&) override {}
};

}  // namespace

bool Endpoint::drained() const {
  if (!impl_->tx_waiting.empty()) return false;
  for (std::size_t i = 0; i < impl_->peers.known(); ++i) {
    const PeerState& peer = impl_->peers[impl_->peers.peer_of(i)];
    if (peer.tx && !peer.dead() && !peer.tx->consumed()) return false;
  }
  for (const Peer source : impl_->poller.active())
    if (!impl_->peers[source].rx->quiet()) return false;
  return true;
}

/// Ends the wait at its deadline. A sender reads its clear-to-send before each run of stores, so
/// one run may still be in flight.
void Endpoint::Impl::abandon_memory_in_use(const Error& error, Peer remaining) {
  base::log(options.peers_may_take_later ? base::Level::debug : base::Level::warn,
            "endpoint {} closes although {} has not taken all: {}", self.slot,
            peers.describe(remaining), error.message);
  bool cleared = false;
  for (std::size_t i = 0; i < peers.known(); ++i) {
    PeerState& peer = peers[peers.peer_of(i)];
    if (!peer.rx || !peer.rx->cleared()) continue;
    peer.rx->withdraw_clear_to_send();
    cleared = true;
  }
  base::Waiter run("the stores that are on their way", cleared ? store_run_ns : 1, {},
                   base::WaitPolicy::for_processes(pool.members().local_processes()));
  while (cleared && run.pause()) progress_rx();
  tx_memory->defer_reclaim();
}

void Endpoint::Impl::drain_for_close() {
  NoCallbacks no_callbacks;
  callbacks = &no_callbacks;
  rx_context.reports = false;
  tx_waiting.clear();
  for (std::size_t i = 0; i < peers.known(); ++i)
    if (const auto& tx = peers[peers.peer_of(i)].tx) tx->abandon();
  base::Waiter waiter("the peers to take what was sent to them", options.closing_timeout_ns, {},
                      base::WaitPolicy::for_processes(pool.members().local_processes()));
  std::vector<Peer> remaining;
  for (std::size_t i = 0; i < peers.known(); ++i)
    if (const Peer peer = peers.peer_of(i); peers[peer].uses_our_memory())
      remaining.push_back(peer);
  for (std::size_t turn = 0; !remaining.empty(); ++turn) {
    progress_rx();
    poller.return_all_credits();  // the peer may be closing too and wait for our credits
    if (options.while_closing) options.while_closing();
    // the liveness check is slower: one peer at a time
    const Peer looked_at = remaining[turn % remaining.size()];
    const bool gone = peers.watch.fate(looked_at) != PeerFate::present;
    std::erase_if(remaining, [&](Peer peer) {
      return (gone && peer == looked_at) || !peers[peer].uses_our_memory();
    });
    if (remaining.empty()) break;
    if (auto waited = waiter.pause(); !waited)
      return abandon_memory_in_use(waited.error(), remaining.front());
  }
  poller.return_all_credits();
  const auto may_store = [this](Peer peer) {  // a faulty peer may be alive and store
    return peers[peer].dead() && peers[peer].tx && peers.watch.fate(peer) == PeerFate::present;
  };
  for (std::size_t i = 0; i < peers.known(); ++i)
    if (may_store(peers.peer_of(i))) return tx_memory->defer_reclaim();
}

}  // namespace penstock::transport

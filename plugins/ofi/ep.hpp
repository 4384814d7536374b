// Endpoint: connects an engine of messages, one-sided operations, and the queues that receive
// completions.
#pragma once

#include <rdma/fi_cm.h>
#include <rdma/fi_domain.h>
#include <rdma/fi_endpoint.h>
#include <rdma/fi_tagged.h>

#include <atomic>
#include <memory>
#include <vector>

#include "av.hpp"
#include "cntr.hpp"
#include "cq.hpp"
#include "lib.hpp"
#include "messages/engine.hpp"
#include "rma_origin.hpp"
#include "rma_target.hpp"
#include "transport/transport.hpp"

namespace penstock::ofi {

/// Completion levels that need an acknowledgement by the receiver.
inline constexpr std::uint64_t delivery_flags = FI_DELIVERY_COMPLETE | FI_MATCH_COMPLETE;

struct SendCall {
  fi_addr_t to = FI_ADDR_UNSPEC;
  Header header;
  const iovec* iov = nullptr;
  std::size_t iov_count = 0;
  std::uint64_t flags = 0;
  void* context = nullptr;
};

/// The counters that are bound to an endpoint, by operation; null: none.
struct Counters {
  Cntr* tx = nullptr;
  Cntr* rx = nullptr;
  Cntr* read = nullptr;
  Cntr* write = nullptr;
  Cntr* remote_read = nullptr;
  Cntr* remote_write = nullptr;
  std::vector<Cntr*> all;
};

struct Ep : fid_ep, private messages::Completions {
  Ep() : engine(*this), rma_origin(*this), rma_target(*this) {}
  ~Ep() override;

  // ---- set up ----
  int bind(::fid* other, std::uint64_t flags);
  int enable();
  void forget(fi_addr_t number) {
    if (number < peers.size()) peers[number] = any_peer;
  }

  // ---- data; the caller holds the domain's guard ----
  /// Sends one contiguous buffer: the fast path.
  ssize_t send_buffer(const void* buffer, std::size_t bytes, fi_addr_t to, const Header& header,
                      std::uint64_t flags, void* context);
  ssize_t send(const SendCall& call);
  /// Copies the payload; counts a completion, but reports none.
  ssize_t inject(const void* buffer, std::size_t bytes, fi_addr_t to, const Header& header);
  ssize_t receive(ReceiveRequest& request, fi_addr_t from, std::uint64_t flags);
  ssize_t cancel(void* context);
  void progress() {
    if (transport() == nullptr) return;
    (void)engine.progress();
    if (rma_origin.awaits()) rma_origin.check_for_errors();
  }
  /// Null until the endpoint is enabled.
  transport::Endpoint* transport() const { return engine.transport(); }

  Domain* domain = nullptr;
  Av* av = nullptr;
  Cq* tx_cq = nullptr;
  Cq* rx_cq = nullptr;
  bool tx_selective = false, rx_selective = false;
  Counters counters;
  std::atomic<int> aliases{0};
  std::uint64_t caps = 0, tx_flags = 0, rx_flags = 0;
  std::size_t inject_size = 0;
  messages::Engine engine;
  RmaOrigin rma_origin;
  RmaTarget rma_target;

  bool reports_send(std::uint64_t flags) const {
    return tx_cq != nullptr && (!tx_selective || (flags & FI_COMPLETION) != 0);
  }
  int peer_for(fi_addr_t to, Peer* peer) {
    if (to < peers.size() && peers[to] != any_peer) {
      *peer = peers[to];
      return 0;
    }
    return resolve(to, peer);
  }
  /// The flags of an injected one-sided operation. Only a counter reports its completion, at the
  /// level that the endpoint was opened with: MPI waits on it until its puts have arrived.
  std::uint64_t inject_flags() const { return FI_INJECT | (tx_flags & delivery_flags); }
  void complete_rma(std::uint64_t flags, Cntr* counter, void* context, bool report);

 private:
  // messages::Completions
  void on_received(const Received& received) override;
  void on_receive_failure(const ReceiveFailure& failure) override;
  Cause cause_of(const Error& error) override;
  Cause cause_of_flood(const std::string& why) override;
  void on_sent(const messages::Sent& sent) override;
  void on_send_failed(const messages::Sent& sent, const Error& error) override;
  void on_send_cancelled(const messages::Sent& sent) override;
  Departure on_peer_gone(Peer peer, const std::string& description, bool left) override;
  ReceiveBuffer on_service(const Message& message) override;
  void on_service_sent(transport::SendOp* op) override;
  void on_service_failed(transport::SendOp* op, const Error& error) override;

  int resolve(fi_addr_t to, Peer* peer);
  int remember(fi_addr_t number, Peer found, Peer* peer);
  int source_of(fi_addr_t from, Peer* peer);
  int bind_cq(Cq* cq, std::uint64_t flags);
  int bind_cntr(Cntr* cntr, std::uint64_t flags);
  void send_copies_now();
  /// Resets the back-off of the completion queues too: a sending program that polls them is not
  /// waiting, so it keeps its core.
  void prepare_send(Peer to, const Header& header) {
    for (Cq* const cq : {tx_cq, rx_cq})
      if (cq != nullptr) cq->backoff.busy();
    engine.prepare_send(to, header);
  }
  ssize_t queue(Peer peer, const SendCall& call, void* copy, bool report);
  ssize_t send_copied(Peer peer, const SendCall& call, bool report);
  int no_copy(Peer to, std::uint64_t bytes);
  void complete_send(const Header& header, void* context, bool report);
  void fail_send(const messages::Sent& sent, int error, int detail);
  ssize_t fail_call(const Error& error);

  std::vector<Peer> peers;         ///< indexed by fi_addr_t; any_peer: not resolved yet
  std::uint32_t inject_limit = 0;  ///< the transport's limit
};

inline Ep& ep_of(fid_ep* self) {
  return *static_cast<Ep*>(self);
}
inline Ep& ep_of(fid* self) {
  return *static_cast<Ep*>(reinterpret_cast<fid_ep*>(self));
}

extern fi_ops_msg msg_ops;
extern fi_ops_tagged tagged_ops;
extern fi_ops_rma rma_ops;
extern fi_ops_atomic atomic_ops;

}  // namespace penstock::ofi

// Endpoint: connects a transport endpoint, a matcher and the queues that receive completions.
#pragma once

#include <rdma/fi_cm.h>
#include <rdma/fi_domain.h>
#include <rdma/fi_endpoint.h>
#include <rdma/fi_tagged.h>

#include <atomic>
#include <memory>
#include <vector>

#include "answers.hpp"
#include "av.hpp"
#include "messages/backpressure.hpp"
#include "cntr.hpp"
#include "cq.hpp"
#include "lib.hpp"
#include "match.hpp"
#include "rma_origin.hpp"
#include "rma_target.hpp"
#include "transport/transport.hpp"

namespace penstock::ofi {

using messages::AnnouncedSend;

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

struct Ep : fid_ep,
            private transport::EndpointCallbacks,
            private MatchEvents,
            private messages::BackpressureOwner {
  Ep()
      : matcher(*this),
        answers(*this),
        back_pressure(*this),
        rma_origin(*this),
        rma_target(*this) {}
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
    if (transport == nullptr) return;
    unpolled_bytes = 0;
    if (transport->progress() == 0) transport->prepare(matcher.posted());
    if (transport->wants_report_of_waiting()) [[unlikely]]
      transport->report_waiting(matcher.pending_receives());
    if (answers.owes()) [[unlikely]]
      answers.try_again();
    if (rma_origin.awaits()) rma_origin.check_for_errors();
  }

  Domain* domain = nullptr;
  Av* av = nullptr;
  Cq* tx_cq = nullptr;
  Cq* rx_cq = nullptr;
  bool tx_selective = false, rx_selective = false;
  Cntr* tx_cntr = nullptr;
  Cntr* rx_cntr = nullptr;
  Cntr* read_cntr = nullptr;
  Cntr* write_cntr = nullptr;
  Cntr* remote_read_cntr = nullptr;
  Cntr* remote_write_cntr = nullptr;
  std::vector<Cntr*> bound_cntrs;
  std::atomic<int> aliases{0};
  std::uint64_t caps = 0, tx_flags = 0, rx_flags = 0;
  std::size_t inject_size = 0;
  std::unique_ptr<transport::Endpoint> transport;
  Matcher matcher;
  Answers answers;
  messages::Backpressure back_pressure;
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
  struct Outgoing : AnnouncedSend {
    Outgoing* before = nullptr;
    Outgoing* after = nullptr;
    void* context = nullptr;
    void* copied = nullptr;  ///< payload that we own
    std::uint64_t flags = 0;
    bool report = false;
  };

  // transport::EndpointCallbacks
  ReceiveBuffer on_message(const Message& message) override {
    if (is_service(message.header)) [[unlikely]]
      return serve(message);
    return matcher.message(message);
  }
  void on_sent(transport::SendOp* op) override;  // also messages::BackpressureOwner's
  void on_send_failed(transport::SendOp* op, const Error& error) override;
  void on_peer_dead(Peer peer, const std::string& description) override;
  void on_peer_left(Peer peer, const std::string& description) override;
  ReceiveBuffer serve(const Message& message);
  // MatchEvents
  void on_received(const Received& received) override;
  void on_receive_failure(const ReceiveFailure& failure) override;
  Cause cause_of(const Error& error) override;
  void on_too_many(Peer from) override { back_pressure.too_many(from); }
  void on_room() override { back_pressure.room(); }
  void on_announced(Peer from, bool awaited) override { back_pressure.announced(from, awaited); }
  void fetch(Peer from, std::uint64_t id, std::uint64_t token) override {
    back_pressure.fetch(from, id, token);
  }
  void forget(Peer from, std::uint64_t id) override { back_pressure.forget(from, id); }
  Cause on_probe_in_vain(Peer source) override;
  // messages::BackpressureOwner
  void end_send(AnnouncedSend* op) override;
  void fail_send(AnnouncedSend* op, const Error& error) override;
  void post_call(Peer to, const Header& header, const std::uint64_t* token) override;
  const Unexpected& kept() const override { return matcher.unexpected(); }
  std::uint64_t announced_bytes() const override { return Matcher::announced_bytes(); }
  void set_room(std::uint64_t bytes) override { matcher.set_room(bytes); }
  bool awaits(Peer peer) const override { return matcher.awaits(peer); }
  void fail_awaiting(Peer peer, const std::string& why) override {
    matcher.fail_awaiting(peer, FI_ENOBUFS, remember_text(why));
  }
  void fail_announced(AnnouncedSend* op, int error, int detail);

  int resolve(fi_addr_t to, Peer* peer);
  int remember(fi_addr_t number, Peer found, Peer* peer);
  int source_of(fi_addr_t from, Peer* peer);
  int bind_cq(Cq* cq, std::uint64_t flags);
  int bind_cntr(Cntr* cntr, std::uint64_t flags);
  Outgoing* make_outgoing(Peer peer, const SendCall& call, void* copy, bool report);
  void keep_queued(Outgoing* op);
  ssize_t hold(Peer peer, const SendCall& call, void* copy, bool report);
  void send_copies_now();
  /// Polls now and then while the program only sends, so that receivers' notices arrive. Also
  /// resets the back-off of the completion queues: a sending program that polls them is not
  /// waiting, so it keeps its core.
  void poll_while_sending(std::uint64_t bytes) {
    for (Cq* const cq : {tx_cq, rx_cq})
      if (cq != nullptr) cq->backoff.busy();
    unpolled_bytes += bytes + 1024;
    if (unpolled_bytes >= back_pressure.poll_interval_bytes()) [[unlikely]]
      for (int look = 0; look < polls_at_once; ++look) progress();
  }
  static constexpr int polls_at_once = 16;  ///< one poll in sixteen looks for new channels
  ssize_t queue(Peer peer, const SendCall& call, void* copy, bool report);
  ssize_t send_copied(Peer peer, const SendCall& call, bool report);
  int no_copy(Peer to, std::uint64_t bytes);
  void complete_send(const Header& header, void* context, bool report);
  void finish(Outgoing* op);
  ssize_t fail_call(const Error& error);

  std::uint64_t unpolled_bytes = 0;  ///< bytes sent since the last progress
  std::vector<Peer> peers;           ///< indexed by fi_addr_t; any_peer: not resolved yet
  FreeList<Outgoing> outgoing_pool;
  Outgoing* queued = nullptr;      ///< sends that the transport holds
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

// The data path of an endpoint.
#include "ep.hpp"

#include <rdma/fi_errno.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>

#include "base/log.hpp"
#include "lib.hpp"
#include "transport/iov.hpp"

namespace penstock::ofi {

namespace {

std::uint64_t send_flags(const Header& header) {
  return FI_SEND | ((header.kind & kind_tagged) != 0 ? FI_TAGGED : FI_MSG);
}

}  // namespace

// ---- peers -----------------------------------------------------------------------------------

int Ep::resolve(fi_addr_t to, Peer* peer) {
  if (transport() == nullptr) return -FI_EOPBADSTATE;
  const transport::Address* address = av->find(to);
  if (address == nullptr) return -FI_EINVAL;
  auto found = transport()->resolve(*address);
  if (!found) return report(found.error());
  return remember(to, *found, peer);
}

int Ep::source_of(fi_addr_t from, Peer* peer) {
  if (from == FI_ADDR_UNSPEC || (caps & FI_DIRECTED_RECV) == 0) {
    *peer = any_peer;
    return 0;
  }
  const transport::Address* address = av->find(from);
  if (address == nullptr) return -FI_EINVAL;
  if (from < peers.size() && peers[from] != any_peer) {
    *peer = peers[from];
    return 0;
  }
  // Resolving makes the transport watch whether the peer lives. If the peer is gone, it may still
  // have left a message here, so that is no error.
  if (auto found = transport()->resolve(*address); found) return remember(from, *found, peer);
  *peer = address->slot;
  return 0;
}

int Ep::remember(fi_addr_t number, Peer found, Peer* peer) {
  rma_origin.forget(found);
  engine.matcher().peer_present(found, transport()->address_of(found).generation);
  return guarded([&]() -> int {
    if (peers.size() < av->entries.size()) peers.resize(av->entries.size(), any_peer);
    *peer = peers[number] = found;
    return 0;
  });
}

/// Converts the error, and logs it; not `unavailable`, which means try again, and not a death,
/// which the transport has logged.
ssize_t Ep::fail_call(const Error& error) {
  if (error.code == ErrorCode::unavailable || error.code == ErrorCode::peer_dead)
    return errno_of(error);
  return report(error);
}

// ---- sending ---------------------------------------------------------------------------------

void Ep::complete_send(const Header& header, void* context, bool report) {
  if (counters.tx != nullptr) counters.tx->count();
  if (!report) return;
  Completion completion;
  completion.context = context;
  completion.flags = send_flags(header);
  tx_cq->push(completion);
}

ssize_t Ep::send_buffer(const void* buffer, std::size_t bytes, fi_addr_t to, const Header& header,
                        std::uint64_t flags, void* context) {
  Peer peer;
  if (const int failed = peer_for(to, &peer)) return failed;
  prepare_send(peer, header);
  if (bytes <= inject_limit && (flags & delivery_flags) == 0) {
    auto sent = engine.try_inject(peer, header, buffer);
    if (!sent) [[unlikely]]
      return fail_call(sent.error());
    if (*sent) {
      complete_send(header, context, reports_send(flags));
      return 0;
    }
  }
  const iovec iov{const_cast<void*>(buffer), bytes};
  SendCall call{to, header, &iov, 1, flags, context};
  return queue(peer, call, nullptr, reports_send(flags));
}

ssize_t Ep::send(const SendCall& call) {
  if (call.iov_count > transport::max_iov) return -FI_EINVAL;
  const bool copies = (call.flags & FI_INJECT) != 0;
  if (call.iov_count == 1 && !copies) {
    return send_buffer(call.iov[0].iov_base, call.iov[0].iov_len, call.to, call.header, call.flags,
                       call.context);
  }
  if (copies && call.header.bytes > inject_size) return -FI_EINVAL;
  Peer peer;
  if (const int failed = peer_for(call.to, &peer)) return failed;
  prepare_send(peer, call.header);
  const bool report = reports_send(call.flags);
  if (!copies) return queue(peer, call, nullptr, report);
  if (call.iov_count == 1 && call.header.bytes <= inject_limit &&
      (call.flags & delivery_flags) == 0) {
    auto sent = engine.try_inject(peer, call.header, call.iov[0].iov_base);
    if (!sent) return fail_call(sent.error());
    if (*sent) {
      complete_send(call.header, call.context, report);
      return 0;
    }
  }
  return send_copied(peer, call, report);
}

ssize_t Ep::inject(const void* buffer, std::size_t bytes, fi_addr_t to, const Header& header) {
  Peer peer;
  if (const int failed = peer_for(to, &peer)) return failed;
  prepare_send(peer, header);
  if (bytes <= inject_limit) [[likely]] {
    auto sent = engine.try_inject(peer, header, buffer);
    if (!sent) [[unlikely]]
      return fail_call(sent.error());
    if (*sent) [[likely]] {
      complete_send(header, nullptr, false);
      return 0;
    }
  }
  if (bytes > inject_size) return -FI_EINVAL;
  const iovec iov{const_cast<void*>(buffer), bytes};
  return send_copied(peer, {to, header, &iov, 1, 0, nullptr}, false);
}

/// 0 if a message of this size may be copied; else the error to return.
int Ep::no_copy(Peer to, std::uint64_t bytes) {
  const auto room = engine.may_copy(to, bytes);
  if (room == messages::Backpressure::Room::yes) return 0;
  return room == messages::Backpressure::Room::wait ? -FI_EAGAIN : -FI_ENOBUFS;
}

/// Sends with a copy of the payload, so that the caller may reuse its buffers. If the message
/// cannot be sent yet, a later progress() sends it.
ssize_t Ep::send_copied(Peer peer, const SendCall& call, bool report) {
  progress();  // makes room, and reads the receiver's notices
  if (const int no = no_copy(peer, call.header.bytes)) return no;
  void* const copy = std::malloc(std::max<std::size_t>(call.header.bytes, 1));
  if (copy == nullptr) return -FI_ENOMEM;
  transport::iov_gather(call.iov, call.iov_count, 0, static_cast<std::byte*>(copy),
                        call.header.bytes);
  const iovec iov{copy, call.header.bytes};
  SendCall copied = call;
  copied.iov = &iov;
  copied.iov_count = 1;
  return queue(peer, copied, copy, report);
}

ssize_t Ep::queue(Peer peer, const SendCall& call, void* copy, bool report) {
  using Begun = messages::Engine::Begun;
  const auto begun = engine.send(peer, {.header = call.header,
                                        .iov = call.iov,
                                        .iov_count = static_cast<std::uint32_t>(call.iov_count),
                                        .notify_delivered = (call.flags & delivery_flags) != 0,
                                        .copy = copy,
                                        .context = call.context,
                                        .report = report});
  if (!begun) [[unlikely]]
    return fail_call(begun.error());
  if (*begun == Begun::no_memory) return -FI_ENOMEM;
  if (*begun == Begun::sent) complete_send(call.header, call.context, report);
  return 0;
}

void Ep::on_sent(const messages::Sent& sent) {
  complete_send(sent.header, sent.context, sent.report);
}

void Ep::fail_send(const messages::Sent& sent, int error, int detail) {
  CompletionError failure;
  failure.what.context = sent.context;
  failure.what.flags = send_flags(sent.header);
  failure.what.tag = sent.header.tag;
  failure.error = error;
  failure.detail = detail;
  if (counters.tx != nullptr) counters.tx->count_error();
  if (tx_cq != nullptr) tx_cq->push_error(failure);
}

/// A copied send without a context gets no error completion for a death: its call has returned, the
/// transport has logged the death, and Open MPI dereferences the context of every error.
void Ep::on_send_failed(const messages::Sent& sent, const Error& error) {
  if (!sent.copied || sent.context != nullptr || error.code != ErrorCode::peer_dead)
    return fail_send(sent, -errno_of(error), remember_text(error.message));
  if (counters.tx != nullptr) counters.tx->count_error();
}

void Ep::on_send_cancelled(const messages::Sent& sent) {
  fail_send(sent, FI_ECANCELED, 0);
}

static bool is_answer(const transport::SendOp& op) {
  const Service service = service_of(op.header);
  return service == Service::reply || service == Service::refusal;
}

void Ep::on_service_sent(transport::SendOp* op) {
  is_answer(*op) ? engine.answers().sent(op) : rma_origin.sent(op);
}

void Ep::on_service_failed(transport::SendOp* op, const Error& error) {
  if (is_answer(*op)) return engine.answers().send_failed(op, error);
  rma_origin.send_failed(op, -errno_of(error), remember_text(error.message));
}

/// Sends all copied messages before the endpoint closes: for the user they are done already.
void Ep::send_copies_now() {
  if (transport() == nullptr || engine.copied() == 0) return;
  engine.send_copies_now();
  base::Waiter waiter("peers to take messages that were sent by copy", 0, {},
                      wait_policy(*domain->session));
  while (engine.copied() != 0) {
    progress();
    for (Ep* other : domain->endpoints)
      if (other != this) other->progress();
    if (auto waited = waiter.pause(); !waited)
      return base::log(base::Level::warn,
                       "an endpoint closes, and {} bytes that were sent are lost: {}",
                       engine.copied(), waited.error().message);
  }
}

// ---- one-sided operations ---------------------------------------------------------------------

void Ep::complete_rma(std::uint64_t flags, Cntr* counter, void* context, bool report) {
  if (counter != nullptr) counter->count();
  if (!report) return;
  Completion completion;
  completion.context = context;
  completion.flags = flags;
  tx_cq->push(completion);
}

ReceiveBuffer Ep::on_service(const Message& message) {
  const Peer from = message.from;
  const Header& header = message.header;
  const void* const payload = message.payload;
  const bool whole = payload != nullptr || header.bytes == 0;
  switch (service_of(header)) {
    case Service::reply:
      if (!whole) return rma_origin.begin_reply(from, header);
      rma_origin.reply(from, header, payload);
      return {};
    case Service::refusal: {
      std::uint64_t code = 0;
      if (!whole) return {};
      if (header.bytes == sizeof code) std::memcpy(&code, payload, sizeof code);
      rma_origin.refused(from, header, static_cast<int>(code & 0xffff));
      return {};
    }
    case Service::hold:
    case Service::payload:
      return {};  // the engine's; with bits that none of its own has
    default:
      if (!whole) return rma_target.begin_request(from, header);
      rma_target.request(from, header, payload);
      return {};
  }
}

// ---- receiving -------------------------------------------------------------------------------

ssize_t Ep::receive(ReceiveRequest& request, fi_addr_t from, std::uint64_t flags) {
  if (transport() == nullptr) return -FI_EOPBADSTATE;
  if (const int failed = source_of(from, &request.source)) return failed;
  request.report = rx_cq != nullptr && (!rx_selective || (flags & FI_COMPLETION) != 0);
  request.multi = (flags & FI_MULTI_RECV) != 0;
  if (request.multi && request.iov_count != 1) return -FI_EINVAL;
  if ((flags & (FI_PEEK | FI_CLAIM | FI_DISCARD)) == 0) return engine.post(request, request.source);
  if (!request.tagged) return -FI_EINVAL;
  if ((flags & FI_PEEK) != 0) {
    transport()->stop_deferring();
    transport()->progress();
    const auto how = (flags & FI_CLAIM) != 0     ? Matcher::Peek::claim
                     : (flags & FI_DISCARD) != 0 ? Matcher::Peek::discard
                                                 : Matcher::Peek::look;
    return engine.matcher().peek(request, how);
  }
  if ((flags & FI_CLAIM) == 0) return -FI_EINVAL;
  if ((flags & FI_DISCARD) != 0) return engine.matcher().discard_claimed(request);
  return engine.matcher().receive_claimed(request);
}

static std::uint64_t flags_of(const Received& received) {
  return FI_RECV | ((received.kind & kind_tagged) != 0 ? FI_TAGGED : FI_MSG) |
         ((received.kind & kind_cq_data) != 0 ? FI_REMOTE_CQ_DATA : 0) |
         (received.released ? FI_MULTI_RECV : 0);
}

void Ep::on_received(const Received& received) {
  if (counters.rx != nullptr) counters.rx->count();
  if (!received.report || rx_cq == nullptr) return;
  Completion completion;
  completion.context = received.context;
  completion.flags = flags_of(received);
  completion.bytes = received.bytes;
  completion.buffer = received.buffer;
  completion.data = received.data;
  completion.tag = received.tag;
  if ((caps & FI_SOURCE) != 0) {
    completion.source = av->number_of(transport()->address_of(received.from));
  }
  rx_cq->push(completion);
}

void Ep::on_receive_failure(const ReceiveFailure& failure) {
  if (counters.rx != nullptr && failure.error != FI_ENOMSG) counters.rx->count_error();
  if (rx_cq == nullptr) return;
  CompletionError error;
  error.what.context = failure.what.context;
  error.what.flags = flags_of(failure.what);
  error.what.bytes = failure.what.bytes;
  error.what.buffer = failure.what.buffer;
  error.what.data = failure.what.data;
  error.what.tag = failure.what.tag;
  error.overflow = failure.overflow;
  error.error = failure.error == EMSGSIZE ? FI_ETRUNC : failure.error;
  error.detail = failure.detail;
  rx_cq->push_error(error);
}

messages::MatchReports::Cause Ep::cause_of(const Error& error) {
  return {-errno_of(error), remember_text(error.message)};
}

messages::MatchReports::Cause Ep::cause_of_flood(const std::string& why) {
  return {FI_ENOBUFS, remember_text(why)};
}

/// A peer that has left fails the receives that name it, which would otherwise wait for ever: MPI
/// ends a job if one rank exits early.
messages::Completions::Departure Ep::on_peer_gone(Peer peer, const std::string& description,
                                                  bool left) {
  const int detail = remember_text(description);
  rma_origin.peer_dead(peer, FI_ECONNRESET, detail);
  return {.error = {ErrorCode::peer_dead, description},
          .cause = {FI_ECONNRESET, detail},
          .may_have_sent = !left};
}

ssize_t Ep::cancel(void* context) {
  return engine.cancel(context) ? 0 : -FI_ENOENT;
}

}  // namespace penstock::ofi

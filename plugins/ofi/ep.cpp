// The data path of an endpoint.
#include "ep.hpp"

#include <rdma/fi_errno.h>

#include <algorithm>
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
  if (transport == nullptr) return -FI_EOPBADSTATE;
  const transport::Address* address = av->find(to);
  if (address == nullptr) return -FI_EINVAL;
  auto found = transport->resolve(*address);
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
  if (auto found = transport->resolve(*address); found) return remember(from, *found, peer);
  *peer = address->slot;
  return 0;
}

int Ep::remember(fi_addr_t number, Peer found, Peer* peer) {
  rma_origin.forget(found);
  matcher.peer_present(found, transport->address_of(found).generation);
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
  if (tx_cntr != nullptr) tx_cntr->count();
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
  if ((header.kind & kind_tagged) != 0) matcher.sends_to(peer, header.tag);
  poll_while_sending(bytes);
  if (back_pressure.concerns(peer, header)) [[unlikely]] {
    const iovec iov{const_cast<void*>(buffer), bytes};
    return hold(peer, {to, header, &iov, 1, flags, context}, nullptr, reports_send(flags));
  }
  if (bytes <= inject_limit && (flags & delivery_flags) == 0) {
    auto sent = transport->try_inject(peer, header, buffer);
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
  if ((call.header.kind & kind_tagged) != 0) matcher.sends_to(peer, call.header.tag);
  poll_while_sending(call.header.bytes);
  const bool report = reports_send(call.flags);
  const bool held = back_pressure.concerns(peer, call.header);
  if (!copies) return held ? hold(peer, call, nullptr, report) : queue(peer, call, nullptr, report);
  if (!held && call.iov_count == 1 && call.header.bytes <= inject_limit &&
      (call.flags & delivery_flags) == 0) {
    auto sent = transport->try_inject(peer, call.header, call.iov[0].iov_base);
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
  if ((header.kind & kind_tagged) != 0) matcher.sends_to(peer, header.tag);
  poll_while_sending(bytes);
  if (bytes <= inject_limit && !back_pressure.concerns(peer, header)) [[likely]] {
    auto sent = transport->try_inject(peer, header, buffer);
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
  const auto room = back_pressure.may_copy(to, bytes + sizeof(Outgoing));
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
  return back_pressure.concerns(peer, call.header) ? hold(peer, copied, copy, report)
                                                   : queue(peer, copied, copy, report);
}

Ep::Outgoing* Ep::make_outgoing(Peer peer, const SendCall& call, void* copy, bool report) {
  Outgoing* op = outgoing_pool.take();
  if (op == nullptr) {
    std::free(copy);
    return nullptr;
  }
  op->header = call.header;
  std::copy_n(call.iov, call.iov_count, op->iov);
  op->iov_count = static_cast<std::uint32_t>(call.iov_count);
  op->notify_delivered = (call.flags & delivery_flags) != 0;
  op->peer = peer;
  op->context = call.context;
  op->copied = copy;
  op->copy = copy != nullptr;
  op->flags = call.flags;
  op->report = report;
  return op;
}

/// Links a send that did not end in the call.
void Ep::keep_queued(Outgoing* op) {
  op->after = queued;
  if (queued != nullptr) queued->before = op;
  queued = op;
  if (op->copy) back_pressure.copied(op->header.bytes + sizeof(Outgoing));
}

ssize_t Ep::queue(Peer peer, const SendCall& call, void* copy, bool report) {
  Outgoing* const op = make_outgoing(peer, call, copy, report);
  if (op == nullptr) return -FI_ENOMEM;
  auto sent = transport->send(peer, op);
  if (!sent) [[unlikely]] {
    std::free(copy);
    outgoing_pool.give(op);
    return fail_call(sent.error());
  }
  if (*sent) {
    std::free(copy);
    const Header header = op->header;
    outgoing_pool.give(op);
    complete_send(header, call.context, report);
    return 0;
  }
  keep_queued(op);
  return 0;
}

/// Queues a send whose message must be announced: the peer asked for that, or the message is very
/// long.
ssize_t Ep::hold(Peer peer, const SendCall& call, void* copy, bool report) {
  Outgoing* const op = make_outgoing(peer, call, copy, report);
  if (op == nullptr) return -FI_ENOMEM;
  keep_queued(op);
  back_pressure.add(op);
  return 0;
}

/// Unlinks a queued send and frees it.
void Ep::finish(Outgoing* op) {
  (op->before != nullptr ? op->before->after : queued) = op->after;
  if (op->after != nullptr) op->after->before = op->before;
  if (op->copy) back_pressure.copy_ended(op->message_header().bytes + sizeof(Outgoing));
  std::free(op->copied);
  outgoing_pool.give(op);
}

void Ep::end_send(AnnouncedSend* sent) {
  auto* op = static_cast<Outgoing*>(sent);
  const Header header = op->message_header();
  void* const context = op->context;
  const bool report = op->report;
  finish(op);
  complete_send(header, context, report);
}

void Ep::on_sent(transport::SendOp* sent) {
  if (!is_service(sent->header)) {
    auto* const op = static_cast<AnnouncedSend*>(sent);
    return (op->header.kind & kind_announced) != 0 ? back_pressure.sent(op) : end_send(op);
  }
  switch (service_of(sent->header)) {
    case Service::reply:
    case Service::refusal:
    case Service::hold:
      return answers.sent(sent);
    case Service::payload:
      return end_send(static_cast<AnnouncedSend*>(sent));
    default:
      return rma_origin.sent(sent);
  }
}

void Ep::fail_announced(AnnouncedSend* failed, int error, int detail) {
  auto* op = static_cast<Outgoing*>(failed);
  const Header header = op->message_header();
  CompletionError failure;
  failure.what.context = op->context;
  failure.what.flags = send_flags(header);
  failure.what.tag = header.tag;
  failure.error = error;
  failure.detail = detail;
  finish(op);
  if (tx_cntr != nullptr) tx_cntr->count_error();
  if (tx_cq != nullptr) tx_cq->push_error(failure);
}

/// Fails a send. A copied send without a context gets no error completion for a death: its call has
/// returned, the transport has logged the death, and Open MPI dereferences the context of every
/// error.
void Ep::fail_send(AnnouncedSend* failed, const Error& error) {
  auto* op = static_cast<Outgoing*>(failed);
  if (!op->copy || op->context != nullptr || error.code != ErrorCode::peer_dead)
    return fail_announced(op, -errno_of(error), remember_text(error.message));
  finish(op);
  if (tx_cntr != nullptr) tx_cntr->count_error();
}

void Ep::on_send_failed(transport::SendOp* op, const Error& error) {
  const auto fail = [&] { fail_send(static_cast<AnnouncedSend*>(op), error); };
  if (!is_service(op->header)) {
    if ((op->header.kind & kind_announced) != 0)
      back_pressure.unsent(static_cast<AnnouncedSend*>(op));
    return fail();
  }
  switch (service_of(op->header)) {
    case Service::reply:
    case Service::refusal:
    case Service::hold:
      return answers.send_failed(op, error);
    case Service::payload:
      return fail();
    default:
      return rma_origin.send_failed(op, -errno_of(error), remember_text(error.message));
  }
}

void Ep::post_call(Peer to, const Header& header, const std::uint64_t* token) {
  Answers::Answer* const answer = answers.make(header, token, header.bytes);
  if (answer == nullptr)
    return base::log(base::Level::error, "no memory to tell {} what to do with its messages",
                     transport->describe(to));
  answer->urgent = true;
  answers.post(to, answer);
}

/// Sends all copied messages before the endpoint closes: for the user they are done already.
void Ep::send_copies_now() {
  if (transport == nullptr || back_pressure.copied() == 0) return;
  back_pressure.send_copies_now();
  base::Waiter waiter("peers to take messages that were sent by copy", 0, {},
                      wait_policy(*domain->session));
  while (back_pressure.copied() != 0) {
    progress();
    for (Ep* other : domain->endpoints)
      if (other != this) other->progress();
    if (auto waited = waiter.pause(); !waited)
      return base::log(base::Level::warn,
                       "an endpoint closes, and {} bytes that were sent are lost: {}",
                       back_pressure.copied(), waited.error().message);
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

ReceiveBuffer Ep::serve(const Message& message) {
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
      if (whole) back_pressure.call(from, header, payload);
      return {};
    case Service::payload:
      return matcher.payload(message);
    default:
      if (!whole) return rma_target.begin_request(from, header);
      rma_target.request(from, header, payload);
      return {};
  }
}

// ---- receiving -------------------------------------------------------------------------------

ssize_t Ep::receive(ReceiveRequest& request, fi_addr_t from, std::uint64_t flags) {
  if (transport == nullptr) return -FI_EOPBADSTATE;
  if (const int failed = source_of(from, &request.source)) return failed;
  request.report = rx_cq != nullptr && (!rx_selective || (flags & FI_COMPLETION) != 0);
  request.multi = (flags & FI_MULTI_RECV) != 0;
  if (request.multi && request.iov_count != 1) return -FI_EINVAL;
  if ((flags & (FI_PEEK | FI_CLAIM | FI_DISCARD)) == 0) {
    if (!back_pressure.holds() || !request.tagged) [[likely]]
      return matcher.post(request);
    const std::size_t waiting = matcher.posted_count();
    const int posted = matcher.post(request);
    if (matcher.posted_count() > waiting) (void)back_pressure.wanted(request.source);
    return posted;
  }
  if (!request.tagged) return -FI_EINVAL;
  if ((flags & FI_PEEK) != 0) {
    transport->stop_deferring();
    transport->progress();
    const auto how = (flags & FI_CLAIM) != 0     ? Matcher::Peek::claim
                     : (flags & FI_DISCARD) != 0 ? Matcher::Peek::discard
                                                 : Matcher::Peek::look;
    return matcher.peek(request, how);
  }
  if ((flags & FI_CLAIM) == 0) return -FI_EINVAL;
  if ((flags & FI_DISCARD) != 0) return matcher.discard_claimed(request);
  return matcher.receive_claimed(request);
}

void Ep::on_received(const Received& received) {
  if (rx_cntr != nullptr) rx_cntr->count();
  if (!received.report || rx_cq == nullptr) return;
  Completion completion;
  completion.context = received.context;
  completion.flags = received.flags;
  completion.bytes = received.bytes;
  completion.buffer = received.buffer;
  completion.data = received.data;
  completion.tag = received.tag;
  if ((caps & FI_SOURCE) != 0) {
    completion.source = av->number_of(transport->address_of(received.from));
  }
  rx_cq->push(completion);
}

void Ep::on_receive_failure(const ReceiveFailure& failure) {
  if (rx_cntr != nullptr && failure.error != FI_ENOMSG) rx_cntr->count_error();
  if (rx_cq == nullptr) return;
  CompletionError error;
  error.what.context = failure.what.context;
  error.what.flags = failure.what.flags;
  error.what.bytes = failure.what.bytes;
  error.what.buffer = failure.what.buffer;
  error.what.data = failure.what.data;
  error.what.tag = failure.what.tag;
  error.overflow = failure.overflow;
  error.error = failure.error;
  error.detail = failure.detail;
  rx_cq->push_error(error);
}

MatchEvents::Cause Ep::on_probe_in_vain(Peer source) {
  const std::string* const too_much = back_pressure.wanted(source);
  return too_much != nullptr ? Cause{FI_ENOBUFS, remember_text(*too_much)} : Cause{FI_ENOMSG, 0};
}

MatchEvents::Cause Ep::cause_of(const Error& error) {
  return {-errno_of(error), remember_text(error.message)};
}

void Ep::on_peer_dead(Peer peer, const std::string& description) {
  const int detail = remember_text(description);
  back_pressure.gone(peer, {ErrorCode::peer_dead, description});
  rma_origin.peer_dead(peer, FI_ECONNRESET, detail);
  matcher.peer_dead(peer, transport->address_of(peer).generation, FI_ECONNRESET, detail);
}

/// Fails receives that name the peer, which would otherwise wait forever: MPI ends a job if one
/// rank exits early.
void Ep::on_peer_left(Peer peer, const std::string& description) {
  const int detail = remember_text(description);
  back_pressure.gone(peer, {ErrorCode::peer_dead, description});
  rma_origin.peer_dead(peer, FI_ECONNRESET, detail);
  matcher.peer_left(peer, transport->address_of(peer).generation, FI_ECONNRESET, detail);
}

ssize_t Ep::cancel(void* context) {
  if (matcher.cancel(context) == 0) return 0;
  for (Outgoing* op = queued; op != nullptr; op = op->after) {
    if (op->context != context || !back_pressure.cancel(op)) continue;
    fail_announced(op, FI_ECANCELED, 0);
    return 0;
  }
  return -FI_ENOENT;
}

}  // namespace penstock::ofi

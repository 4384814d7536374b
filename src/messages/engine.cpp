#include "messages/engine.hpp"

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <utility>

#include "base/log.hpp"

namespace penstock::messages {

Result<void> Engine::open(arena::Arena& arena, const Options& options) {
  auto transport = PENSTOCK_TRY(transport::Endpoint::open(arena, *this, options.endpoint));
  PENSTOCK_TRY(back_pressure_.set_up(*transport, options.announced_from));
  matcher_.set_limit(back_pressure_.limit());
  matcher_.number_sources(options.sources);
  answers_.set_up(*transport, [this](const Error& error) {
    return static_cast<std::uint32_t>(completions_.cause_of(error).error);
  });
  transport_ = std::move(transport);
  return {};
}

void Engine::close() {
  if (transport_ == nullptr) return;
  back_pressure_.print();
  transport_.reset();
  while (sends_ != nullptr) (void)end(sends_);
}

// ---- sends --------------------------------------------------------------------------------------

void Engine::poll() {
  constexpr int looks = 16;  // one in sixteen finds new channels
  for (int look = 0; look < looks; ++look) progress();
}

Engine::Send* Engine::make_send(Peer to, const SendRequest& request) {
  Send* const send = send_pool_.take();
  if (send == nullptr) return nullptr;
  send->header = request.header;
  std::copy_n(request.iov, request.iov_count, send->iov);
  send->iov_count = request.iov_count;
  send->notify_delivered = request.notify_delivered;
  send->peer = to;
  send->context = request.context;
  send->copied = request.copy;
  send->copy = request.copy != nullptr;
  send->report = request.report;
  return send;
}

/// The send did not end in the call.
void Engine::link(Send* send) {
  send->after = sends_;
  if (sends_ != nullptr) sends_->before = send;
  sends_ = send;
  if (send->copy) back_pressure_.copied(send->header.bytes + sizeof(Send));
}

/// Unlinks and frees a send.
Sent Engine::end(AnnouncedSend* op) {
  auto* const send = static_cast<Send*>(op);
  const Sent sent{send->message_header(), send->context, send->report, send->copy};
  (send->before != nullptr ? send->before->after : sends_) = send->after;
  if (send->after != nullptr) send->after->before = send->before;
  if (send->copy) back_pressure_.copy_ended(sent.header.bytes + sizeof(Send));
  std::free(send->copied);
  send_pool_.give(send);
  return sent;
}

Result<Engine::Begun> Engine::send(Peer to, const SendRequest& request) {
  Send* const send = make_send(to, request);
  if (send == nullptr) {
    std::free(request.copy);
    return Begun::no_memory;
  }
  if (back_pressure_.concerns(to, request.header)) [[unlikely]] {
    link(send);
    back_pressure_.add(send);
    return Begun::under_way;
  }
  const auto sent = transport_->send(to, send);
  if (sent && !*sent) {
    link(send);
    return Begun::under_way;
  }
  std::free(request.copy);
  send_pool_.give(send);
  if (!sent) return unexpected(sent.error());
  return Begun::sent;
}

void Engine::on_sent(transport::SendOp* op) {
  const std::uint8_t kind = op->header.kind;
  if ((kind & kind_service) == 0) {
    auto* const send = static_cast<AnnouncedSend*>(op);
    return (kind & kind_announced) != 0 ? back_pressure_.sent(send) : end_send(send);
  }
  if (kind == kind_payload) return end_send(static_cast<AnnouncedSend*>(op));
  if (kind == kind_hold) return answers_.sent(op);
  completions_.on_service_sent(op);
}

void Engine::on_send_failed(transport::SendOp* op, const Error& error) {
  const std::uint8_t kind = op->header.kind;
  if ((kind & kind_service) == 0 || kind == kind_payload) {
    auto* const send = static_cast<AnnouncedSend*>(op);
    if ((kind & kind_service) == 0 && (kind & kind_announced) != 0) back_pressure_.unsent(send);
    return fail_send(send, error);
  }
  if (kind == kind_hold) return answers_.send_failed(op, error);
  completions_.on_service_failed(op, error);
}

bool Engine::cancel(void* context) {
  if (matcher_.cancel(context) == 0) return true;
  for (Send* send = sends_; send != nullptr; send = send->after) {
    if (send->context != context || !back_pressure_.cancel(send)) continue;
    completions_.on_send_cancelled(end(send));
    return true;
  }
  return false;
}

// ---- receives -----------------------------------------------------------------------------------

int Engine::post_and_ask(const ReceiveRequest& request, Peer from) {
  const std::size_t waiting = matcher_.posted_count();
  const int posted = matcher_.post(request);
  if (matcher_.posted_count() > waiting) (void)back_pressure_.wanted(from);
  return posted;
}

ReceiveBuffer Engine::serve(const Message& message) {
  const Header& header = message.header;
  if (header.kind == kind_payload) return matcher_.payload(message);
  if (header.kind != kind_hold) return completions_.on_service(message);
  if (message.payload != nullptr || header.bytes == 0)
    back_pressure_.call(message.from, header, message.payload);
  return {};
}

MatchReports::Cause Engine::on_probe_in_vain(Peer source) {
  const std::string* const too_much = back_pressure_.wanted(source);
  return too_much != nullptr ? completions_.cause_of_flood(*too_much)
                             : MatchReports::Cause{ENOMSG, 0};
}

void Engine::fail_awaiting(Peer peer, const std::string& why) {
  const MatchReports::Cause cause = completions_.cause_of_flood(why);
  matcher_.fail_awaiting(peer, cause.error, cause.detail);
}

void Engine::post_call(Peer to, const Header& header, const std::uint64_t* token) {
  Answers::Answer* const answer = answers_.make(header, token, header.bytes);
  if (answer == nullptr)
    return base::log(base::Level::error, "no memory to tell {} what to do with its messages",
                     transport_->describe(to));
  answer->urgent = true;
  answers_.post(to, answer);
}

void Engine::lose(Peer peer, const std::string& description, bool left) {
  const Completions::Departure gone = completions_.on_peer_gone(peer, description, left);
  back_pressure_.gone(peer, gone.error);
  const std::uint32_t life = transport_->address_of(peer).generation;
  const auto [error, detail] = gone.cause;
  gone.may_have_sent ? matcher_.peer_dead(peer, life, error, detail)
                     : matcher_.peer_left(peer, life, error, detail);
}

}  // namespace penstock::messages

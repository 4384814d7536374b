#include "messages/matcher.hpp"

#include <algorithm>
#include <cerrno>
#include <cstring>

namespace penstock::messages {

namespace {

Received describe(const ReceiveRequest& receive, Peer from, const Header& header) {
  Received received;
  received.context = receive.context;
  received.kind = header.kind;
  received.data = header.data;
  received.tag = header.tag;
  received.from = from;
  received.report = receive.report;
  return received;
}

}  // namespace

MatchReports::Cause MatchEvents::on_probe_in_vain(Peer) {
  return {ENOMSG, 0};
}

Matcher::~Matcher() {
  room_ = 0;
  for (Lane& lane : lanes_) {
    while (Incoming* incoming = lane.unexpected.pop_front()) release(incoming);
  }
  while (Incoming* incoming = claimed_.pop_front()) release(incoming);
  while (Incoming* incoming = posted_.pop_front()) release(incoming);
}

// ---- lists -----------------------------------------------------------------------------------

Matcher::Incoming* Matcher::find_claimed(void* context) {
  for (Incoming* m = claimed_.head(); m != nullptr; m = m->next) {
    if (m->claim_context == context) return m;
  }
  return nullptr;
}

Matcher::Incoming* Matcher::keep(Peer from, std::uint32_t source, const Header& header) {
  Incoming* incoming = incomings_.take();
  if (incoming == nullptr) return nullptr;
  incoming->matcher = this;
  incoming->header = header;
  incoming->from = from;
  incoming->source = source;
  incoming->arriving = incoming->direct = incoming->discarded = incoming->claimed = false;
  incoming->peeked = incoming->announced = false;
  incoming->receive = nullptr;
  incoming->claim_context = nullptr;
  incoming->heap = nullptr;
  incoming->kept_bytes = 0;
  return incoming;
}

/// Allocates memory for the payload; false if there is none.
bool Matcher::make_payload(Incoming* incoming) {
  const std::uint64_t bytes = incoming->header.bytes;
  if (bytes <= inline_bytes) return true;
  incoming->heap = bytes <= sizeof(Small) ? reinterpret_cast<std::byte*>(smalls_.take())
                                          : static_cast<std::byte*>(std::malloc(bytes));
  return incoming->heap != nullptr;
}

/// Counts a message that is kept in this process's memory until a receive takes it.
void Matcher::count_kept(Incoming* incoming) {
  const std::uint64_t bytes = incoming->header.bytes;
  incoming->kept_bytes =
      sizeof(Incoming) +
      (incoming->heap == nullptr ? 0 : std::max<std::uint64_t>(bytes, sizeof(Small)));
  ++unexpected_.messages;
  unexpected_.bytes += incoming->kept_bytes;
  unexpected_.peak_bytes = std::max(unexpected_.peak_bytes, unexpected_.bytes);
  if (unexpected_.bytes > limit_) [[unlikely]]
    events_.on_too_many(incoming->from);
}

void Matcher::release(Incoming* incoming) {
  if (incoming->heap != nullptr) {
    if (incoming->header.bytes <= sizeof(Small))
      smalls_.give(reinterpret_cast<Small*>(incoming->heap));
    else
      std::free(incoming->heap);
  }
  const std::uint64_t kept = incoming->kept_bytes;
  incomings_.give(incoming);
  if (kept == 0) return;
  --unexpected_.messages;
  unexpected_.bytes -= kept;
  if (unexpected_.bytes < room_) [[unlikely]] {
    room_ = 0;
    events_.on_room();
  }
}

// ---- sources ---------------------------------------------------------------------------------

void Matcher::introduce(Peer peer, std::uint32_t source) {
  if (sources_.size() <= peer) sources_.resize(peer + 1, any_source);
  sources_[peer] = source;
}

std::uint32_t Matcher::numbered_source(Peer from, const Header& header) {
  const auto source = static_cast<std::uint32_t>(header.data);
  if (source < numbered_ && source_of(from) != source) introduce(from, source);
  return source;
}

/// No receive names any_source, the source of a peer that nobody knows.
std::uint32_t Matcher::source_of(Peer peer) const {
  if (numbered_ == 0) return peer;
  return peer < sources_.size() ? sources_[peer] : any_source;
}

// ---- completion ------------------------------------------------------------------------------

/// Reserves part of a multi-receive buffer for the next message. Retires the buffer if too little
/// remains; the caller then removes it from its list.
iovec Matcher::reserve(Receive* receive, std::uint64_t bytes) {
  iovec& left = receive->iov[0];
  const iovec part{left.iov_base, std::min<std::size_t>(bytes, left.iov_len)};
  left.iov_base = static_cast<std::byte*>(left.iov_base) + part.iov_len;
  left.iov_len -= part.iov_len;
  ++receive->in_flight;
  receive->retired = left.iov_len == 0 || left.iov_len < min_multi_receive_;
  return part;
}

/// Ends one message in flight; after the last one of a retired buffer, reports that it is free.
void Matcher::finish_multi(Receive* receive, const Received& received, std::uint64_t overflow,
                           int error, int detail) {
  --receive->in_flight;
  const bool last = receive->retired && receive->in_flight == 0;
  const int end_error = last ? receive->end_error : 0;
  const int end_detail = receive->end_detail;
  if (last) receives_.give(receive);
  Received delivered = received;
  if (last && end_error == 0) {
    delivered.released = true;
    delivered.report = true;  // the release of a buffer is always reported
  }
  if (error != 0) {
    reports_.on_receive_failure({delivered, error, overflow, detail});
  } else {
    reports_.on_received(delivered);
  }
  if (end_error == 0) return;
  Received end;
  end.context = received.context;
  end.released = true;
  reports_.on_receive_failure({end, end_error, 0, end_detail});
}

void Matcher::finish(Receive* receive, Peer from, const Header& header, void* buffer,
                     std::uint64_t capacity) {
  Received received = describe(*receive, from, header);
  received.buffer = buffer;
  received.bytes = std::min(header.bytes, capacity);
  const std::uint64_t overflow = header.bytes - received.bytes;
  if (receive->multi) {
    return finish_multi(receive, received, overflow, overflow != 0 ? EMSGSIZE : 0, 0);
  }
  receives_.give(receive);
  if (overflow != 0) [[unlikely]] {
    reports_.on_receive_failure({received, EMSGSIZE, overflow, 0});
  } else {
    reports_.on_received(received);
  }
}

/// Fails a receive whose matched message will never arrive.
void Matcher::fail(Receive* receive, Peer from, const Header& header, int error, int detail) {
  const Received received = describe(*receive, from, header);
  if (receive->multi) return finish_multi(receive, received, 0, error, detail);
  receives_.give(receive);
  reports_.on_receive_failure({received, error, 0, detail});
}

/// Ends an unmatched posted receive (a multi-receive: after its messages in flight).
void Matcher::end_waiting(Lane& lane, Receive* receive, Peer peer, int error, int detail) {
  lane.posted.remove(receive);
  receive->retired = true;
  receive->end_error = error;
  receive->end_detail = detail;
  if (receive->in_flight > 0) return;
  Header header;
  header.kind = receive->tagged ? kind_tagged : 0;
  header.tag = receive->tag;
  Received received = describe(*receive, peer, header);
  received.released = receive->multi;
  receives_.give(receive);
  reports_.on_receive_failure({received, error, 0, detail});
}

void Matcher::report_no_memory(Peer from, const Header& header) {
  Received received;
  received.kind = header.kind;
  received.data = header.data;
  received.tag = header.tag;
  received.from = from;
  reports_.on_receive_failure({received, ENOMEM, header.bytes, 0});
}

// ---- arrivals --------------------------------------------------------------------------------

void Matcher::take_small(Peer from, const Header& header, const void* payload) {
  const std::uint32_t source = source_of(from, header);
  Lane& lane = lane_of((header.kind & kind_tagged) != 0);
  if (Receive* receive = lane.posted.find(source, header.tag)) {
    if (receive->multi) {
      const iovec part = reserve(receive, header.bytes);
      if (receive->retired) lane.posted.remove(receive);
      transport::iov_scatter(&part, 1, 0, payload, header.bytes);
      finish(receive, from, header, part.iov_base, part.iov_len);
      return;
    }
    lane.posted.remove(receive);
    transport::iov_scatter(receive->iov, receive->iov_count, 0, payload, header.bytes);
    finish(receive, from, header, receive->iov[0].iov_base, receive->capacity);
    return;
  }
  Incoming* incoming = keep(from, source, header);
  if (incoming != nullptr && !make_payload(incoming)) {
    release(incoming);
    incoming = nullptr;
  }
  if (incoming == nullptr) return report_no_memory(from, header);
  if (header.bytes != 0) std::memcpy(incoming->payload(), payload, header.bytes);
  lane.unexpected.push_back(incoming);
  count_kept(incoming);
}

transport::PostedReceive Matcher::posted() {
  Receive* const first = lane_of(true).posted.head();
  if (first == nullptr || first->multi || first->iov_count != 1) return {};
  return {static_cast<std::byte*>(first->iov[0].iov_base), first->iov[0].iov_len,
          &first->invalidated};
}

ReceiveBuffer Matcher::begin(const Message& message) {
  const Header& header = message.header;
  const bool tagged = (header.kind & kind_tagged) != 0;
  Lane& lane = lane_of(tagged);
  const std::uint32_t source = source_of(message.from, header);
  Receive* const receive = lane.posted.find(source, header.tag);
  if (receive == nullptr && message.may_wait) return {.match = transport::Match::later};
  if (receive == nullptr && message.may_wait_for_room && tagged && unexpected_.bytes > limit_) {
    events_.on_too_many(message.from);
    return {.match = transport::Match::no_room};
  }
  Incoming* const incoming = keep(message.from, source, header);
  if (incoming == nullptr) {
    report_no_memory(message.from, header);
    return {};
  }
  incoming->arriving = true;
  return receive != nullptr ? begin_posted(lane, receive, incoming)
                            : begin_unexpected(lane, incoming);
}

ReceiveBuffer Matcher::begin_posted(Lane& lane, Receive* receive, Incoming* incoming) {
  incoming->direct = true;
  incoming->receive = receive;
  if (receive->multi) {
    incoming->part = reserve(receive, incoming->header.bytes);
    if (receive->retired) lane.posted.remove(receive);
    return {.iov = &incoming->part, .iov_count = 1, .arrival = incoming};
  }
  lane.posted.remove(receive);
  return {.iov = receive->iov,
          .iov_count = receive->iov_count,
          .arrival = incoming,
          .invalidated = receive->invalidated.of_this_thread()};
}

ReceiveBuffer Matcher::begin_unexpected(Lane& lane, Incoming* incoming) {
  if (!make_payload(incoming)) {
    report_no_memory(incoming->from, incoming->header);
    release(incoming);
    return {};
  }
  incoming->receive_buffer = {incoming->payload(), incoming->header.bytes};
  lane.unexpected.push_back(incoming);
  count_kept(incoming);
  return {.iov = &incoming->receive_buffer,
          .iov_count = 1,
          .arrival = incoming,
          .match = transport::Match::unexpected};
}

void Matcher::arrived(Incoming* incoming) {
  incoming->arriving = false;
  if (incoming->posted()) posted_.remove(incoming);
  if (incoming->discarded) return release(incoming);
  Receive* receive = incoming->receive;
  if (receive == nullptr) return;  // stays until a receive asks for it
  if (!incoming->direct) return hand_over(receive, incoming);
  const bool multi = receive->multi;
  void* const buffer = multi ? incoming->part.iov_base : receive->iov[0].iov_base;
  const std::uint64_t capacity = multi ? incoming->part.iov_len : receive->capacity;
  const Header header = incoming->header;
  const Peer from = incoming->from;
  release(incoming);
  finish(receive, from, header, buffer, capacity);
}

/// Copies a complete kept message to the receive that matched it.
void Matcher::hand_over(Receive* receive, Incoming* incoming) {
  const iovec* iov = receive->multi ? &incoming->part : receive->iov;
  const std::uint32_t count = receive->multi ? 1 : receive->iov_count;
  const std::uint64_t capacity = receive->multi ? incoming->part.iov_len : receive->capacity;
  transport::iov_scatter(iov, count, 0, incoming->payload(), incoming->header.bytes);
  void* const buffer = iov[0].iov_base;
  const Header header = incoming->header;
  const Peer from = incoming->from;
  release(incoming);
  finish(receive, from, header, buffer, capacity);
}

/// Gives a kept message, already removed from its list, to its receive.
void Matcher::take(Receive* receive, Incoming* incoming) {
  if (incoming->announced) return fetch(receive, incoming);
  incoming->receive = receive;
  if (incoming->arriving)
    posted_.push_back(incoming);
  else
    hand_over(receive, incoming);
}

void Matcher::failed(Incoming* incoming, const Error& error) {
  Receive* receive = incoming->receive;
  if (incoming->posted()) {
    posted_.remove(incoming);
  } else if (receive == nullptr) {
    if (incoming->claimed) {
      claimed_.remove(incoming);
    } else {
      lane_of((incoming->header.kind & kind_tagged) != 0).unexpected.remove(incoming);
    }
  }
  const Header header = incoming->header;
  const Peer from = incoming->from;
  release(incoming);
  if (receive == nullptr) return;
  const MatchReports::Cause cause = reports_.cause_of(error);
  fail(receive, from, header, cause.error, cause.detail);
}

void Matcher::fail_waiting(Lane& lane, const Dead& dead) {
  for (Receive* receive = lane.posted.head(); receive != nullptr;) {
    Receive* const next = receive->next;
    if (dead.ends(*receive)) end_waiting(lane, receive, dead.peer, dead.error, dead.detail);
    receive = next;
  }
}

/// True if the receive must fail because the dead peer could be its sender. A receive from any
/// source fails only if the dead peer has taken part in its context, or if all peers do (0, an
/// MPI's world). Multi-receive buffers never fail: they serve all senders.
bool Matcher::Dead::ends(const ReceiveRequest& receive) const {
  if (all) return receive.source == any_source;
  if (receive.source != any_source) return receive.source == source;
  if (only_named || receive.multi) return false;
  const auto fits_context = [&](std::uint32_t context) {
    return ((context_of(receive.tag) ^ context) & ~context_of(receive.ignore)) == 0;
  };
  return fits_context(0) || std::any_of(contexts.begin(), contexts.end(), fits_context);
}

void Matcher::gone(Dead dead) {
  // A peer that a receive names counts as a member of the receive's context.
  for (const Receive* receive = lane_of(true).posted.head(); receive != nullptr;
       receive = receive->next)
    if (receive->source == dead.source) sends_to(dead.peer, receive->tag & ~receive->ignore);
  dead.contexts = contexts_.taken(dead.peer);
  forget_announced(dead);
  dead_.push_back(std::move(dead));
  for (Lane& lane : lanes_) fail_waiting(lane, dead_.back());
}

void Matcher::peer_dead(Peer peer, std::uint32_t life, int error, int detail) {
  gone({peer, source_of(peer), life, error, detail, false, false, {}});
}

void Matcher::peer_left(Peer peer, std::uint32_t life, int error, int detail) {
  gone({peer, source_of(peer), life, error, detail, true, false, {}});
}

void Matcher::source_gone(std::uint32_t source, int error, int detail) {
  const bool all = source == any_source;
  gone({any_source, source, 0, error, detail, !all, false, {}, all});
}

void Matcher::refuse(Peer peer, std::uint32_t life, int error, int detail) {
  const bool again = std::any_of(dead_.begin(), dead_.end(), [&](const Dead& dead) {
    return dead.peer == peer && dead.life == life;
  });
  if (!again) gone({peer, source_of(peer), life, error, detail, true, true, {}});
}

void Matcher::peer_present(Peer peer, std::uint32_t life) {
  std::erase_if(dead_, [&](const Dead& dead) { return dead.peer == peer && dead.life != life; });
}

// ---- requests --------------------------------------------------------------------------------

/// Gives unexpected messages to `receive`. True if it needs no place on the posted list any more.
bool Matcher::drain_unexpected(Lane& lane, Receive* receive) {
  while (Incoming* incoming = lane.unexpected.find(receive->asked())) {
    lane.unexpected.remove(incoming);
    if (!receive->multi) {
      take(receive, incoming);
      return true;
    }
    incoming->part = reserve(receive, incoming->header.bytes);
    const bool retired = receive->retired;
    take(receive, incoming);  // may free a retired receive
    if (retired) return true;
  }
  return false;
}

int Matcher::post(const ReceiveRequest& request) {
  Receive* receive = make_receive(request);
  if (receive == nullptr) return -ENOMEM;
  Lane& lane = lane_of(request.tagged);
  if (!lane.unexpected.empty() && drain_unexpected(lane, receive)) return 0;
  lane.posted.push_back(receive);
  for (const Dead& dead : dead_) {
    if (!dead.ends(request)) continue;
    end_waiting(lane, receive, dead.peer, dead.error, dead.detail);
    break;
  }
  return 0;
}

int Matcher::peek(const ReceiveRequest& request, Peek how) {
  Lane& lane = lane_of(request.tagged);
  Incoming* incoming = lane.unexpected.find(request.asked());
  // A wildcard peek reports a message only the second time. MPICH handles messages to itself
  // separately, between a probe and the receive of the probed message. If the first peek reported
  // ours, MPICH would receive a different message (MPI_Dist_graph_create over any provider).
  if (incoming != nullptr && how == Peek::look && request.source == any_source &&
      !incoming->peeked) {
    incoming->peeked = true;
    incoming = nullptr;
  }
  if (incoming == nullptr) {
    Header header;
    header.kind = request.tagged ? kind_tagged : 0;
    header.tag = request.tag;
    const Received none = describe(request, request.source, header);
    // Otherwise a caller would probe forever for a message of the dead peer.
    for (const Dead& dead : dead_) {
      if (dead.only_named || !dead.ends(request)) continue;
      reports_.on_receive_failure({none, dead.error, 0, dead.detail});
      return 0;
    }
    const MatchReports::Cause cause = events_.on_probe_in_vain(request.source);
    reports_.on_receive_failure({none, cause.error, 0, cause.detail});
    return 0;
  }
  Received received = describe(request, incoming->from, incoming->header);
  received.bytes = incoming->header.bytes;
  if (how == Peek::claim) {
    lane.unexpected.remove(incoming);
    incoming->claimed = true;
    incoming->claim_context = request.context;
    claimed_.push_back(incoming);
  } else if (how == Peek::discard) {
    lane.unexpected.remove(incoming);
    drop(incoming);
  }
  reports_.on_received(received);
  return 0;
}

/// Discards a kept message, now or when it has arrived completely.
void Matcher::drop(Incoming* incoming) {
  if (incoming->announced) {
    events_.forget(incoming->from, incoming->id);
    --unexpected_.announced;
    return release(incoming);
  }
  incoming->discarded = true;
  if (incoming->arriving)
    posted_.push_back(incoming);
  else
    release(incoming);
}

int Matcher::receive_claimed(const ReceiveRequest& request) {
  Incoming* incoming = find_claimed(request.context);
  if (incoming == nullptr) return -ENOMSG;
  Receive* receive = make_receive(request);
  if (receive == nullptr) return -ENOMEM;
  claimed_.remove(incoming);
  incoming->claimed = false;
  take(receive, incoming);
  return 0;
}

int Matcher::discard_claimed(const ReceiveRequest& request) {
  Incoming* incoming = find_claimed(request.context);
  if (incoming == nullptr) return -ENOMSG;
  claimed_.remove(incoming);
  incoming->claimed = false;
  const Received received = describe(request, incoming->from, incoming->header);
  drop(incoming);
  reports_.on_received(received);
  return 0;
}

Peer Matcher::peer_of(std::uint32_t source) const {
  if (numbered_ == 0 || source == any_source) return source;
  const auto at = std::find(sources_.begin(), sources_.end(), source);
  return at != sources_.end() ? static_cast<Peer>(at - sources_.begin()) : any_source;
}

transport::PendingReceives Matcher::pending_receives() const {
  transport::PendingReceives pending;
  const Receive* const oldest = lanes_[1].posted.head();
  if (oldest == nullptr) return pending;
  pending.receives = static_cast<std::uint32_t>(lanes_[1].posted.size());
  pending.from = peer_of(oldest->source);
  pending.from_anybody = pending.from == any_source;
  pending.tag = oldest->tag;
  return pending;
}

int Matcher::cancel(void* context) {
  for (Lane& lane : lanes_) {
    Receive* const receive = lane.posted.find_name(context);
    if (receive == nullptr) continue;
    end_waiting(lane, receive, any_source, ECANCELED, 0);
    return 0;
  }
  return -ENOENT;
}

}  // namespace penstock::messages

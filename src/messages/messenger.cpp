#include "messages/messenger.hpp"

#include <algorithm>
#include <cstring>
#include <map>
#include <new>
#include <optional>

#include "messages/backpressure.hpp"
#include "messages/fetched.hpp"
#include "base/clock.hpp"
#include "base/format.hpp"
#include "base/log.hpp"
#include "messages/queues.hpp"
#include "transport/layout.hpp"

namespace penstock::messages {

namespace {

using transport::Header;
using transport::Match;
using transport::Message;
using transport::Peer;

/// Time between tries to send a call for which the pool had no room; each may take the pool's lock.
constexpr std::uint64_t try_every_ns = 1'000'000;

/// A receive.
struct Receive {
  Request* request = nullptr;
  std::uint32_t from = any_rank;
  std::uint64_t tag = 0;
  std::byte* data = nullptr;
  std::uint64_t bytes = 0;

  Asked asked() const { return {tag, 0, from}; }
};

/// A receive that waits for its message.
struct Posted : Receive, Item<Posted> {
  const void* name() const { return request; }
};

}  // namespace

struct Messenger::Impl final : transport::EndpointCallbacks, BackpressureOwner {
  /// A message that has begun to arrive, into a receive's buffer or, before there is one, into
  /// memory of its own; or a message that was announced.
  struct Incoming final : transport::Arrival, Item<Incoming> {
    void arrived() override { owner->end_arrival(this, {}); }
    void failed(const Error& error) override { owner->end_arrival(this, unexpected(error)); }
    std::uint32_t sender() const { return from; }
    std::uint64_t tag() const { return with; }
    Peer announcer() const { return peer; }

    Impl* owner = nullptr;
    Peer peer = 0;
    std::uint64_t id = 0;          ///< the sender's id of an announced message
    std::uint64_t kept_bytes = 0;  ///< its share of the unexpected bytes; 0: it is not unexpected
    bool announced = false;        ///< its payload is still at the sender
    std::uint32_t from = 0;
    std::uint64_t with = 0, bytes = 0;
    bool whole = false;
    Result<void> result;
    iovec iov{};
    std::vector<std::byte> kept;  ///< used if no receive waited
    Receive receive;              ///< .request null: there is none yet
  };
  struct Outgoing : AnnouncedSend {
    Outgoing* before = nullptr;
    Outgoing* after = nullptr;
    Request* request = nullptr;
  };
  /// A call that tells a sender how to treat its messages.
  struct Call : transport::SendOp {
    Call* prev = nullptr;
    Call* next = nullptr;
    Peer to = 0;
    std::uint32_t generation = 0;  ///< of the peer
    std::uint64_t token = 0;
  };

  Impl(arena::Arena& the_arena, Options the_options)
      : arena(the_arena),
        options(std::move(the_options)),
        peers(options.ranks),
        gone(options.ranks) {}
  ~Impl() override;

  arena::Arena& arena;
  Options options;
  std::vector<std::optional<Peer>> peers;  ///< by rank: the known peers
  std::map<Peer, std::uint32_t> rank_of;   ///< rank of each known peer, and of each that has sent
  std::vector<std::string> gone;           ///< by rank: "", or why no more messages come from it
  FreeList<Posted> posted_pool;
  FreeList<Incoming> incoming_pool;
  FreeList<Outgoing> outgoing_pool;
  FreeList<Call> call_pool;
  PostedQueue<Posted> posted;
  ArrivedQueue<Incoming> unexpected_ones;
  List<Incoming> arriving;  ///< into a receive's buffer
  Outgoing* outgoing = nullptr;
  List<Call> calls, late_calls;  ///< queued calls, and calls that found no room
  std::uint64_t next_try_ns = 0;
  Backpressure back_pressure{*this};
  Fetched<Incoming> fetched;
  Unexpected had;
  std::uint64_t room = 0;            ///< back_pressure is called when fewer bytes are kept
  std::uint64_t unpolled_bytes = 0;  ///< bytes sent since the last progress
  std::unique_ptr<transport::Endpoint> endpoint;  // destroyed before the members that its callbacks
                                                  // use

  std::string name(std::uint32_t rank) const {
    return fmt::format("rank {} of the {}", rank, options.noun);
  }
  tl::unexpected<Error> no_rank(std::uint32_t rank) const {
    return fail(ErrorCode::invalid_argument, "{} does not exist: there are {} ranks", name(rank),
                options.ranks);
  }
  static tl::unexpected<Error> no_memory() {
    return fail(ErrorCode::no_space, "the process has no memory for another message");
  }
  static void end(Request& request, Result<void> result) {
    request.result = std::move(result);
    request.done = true;
  }
  void match(Incoming* message, const Receive& receive);
  void end_arrival(Incoming* message, Result<void> result);
  void finish(Incoming* message);
  void give(Incoming* message);
  Incoming* begin(const Message& message, std::uint64_t bytes, Posted* receive);
  void keep(Incoming* message);
  void announced(const Message& message);
  void fetch(Incoming* message);
  transport::ReceiveBuffer payload(const Message& message);
  transport::ReceiveBuffer land(Incoming* message, const void* payload);
  void forget_announced(Peer peer, const Error& error);
  void put(Call* call);
  void put_later(Call* call, const Error& error);
  void try_calls_again();
  void poll_while_sending(std::uint64_t bytes);
  void queue(Outgoing* op);
  void unqueue(Outgoing* op);
  void ended(Outgoing* op, Result<void> result);
  void lose(Peer peer, const std::string& description, const char* how);

  transport::ReceiveBuffer on_message(const Message& message) override;
  void on_sent(transport::SendOp* op) override;  // and of BackpressureOwner
  void on_send_failed(transport::SendOp* op, const Error& error) override;
  void on_peer_dead(Peer peer, const std::string& description) override {
    lose(peer, description, "has died");
  }
  void on_peer_left(Peer peer, const std::string& description) override {
    lose(peer, description, "has left");
  }
  // BackpressureOwner
  void end_send(AnnouncedSend* op) override { ended(static_cast<Outgoing*>(op), {}); }
  void fail_send(AnnouncedSend* op, const Error& error) override {
    ended(static_cast<Outgoing*>(op), unexpected(error));
  }
  void post_call(Peer to, const Header& header, const std::uint64_t* token) override;
  const Unexpected& kept() const override { return had; }
  std::uint64_t announced_bytes() const override { return sizeof(Incoming); }
  void set_room(std::uint64_t bytes) override { room = bytes; }
  bool awaits(Peer peer) const override;
  void fail_awaiting(Peer peer, const std::string& why) override;
};

Messenger::Impl::~Impl() {
  if (endpoint != nullptr) back_pressure.print();
  endpoint.reset();
  while (Incoming* message = unexpected_ones.pop_front()) incoming_pool.give(message);
  while (Incoming* message = arriving.pop_front()) incoming_pool.give(message);
}

// ---- arriving messages --------------------------------------------------------------------------

void Messenger::Impl::match(Incoming* message, const Receive& receive) {
  message->receive = receive;
  receive.request->source = message->from;
  receive.request->bytes = message->bytes;
  arriving.push_back(message);
}

/// The receive and the whole message are there.
void Messenger::Impl::finish(Incoming* message) {
  const Receive& receive = message->receive;
  const std::uint64_t fits = std::min(message->bytes, receive.bytes);
  if (message->result && !message->kept.empty())
    std::memcpy(receive.data, message->kept.data(), fits);
  if (message->result && message->bytes > receive.bytes)
    message->result = fail(ErrorCode::invalid_argument,
                           "{} sent {} bytes with tag {}, and the receive has room for {}",
                           name(message->from), message->bytes, message->with, receive.bytes);
  end(*receive.request, message->result);
  arriving.remove(message);
  give(message);
}

void Messenger::Impl::give(Incoming* message) {
  const std::uint64_t kept = message->kept_bytes;
  incoming_pool.give(message);
  if (kept == 0) return;
  --had.messages;
  had.bytes -= kept;
  if (had.bytes >= room) return;
  room = 0;
  back_pressure.room();
}

void Messenger::Impl::end_arrival(Incoming* message, Result<void> result) {
  message->whole = true;
  message->result = std::move(result);
  if (message->receive.request != nullptr) finish(message);
}

transport::ReceiveBuffer Messenger::Impl::on_message(const Message& message) {
  const Header& header = message.header;
  const bool whole = message.payload != nullptr || header.bytes == 0;
  if (header.kind == kind_payload) return payload(message);
  if (header.kind == kind_hold) {
    if (whole) back_pressure.call(message.from, header, message.payload);
    return {};
  }
  if ((header.kind & kind_announced) != 0) {
    if (whole) announced(message);
    return {};
  }
  Posted* const receive = posted.find(static_cast<std::uint32_t>(header.data), header.tag);
  if (receive == nullptr && message.may_wait) return {.match = Match::later};
  if (receive == nullptr && message.may_wait_for_room && had.bytes > back_pressure.limit()) {
    back_pressure.too_many(message.from);
    return {.match = Match::no_room};
  }
  Incoming* const entry = begin(message, header.bytes, receive);
  if (receive == nullptr) keep(entry);
  return land(entry, message.payload);
}

Messenger::Impl::Incoming* Messenger::Impl::begin(const Message& message, std::uint64_t bytes,
                                                  Posted* receive) {
  Incoming* const entry = incoming_pool.take();
  if (entry == nullptr) throw std::bad_alloc();
  entry->owner = this;
  entry->peer = message.from;
  entry->from = static_cast<std::uint32_t>(message.header.data);
  entry->with = message.header.tag;
  entry->bytes = bytes;
  if (entry->from < options.ranks) rank_of[message.from] = entry->from;
  if (receive == nullptr) {
    unexpected_ones.push_back(entry);
    return entry;
  }
  match(entry, *receive);
  posted.remove(receive);
  posted_pool.give(receive);
  return entry;
}

/// It takes this process's memory until a receive is posted.
void Messenger::Impl::keep(Incoming* message) {
  message->kept_bytes = sizeof(Incoming) + message->bytes;
  ++had.messages;
  had.bytes += message->kept_bytes;
  had.peak_bytes = std::max(had.peak_bytes, had.bytes);
  if (had.bytes > back_pressure.limit()) back_pressure.too_many(message->peer);
}

/// `payload`: the whole message, or null if it is still in the pool.
transport::ReceiveBuffer Messenger::Impl::land(Incoming* message, const void* payload) {
  const bool awaited = message->receive.request != nullptr;
  if (payload != nullptr || message->bytes == 0) {
    const auto* const bytes = static_cast<const std::byte*>(payload);
    if (awaited)
      std::copy_n(bytes, std::min(message->bytes, message->receive.bytes), message->receive.data);
    else
      message->kept.assign(bytes, bytes + message->bytes);
    end_arrival(message, {});
    return {};
  }
  if (!awaited) {
    message->kept.resize(message->bytes);
    message->iov = {message->kept.data(), message->kept.size()};
  } else {
    message->iov = {message->receive.data, std::min(message->bytes, message->receive.bytes)};
  }
  return {.iov = &message->iov,
          .iov_count = 1,
          .arrival = message,
          .match = awaited ? Match::posted : Match::unexpected};
}

// ---- announced messages -------------------------------------------------------------------------

void Messenger::Impl::announced(const Message& message) {
  Announcement announcement;
  if (message.header.bytes != sizeof announcement) return;
  std::memcpy(&announcement, message.payload, sizeof announcement);
  if (announcement.bytes > transport::max_message_bytes) return;
  Posted* const receive =
      posted.find(static_cast<std::uint32_t>(message.header.data), message.header.tag);
  back_pressure.announced(message.from, receive != nullptr);
  Incoming* const entry = begin(message, announcement.bytes, receive);
  entry->announced = true;
  entry->id = announcement.id;
  ++had.announced;
  if (receive != nullptr) return fetch(entry);
  had.peak_announced = std::max(had.peak_announced, had.announced);
}

/// The message has met a receive.
void Messenger::Impl::fetch(Incoming* message) {
  --had.announced;
  message->announced = false;
  back_pressure.fetch(message->peer, message->id, fetched.add(message));
}

transport::ReceiveBuffer Messenger::Impl::payload(const Message& message) {
  const Header& header = message.header;
  Incoming* const entry = fetched.take(message.from, header.data, header.tag);
  if (entry == nullptr) return {};
  entry->bytes = entry->receive.request->bytes = header.bytes;
  return land(entry, message.payload);
}

/// Messages that a dead or departed peer has announced will not come.
void Messenger::Impl::forget_announced(Peer peer, const Error& error) {
  fetched.take_all_of(peer, [&](Incoming* message) { end_arrival(message, unexpected(error)); });
  for (Incoming* one = unexpected_ones.head(); one != nullptr;) {
    Incoming* const next = one->next;
    if (one->announced && one->peer == peer) {
      unexpected_ones.remove(one);
      --had.announced;
      give(one);
    }
    one = next;
  }
}

bool Messenger::Impl::awaits(Peer peer) const {
  const auto rank = rank_of.find(peer);
  const Posted* one = posted.head();
  while (one != nullptr && one->from != any_rank &&
         (rank == rank_of.end() || one->from != rank->second))
    one = one->next;
  return one != nullptr;
}

void Messenger::Impl::fail_awaiting(Peer peer, const std::string& why) {
  const auto rank = rank_of.find(peer);
  for (Posted* one = posted.head(); one != nullptr;) {
    Posted* const next = one->next;
    if (one->from == any_rank || (rank != rank_of.end() && one->from == rank->second)) {
      end(*one->request, fail(ErrorCode::no_space, "{}", why));
      posted.remove(one);
      posted_pool.give(one);
    }
    one = next;
  }
}

// ---- calls to senders --------------------------------------------------------------------------

void Messenger::Impl::post_call(Peer to, const Header& header, const std::uint64_t* token) {
  Call* const call = call_pool.take();
  if (call == nullptr) throw std::bad_alloc();
  call->header = header;
  call->token = token != nullptr ? *token : 0;
  call->iov[0] = {&call->token, header.bytes};
  call->iov_count = 1;
  call->urgent = true;
  call->to = to;
  call->generation = endpoint->sender_generation(to);
  put(call);
}

void Messenger::Impl::put(Call* call) {
  auto sent = endpoint->answer(call->to, call->generation, call);
  if (sent && !*sent) return calls.push_back(call);
  if (!sent) return put_later(call, sent.error());
  call_pool.give(call);
}

/// Keeps the call for a later try, unless the peer is gone.
void Messenger::Impl::put_later(Call* call, const Error& error) {
  const bool later = error.code == ErrorCode::no_space || error.code == ErrorCode::deadline ||
                     error.code == ErrorCode::unavailable;
  if (later) return late_calls.push_back(call);
  base::log(base::Level::debug, "a sender is not told: {}", error.message);
  call_pool.give(call);
}

void Messenger::Impl::try_calls_again() {
  const std::uint64_t now = base::now_ns();
  if (now < next_try_ns) return;
  next_try_ns = now + try_every_ns;
  List<Call> tried;
  std::swap(tried, late_calls);
  while (Call* const call = tried.pop_front()) put(call);
}

// ---- sends -------------------------------------------------------------------------------------

void Messenger::Impl::on_sent(transport::SendOp* op) {
  if (op->header.kind == kind_hold) {
    calls.remove(static_cast<Call*>(op));
    return call_pool.give(static_cast<Call*>(op));
  }
  auto* const send = static_cast<Outgoing*>(op);
  if ((op->header.kind & kind_service) == 0 &&
      (op->header.kind & kind_announced) != 0)
    return back_pressure.sent(send);
  ended(send, {});
}

void Messenger::Impl::on_send_failed(transport::SendOp* op, const Error& error) {
  if (op->header.kind == kind_hold) {
    calls.remove(static_cast<Call*>(op));
    return put_later(static_cast<Call*>(op), error);
  }
  auto* const send = static_cast<Outgoing*>(op);
  if (send->stage == AnnouncedSend::Stage::announcing) back_pressure.unsent(send);
  ended(send, unexpected(error));
}

/// The send did not complete within the call.
void Messenger::Impl::queue(Outgoing* op) {
  op->after = outgoing;
  if (outgoing != nullptr) outgoing->before = op;
  outgoing = op;
}

void Messenger::Impl::unqueue(Outgoing* op) {
  (op->before != nullptr ? op->before->after : outgoing) = op->after;
  if (op->after != nullptr) op->after->before = op->before;
  outgoing_pool.give(op);
}

void Messenger::Impl::ended(Outgoing* op, Result<void> result) {
  end(*op->request, std::move(result));
  unqueue(op);
}

/// Polls now and then for calls of receivers, in a program that only sends.
void Messenger::Impl::poll_while_sending(std::uint64_t bytes) {
  constexpr int looks = 16;  // one in sixteen finds a new channel
  unpolled_bytes += bytes + 1024;
  if (unpolled_bytes < back_pressure.poll_interval_bytes()) return;
  unpolled_bytes = 0;
  for (int look = 0; look < looks; ++look) endpoint->progress();
}

void Messenger::Impl::lose(Peer peer, const std::string& description, const char* how) {
  const Error error{ErrorCode::peer_dead, fmt::format("{} {}", description, how)};
  back_pressure.gone(peer, error);
  forget_announced(peer, error);
  const auto found = rank_of.find(peer);
  if (found == rank_of.end()) return;
  const std::uint32_t rank = found->second;
  gone[rank] = fmt::format("{}, {}, {}", name(rank), description, how);
  for (Posted* one = posted.head(); one != nullptr;) {
    Posted* const next = one->next;
    if (one->from == rank) {
      end(*one->request, fail(ErrorCode::peer_dead, "a receive: {}", gone[rank]));
      posted.remove(one);
      posted_pool.give(one);
    }
    one = next;
  }
}

Result<std::unique_ptr<Messenger>> Messenger::open(arena::Arena& arena, Options options) {
  auto impl = std::make_unique<Impl>(arena, std::move(options));
  // Only processes that were given an address reach an endpoint, so all endpoints have one job.
  // Ranks with nothing under way have returned all credits, so closing waits only for ranks that
  // compute before they receive.
  constexpr std::uint64_t longest_closing_ns = 20'000'000;
  impl->endpoint = PENSTOCK_TRY(transport::Endpoint::open(arena, *impl,
                                                          {.job = "penstock.messages",
                                                           .closing_timeout_ns = longest_closing_ns,
                                                           .peers_may_take_later = true,
                                                           .peers_may_be_of_other_jobs = true}));
  PENSTOCK_TRY(impl->back_pressure.set_up(*impl->endpoint, impl->options.longest_unasked));
  return std::make_unique<Messenger>(std::move(impl));
}

Messenger::Messenger(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
Messenger::~Messenger() = default;

transport::Address Messenger::address() const {
  return impl_->endpoint->address();
}

Result<void> Messenger::meet(std::uint32_t rank, const transport::Address& address) {
  Impl& my = *impl_;
  if (rank >= my.options.ranks) return my.no_rank(rank);
  auto peer = my.endpoint->resolve(address);
  if (!peer) return fail(peer.error().code, "{}: {}", my.name(rank), peer.error().message);
  my.peers[rank] = *peer;
  my.rank_of[*peer] = rank;
  return {};
}

bool Messenger::knows(std::uint32_t rank) const {
  return rank < impl_->options.ranks && impl_->peers[rank].has_value();
}

void Messenger::send(std::uint32_t to, std::uint64_t tag, const void* data, std::uint64_t bytes,
                     Request& request) {
  Impl& my = *impl_;
  request = {};
  if (to >= my.options.ranks) return Impl::end(request, my.no_rank(to));
  if (!my.peers[to])
    return Impl::end(request, fail(ErrorCode::invalid_argument,
                                   "the address of {} is not known: meet it first", my.name(to)));
  Impl::Outgoing* const entry = my.outgoing_pool.take();
  if (entry == nullptr) return Impl::end(request, Impl::no_memory());
  entry->request = &request;
  entry->peer = *my.peers[to];
  entry->header = {
      .tag = tag, .data = my.options.self, .bytes = bytes, .kind = kind_tagged};
  entry->iov[0] = {const_cast<void*>(data), bytes};  // NOLINT: it is only read
  entry->iov_count = 1;
  my.queue(entry);
  my.poll_while_sending(bytes);
  if (my.back_pressure.concerns(entry->peer, entry->header)) return my.back_pressure.add(entry);
  auto sent = my.endpoint->send(entry->peer, entry);
  if (sent && !*sent) return;
  my.ended(entry, sent ? Result<void>() : Result<void>(unexpected(sent.error())));
}

void Messenger::receive(std::uint32_t from, std::uint64_t tag, void* data, std::uint64_t bytes,
                        Request& request) {
  Impl& my = *impl_;
  request = {};
  if (from != any_rank && from >= my.options.ranks) return Impl::end(request, my.no_rank(from));
  const Receive receive{&request, from, tag, static_cast<std::byte*>(data), bytes};
  if (Impl::Incoming* const message = my.unexpected_ones.find(receive.asked())) {
    my.unexpected_ones.remove(message);
    my.match(message, receive);
    if (message->announced)
      my.fetch(message);
    else if (message->whole)
      my.finish(message);
    if (!busy()) my.endpoint->return_credits();
    return;
  }
  if (from != any_rank && !my.gone[from].empty())
    return Impl::end(request, fail(ErrorCode::peer_dead, "a receive: {}", my.gone[from]));
  Posted* const waiting = my.posted_pool.take();
  if (waiting == nullptr) return Impl::end(request, Impl::no_memory());
  static_cast<Receive&>(*waiting) = receive;
  my.posted.push_back(waiting);
  const bool known = from != any_rank && my.peers[from];
  (void)my.back_pressure.wanted(known ? *my.peers[from] : any_source);
}

bool Messenger::progress() {
  impl_->unpolled_bytes = 0;
  if (!impl_->late_calls.empty()) impl_->try_calls_again();
  const bool moved = impl_->endpoint->progress() != 0;
  if (!busy()) impl_->endpoint->return_credits();
  return moved;
}

bool Messenger::cancel(Request& request) {
  Impl& my = *impl_;
  if (Posted* const receive = my.posted.find_name(&request)) {
    my.posted.remove(receive);
    my.posted_pool.give(receive);
    return true;
  }
  Impl::Outgoing* op = my.outgoing;
  while (op != nullptr && op->request != &request) op = op->after;
  if (op == nullptr || !my.back_pressure.cancel(op)) return false;
  my.unqueue(op);
  return true;
}

std::uint64_t Messenger::peak_unexpected_bytes() const {
  return impl_->had.peak_bytes;
}

bool Messenger::busy() const {
  return !impl_->posted.empty() || impl_->outgoing != nullptr || !impl_->arriving.empty();
}

}  // namespace penstock::messages

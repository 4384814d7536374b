#include "messages/messenger.hpp"

#include <algorithm>
#include <cstring>
#include <map>
#include <new>
#include <optional>

#include "base/format.hpp"
#include "matching/queues.hpp"

namespace penstock::messages {

namespace {

using transport::Match;
using transport::Message;
using transport::Peer;

static_assert(any_rank == matching::any_source);

/// A receive.
struct Receive {
  Request* request = nullptr;
  std::uint32_t from = any_rank;
  std::uint64_t tag = 0;
  std::byte* data = nullptr;
  std::uint64_t bytes = 0;

  matching::Asked asked() const { return {tag, 0, from}; }
};

/// One that waits for its message.
struct Posted : Receive, matching::Item<Posted> {
  const void* name() const { return request; }
};

}  // namespace

struct Messenger::Impl final : transport::EndpointCallbacks {
  /// A message that has begun to come: into a receive's buffer or, before there is one, into
  /// memory of its own.
  struct Incoming final : transport::Arrival, matching::Item<Incoming> {
    void arrived() override { owner->come(this, {}); }
    void failed(const Error& error) override { owner->come(this, unexpected(error)); }
    std::uint32_t sender() const { return from; }
    std::uint64_t tag() const { return with; }

    Impl* owner = nullptr;
    std::uint32_t from = 0;
    std::uint64_t with = 0, bytes = 0;
    bool whole = false;
    Result<void> result;
    iovec iov{};
    std::vector<std::byte> kept;  ///< where no receive waited
    Receive receive;              ///< .request null: none yet
  };
  struct Outgoing : transport::SendOp {
    Outgoing* prev = nullptr;
    Outgoing* next = nullptr;
    Request* request = nullptr;
    std::uint32_t to = 0;
  };

  Impl(arena::Arena& the_arena, Options the_options)
      : arena(the_arena),
        options(std::move(the_options)),
        peers(options.ranks),
        gone(options.ranks) {}
  ~Impl() override;

  arena::Arena& arena;
  Options options;
  std::vector<std::optional<Peer>> peers;  ///< by rank: those that are known
  std::map<Peer, std::uint32_t> rank_of;   ///< of those and of all who have sent
  std::vector<std::string> gone;           ///< by rank: "", or why nothing comes from it any more
  matching::FreeList<Posted> posted_pool;
  matching::FreeList<Incoming> incoming_pool;
  matching::FreeList<Outgoing> outgoing_pool;
  matching::PostedQueue<Posted> posted;
  matching::ArrivedQueue<Incoming> unexpected_ones;
  matching::List<Incoming> arriving;  ///< to a receive
  matching::List<Outgoing> outgoing;
  std::unique_ptr<transport::Endpoint> endpoint;  // gone before what it calls

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
  void come(Incoming* message, Result<void> result);
  void finish(Incoming* message);
  void lose(Peer peer, const std::string& description, const char* how);

  transport::ReceiveBuffer on_message(const Message& message) override;
  void on_sent(transport::SendOp* op) override { ended(static_cast<Outgoing*>(op), {}); }
  void on_send_failed(transport::SendOp* op, const Error& error) override {
    ended(static_cast<Outgoing*>(op), unexpected(error));
  }
  void ended(Outgoing* op, Result<void> result) {
    end(*op->request, std::move(result));
    outgoing.remove(op);
    outgoing_pool.give(op);
  }
  void on_peer_dead(Peer peer, const std::string& description) override {
    lose(peer, description, "has died");
  }
  void on_peer_left(Peer peer, const std::string& description) override {
    lose(peer, description, "has left");
  }
};

Messenger::Impl::~Impl() {
  endpoint.reset();
  while (Incoming* message = unexpected_ones.pop_front()) incoming_pool.give(message);
  while (Incoming* message = arriving.pop_front()) incoming_pool.give(message);
  while (Outgoing* op = outgoing.pop_front()) outgoing_pool.give(op);
}

void Messenger::Impl::match(Incoming* message, const Receive& receive) {
  message->receive = receive;
  receive.request->source = message->from;
  receive.request->bytes = message->bytes;
  arriving.push_back(message);
}

/// The receive and all of the message are there.
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
  incoming_pool.give(message);
}

void Messenger::Impl::come(Incoming* message, Result<void> result) {
  message->whole = true;
  message->result = std::move(result);
  if (message->receive.request != nullptr) finish(message);
}

transport::ReceiveBuffer Messenger::Impl::on_message(const Message& message) {
  const transport::Header& header = message.header;
  const auto from = static_cast<std::uint32_t>(header.data);
  if (from < options.ranks) rank_of[message.from] = from;
  Posted* const receive = posted.find(from, header.tag);
  const bool awaited = receive != nullptr;
  if (message.payload == nullptr && !awaited && message.may_wait) return {.match = Match::later};
  Incoming* const entry = incoming_pool.take();
  if (entry == nullptr) throw std::bad_alloc();
  entry->owner = this;
  entry->from = from;
  entry->with = header.tag;
  entry->bytes = header.bytes;
  if (awaited) {
    match(entry, *receive);
    posted.remove(receive);
    posted_pool.give(receive);
  } else {
    unexpected_ones.push_back(entry);
  }
  if (message.payload != nullptr || header.bytes == 0) {
    const auto* const bytes = static_cast<const std::byte*>(message.payload);
    if (awaited)
      std::copy_n(bytes, std::min(header.bytes, entry->receive.bytes), entry->receive.data);
    else
      entry->kept.assign(bytes, bytes + header.bytes);
    come(entry, {});
    return {};
  }
  if (!awaited) {
    entry->kept.resize(header.bytes);
    entry->iov = {entry->kept.data(), entry->kept.size()};
  } else {
    entry->iov = {entry->receive.data, std::min(header.bytes, entry->receive.bytes)};
  }
  return {.iov = &entry->iov,
          .iov_count = 1,
          .arrival = entry,
          .match = awaited ? Match::posted : Match::unexpected};
}

void Messenger::Impl::lose(Peer peer, const std::string& description, const char* how) {
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
  // Only who was given an address reaches an endpoint, so the job says nothing here.
  constexpr std::uint64_t longest_closing_ns = 2'000'000'000;
  impl->endpoint = PENSTOCK_TRY(transport::Endpoint::open(
      arena, *impl, {.job = "penstock.messages", .closing_timeout_ns = longest_closing_ns}));
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
  entry->to = to;
  entry->header = {.tag = tag, .data = my.options.self, .bytes = bytes};
  entry->iov[0] = {const_cast<void*>(data), bytes};  // NOLINT: it is only read
  entry->iov_count = 1;
  my.outgoing.push_back(entry);
  auto sent = my.endpoint->send(*my.peers[to], entry);
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
    if (message->whole) my.finish(message);
    return;
  }
  if (from != any_rank && !my.gone[from].empty())
    return Impl::end(request, fail(ErrorCode::peer_dead, "a receive: {}", my.gone[from]));
  Posted* const waiting = my.posted_pool.take();
  if (waiting == nullptr) return Impl::end(request, Impl::no_memory());
  static_cast<Receive&>(*waiting) = receive;
  my.posted.push_back(waiting);
}

bool Messenger::progress() {
  return impl_->endpoint->progress() != 0;
}

bool Messenger::cancel(Request& request) {
  Impl& my = *impl_;
  if (Posted* const receive = my.posted.find_name(&request)) {
    my.posted.remove(receive);
    my.posted_pool.give(receive);
    return true;
  }
  Impl::Outgoing* op = my.outgoing.head();
  while (op != nullptr && op->request != &request) op = op->next;
  if (op == nullptr || !my.endpoint->cancel(*my.peers[op->to], op)) return false;
  my.outgoing.remove(op);
  my.outgoing_pool.give(op);
  return true;
}

bool Messenger::busy() const {
  return !impl_->posted.empty() || !impl_->outgoing.empty() || !impl_->arriving.empty();
}

}  // namespace penstock::messages

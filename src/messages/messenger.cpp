#include "messages/messenger.hpp"

#include <algorithm>
#include <cstring>
#include <optional>

#include "base/format.hpp"

namespace penstock::messages {

namespace {

using transport::Match;
using transport::Message;
using transport::Peer;

/// A receive that waits for its message.
struct Posted {
  Request* request = nullptr;
  std::uint32_t from = any_rank;
  std::uint64_t tag = 0;
  std::byte* data = nullptr;
  std::uint64_t bytes = 0;
  bool takes(std::uint32_t rank, std::uint64_t message_tag) const {
    return tag == message_tag && (from == any_rank || from == rank);
  }
};

}  // namespace

struct Messenger::Impl final : transport::EndpointCallbacks {
  /// A message that has begun to come: into a receive's buffer or, before there is one, into
  /// memory of its own.
  struct Incoming final : transport::Arrival {
    Incoming(Impl& the_owner, std::uint32_t the_sender, std::uint64_t the_tag, std::uint64_t length)
        : owner(the_owner), from(the_sender), tag(the_tag), bytes(length) {}
    void arrived() override { owner.come(*this, {}); }
    void failed(const Error& error) override { owner.come(*this, unexpected(error)); }

    Impl& owner;
    std::uint32_t from;
    std::uint64_t tag, bytes;
    bool whole = false;
    Result<void> result;
    iovec iov{};
    std::vector<std::byte> kept;  ///< where no receive waited
    Posted receive;               ///< .request null: none yet
  };
  struct Outgoing {
    transport::SendOp op;
    Request* request = nullptr;
    std::uint32_t to = 0;
  };

  Impl(arena::Arena& the_arena, Options the_options)
      : arena(the_arena),
        options(std::move(the_options)),
        peers(options.ranks),
        gone(options.ranks) {}

  arena::Arena& arena;
  Options options;
  std::vector<std::optional<Peer>> peers;  ///< by rank: those that are known
  std::map<Peer, std::uint32_t> rank_of;   ///< of those and of all who have sent
  std::vector<std::string> gone;           ///< by rank: "", or why nothing comes from it any more
  std::list<Posted> posted;
  std::list<Incoming> incoming;  ///< in the order of their beginnings
  std::list<Outgoing> outgoing;
  std::unique_ptr<transport::Endpoint> endpoint;  // gone before what it calls

  std::string name(std::uint32_t rank) const {
    return fmt::format("rank {} of the {}", rank, options.noun);
  }
  tl::unexpected<Error> no_rank(std::uint32_t rank) const {
    return fail(ErrorCode::invalid_argument, "{} does not exist: there are {} ranks", name(rank),
                options.ranks);
  }
  static void end(Request& request, Result<void> result) {
    request.result = std::move(result);
    request.done = true;
  }
  void match(Incoming& message, const Posted& receive);
  void come(Incoming& message, Result<void> result);
  void finish(Incoming& message);
  void lose(Peer peer, const std::string& description, const char* how);

  transport::ReceiveBuffer on_message(const Message& message) override;
  void on_sent(transport::SendOp* op) override { ended(op, {}); }
  void on_send_failed(transport::SendOp* op, const Error& error) override {
    ended(op, unexpected(error));
  }
  void ended(const transport::SendOp* op, Result<void> result) {
    const auto found = std::find_if(outgoing.begin(), outgoing.end(),
                                    [op](const Outgoing& one) { return &one.op == op; });
    if (found == outgoing.end()) return;
    end(*found->request, std::move(result));
    outgoing.erase(found);
  }
  void on_peer_dead(Peer peer, const std::string& description) override {
    lose(peer, description, "has died");
  }
  void on_peer_left(Peer peer, const std::string& description) override {
    lose(peer, description, "has left");
  }
};

void Messenger::Impl::match(Incoming& message, const Posted& receive) {
  message.receive = receive;
  receive.request->source = message.from;
  receive.request->bytes = message.bytes;
}

/// The receive and all of the message are there.
void Messenger::Impl::finish(Incoming& message) {
  const Posted& receive = message.receive;
  const std::uint64_t fits = std::min(message.bytes, receive.bytes);
  if (message.result && !message.kept.empty()) std::memcpy(receive.data, message.kept.data(), fits);
  if (message.result && message.bytes > receive.bytes)
    message.result = fail(ErrorCode::invalid_argument,
                          "{} sent {} bytes with tag {}, and the receive has room for {}",
                          name(message.from), message.bytes, message.tag, receive.bytes);
  end(*receive.request, message.result);
  incoming.remove_if([&](const Incoming& one) { return &one == &message; });
}

void Messenger::Impl::come(Incoming& message, Result<void> result) {
  message.whole = true;
  message.result = std::move(result);
  if (message.receive.request != nullptr) finish(message);
}

transport::ReceiveBuffer Messenger::Impl::on_message(const Message& message) {
  const transport::Header& header = message.header;
  const auto from = static_cast<std::uint32_t>(header.data);
  if (from < options.ranks) rank_of[message.from] = from;
  const auto receive = std::find_if(posted.begin(), posted.end(),
                                    [&](const Posted& one) { return one.takes(from, header.tag); });
  const bool awaited = receive != posted.end();
  if (message.payload == nullptr && !awaited && message.may_wait) return {.match = Match::later};
  Incoming& entry = incoming.emplace_back(*this, from, header.tag, header.bytes);
  if (awaited) {
    match(entry, *receive);
    posted.erase(receive);
  }
  if (message.payload != nullptr || header.bytes == 0) {
    const auto* const bytes = static_cast<const std::byte*>(message.payload);
    if (awaited)
      std::copy_n(bytes, std::min(header.bytes, entry.receive.bytes), entry.receive.data);
    else
      entry.kept.assign(bytes, bytes + header.bytes);
    come(entry, {});
    return {};
  }
  if (!awaited) {
    entry.kept.resize(header.bytes);
    entry.iov = {entry.kept.data(), entry.kept.size()};
  } else {
    entry.iov = {entry.receive.data, std::min(header.bytes, entry.receive.bytes)};
  }
  return {.iov = &entry.iov,
          .iov_count = 1,
          .arrival = &entry,
          .match = awaited ? Match::posted : Match::unexpected};
}

void Messenger::Impl::lose(Peer peer, const std::string& description, const char* how) {
  const auto found = rank_of.find(peer);
  if (found == rank_of.end()) return;
  const std::uint32_t rank = found->second;
  gone[rank] = fmt::format("{}, {}, {}", name(rank), description, how);
  for (auto one = posted.begin(); one != posted.end();) {
    if (one->from != rank) {
      ++one;
      continue;
    }
    end(*one->request, fail(ErrorCode::peer_dead, "a receive: {}", gone[rank]));
    one = posted.erase(one);
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
  Impl::Outgoing& entry = my.outgoing.emplace_back();
  entry.request = &request;
  entry.to = to;
  entry.op.header = {.tag = tag, .data = my.options.self, .bytes = bytes};
  entry.op.iov[0] = {const_cast<void*>(data), bytes};  // NOLINT: it is only read
  entry.op.iov_count = 1;
  auto sent = my.endpoint->send(*my.peers[to], &entry.op);
  if (sent && !*sent) return;
  my.ended(&entry.op, sent ? Result<void>() : Result<void>(unexpected(sent.error())));
}

void Messenger::receive(std::uint32_t from, std::uint64_t tag, void* data, std::uint64_t bytes,
                        Request& request) {
  Impl& my = *impl_;
  request = {};
  if (from != any_rank && from >= my.options.ranks) return Impl::end(request, my.no_rank(from));
  const Posted receive{&request, from, tag, static_cast<std::byte*>(data), bytes};
  const auto message =
      std::find_if(my.incoming.begin(), my.incoming.end(), [&](const Impl::Incoming& one) {
        return one.receive.request == nullptr && receive.takes(one.from, one.tag);
      });
  if (message != my.incoming.end()) {
    my.match(*message, receive);
    if (message->whole) my.finish(*message);
    return;
  }
  if (from != any_rank && !my.gone[from].empty())
    return Impl::end(request, fail(ErrorCode::peer_dead, "a receive: {}", my.gone[from]));
  my.posted.push_back(receive);
}

bool Messenger::progress() {
  return impl_->endpoint->progress() != 0;
}

bool Messenger::cancel(Request& request) {
  Impl& my = *impl_;
  const auto receives =
      my.posted.remove_if([&](const Posted& one) { return one.request == &request; });
  if (receives != 0) return true;
  const auto send = std::find_if(my.outgoing.begin(), my.outgoing.end(),
                                 [&](const auto& one) { return one.request == &request; });
  if (send == my.outgoing.end() || !my.endpoint->cancel(*my.peers[send->to], &send->op))
    return false;
  my.outgoing.erase(send);
  return true;
}

bool Messenger::busy() const {
  const auto begun = [](const Impl::Incoming& one) { return one.receive.request != nullptr; };
  return !impl_->posted.empty() || !impl_->outgoing.empty() ||
         std::any_of(impl_->incoming.begin(), impl_->incoming.end(), begun);
}

}  // namespace penstock::messages

#include "messages/messenger.hpp"

#include <algorithm>
#include <cerrno>
#include <deque>
#include <optional>

#include "base/clock.hpp"
#include "base/format.hpp"
#include "base/log.hpp"
#include "messages/awaited_ranks.hpp"
#include "messages/engine.hpp"

namespace penstock::messages {

static_assert(any_rank == any_source);

struct Messenger::Impl final : Completions {
  Impl(Options the_options, pool::Pool& the_pool)
      : options(std::move(the_options)),
        pool(the_pool),
        peers(options.ranks),
        unmet(options.ranks),
        awaited(pool, options.self, options.ranks) {}

  /// A send to a rank whose address is not known yet.
  struct Unmet {
    std::uint64_t tag;
    const void* data;
    std::uint64_t bytes;
    Request* request;
  };
  Options options;
  pool::Pool& pool;
  std::vector<std::optional<Peer>> peers;  ///< by rank: those that it has met
  std::vector<std::deque<Unmet>> unmet;    ///< by rank
  std::vector<Error> errors;               ///< Cause::detail is the number of one, from 1
  AwaitedRanks awaited;                    ///< by receives, and by sends to those that are not met
  std::uint32_t polls = 0;
  Engine engine{*this};  // destroyed before what its callbacks use

  std::string name(std::uint64_t rank) const {
    return fmt::format("rank {} of the {}", rank, options.noun);
  }
  tl::unexpected<Error> no_rank(std::uint32_t rank) const {
    return fail(ErrorCode::invalid_argument, "{} does not exist: there are {} ranks", name(rank),
                options.ranks);
  }
  static tl::unexpected<Error> no_memory() {
    return fail(ErrorCode::no_space, "the process has no memory for another message");
  }
  static void end(void* request, Result<void> result) {
    static_cast<Request*>(request)->result = std::move(result);
    static_cast<Request*>(request)->done = true;
  }
  bool busy() const { return awaited.any() || engine.sends(); }
  Cause remember(const Error& error);
  void begin_send(std::uint32_t to, const Unmet& send);
  void fail_unmet(std::uint32_t rank, const Error& error);
  bool cancel_unmet(const Request& request);
  void look();
  void lose(std::uint32_t rank);
  void set_ended(std::uint32_t rank, const Error& error);
  void lose_message(const ReceiveFailure& failure);

  // Completions
  void on_received(const Received& received) override;
  void on_receive_failure(const ReceiveFailure& failure) override;
  Cause cause_of(const Error& error) override { return remember(error); }
  Cause cause_of_flood(const std::string& why) override {
    return remember({ErrorCode::no_space, why});
  }
  void on_sent(const Sent& sent) override { end(sent.context, {}); }
  void on_send_failed(const Sent& sent, const Error& error) override {
    end(sent.context, unexpected(error));
  }
  void on_send_cancelled(const Sent&) override {}
  Departure on_peer_gone(Peer peer, const std::string& description, bool left) override;
};

/// One death fails many receives by the same error.
MatchReports::Cause Messenger::Impl::remember(const Error& error) {
  const auto known = std::find_if(errors.begin(), errors.end(), [&](const Error& one) {
    return one.code == error.code && one.message == error.message;
  });
  const auto number = static_cast<int>(known - errors.begin()) + 1;
  if (known == errors.end()) errors.push_back(error);
  return {static_cast<int>(error.code), number};
}

static void describe(Request& request, const Received& received) {
  request.source = static_cast<std::uint32_t>(received.data);
  request.bytes = received.bytes;
}

void Messenger::Impl::on_received(const Received& received) {
  awaited.end(static_cast<Request*>(received.context)->source);
  describe(*static_cast<Request*>(received.context), received);
  end(received.context, {});
}

void Messenger::Impl::on_receive_failure(const ReceiveFailure& failure) {
  const Received& what = failure.what;
  if (what.context == nullptr) return lose_message(failure);
  Request& request = *static_cast<Request*>(what.context);
  awaited.end(request.source);
  if (failure.error == ECANCELED && failure.detail == 0) return;
  if (failure.detail != 0)
    return end(&request, unexpected(errors[static_cast<std::size_t>(failure.detail) - 1]));
  describe(request, what);
  request.bytes += failure.overflow;
  end(&request, fail(ErrorCode::invalid_argument,
                     "{} sent {} bytes with tag {}, and the receive has room for {}",
                     name(request.source), request.bytes, what.tag, what.bytes));
}

/// There was no memory to keep a message. Receives from its sender would wait for ever.
void Messenger::Impl::lose_message(const ReceiveFailure& failure) {
  const Peer peer = failure.what.from;
  const Error error{ErrorCode::no_space,
                    fmt::format("a receive: {} sent {} bytes with tag {}, and the process has no "
                                "memory to keep them",
                                name(failure.what.data), failure.overflow, failure.what.tag)};
  base::log(base::Level::error, "{}", error.message);
  const Cause cause = remember(error);
  engine.matcher().refuse(peer, engine.transport()->address_of(peer).generation, cause.error,
                          cause.detail);
}

/// `description` says how it ended: "rank 1 (pid 17) died".
Completions::Departure Messenger::Impl::on_peer_gone(Peer peer, const std::string& description,
                                                     bool) {
  const std::uint32_t rank = engine.matcher().source_of(peer);
  const Error error{ErrorCode::peer_dead,
                    rank == any_rank ? description : name(rank) + ", " + description};
  if (rank < options.ranks) set_ended(rank, error);
  return {.error = error, .cause = remember(error), .may_have_sent = false};
}

/// Receives find the messages that were kept before they fail.
void Messenger::Impl::set_ended(std::uint32_t rank, const Error& error) {
  awaited.set_ended(rank, error);
  peers[rank].reset();  // a later rank's endpoint may get its slot
  fail_unmet(rank, error);
  if (!awaited.are_all_gone()) return;
  const Cause cause = remember(
      {ErrorCode::peer_dead, "a receive from any rank, all others are gone: " + error.message});
  engine.matcher().source_gone(any_rank, cause.error, cause.detail);
}

void Messenger::Impl::look() {
  awaited.look(base::now_ns(), [this](std::uint32_t rank) {
    // The transport watches a peer that it knows.
    if (!peers[rank] && engine.matcher().peer_of(rank) == any_source) lose(rank);
  });
}

void Messenger::Impl::lose(std::uint32_t rank) {
  const Error error{ErrorCode::peer_dead, fmt::format("{}, {}, has died or left", name(rank),
                                                      pool.describe(awaited.token(rank)))};
  const Cause cause = remember(error);
  engine.matcher().source_gone(rank, cause.error, cause.detail);
  set_ended(rank, error);
}

void Messenger::Impl::fail_unmet(std::uint32_t rank, const Error& error) {
  for (const Unmet& send : std::exchange(unmet[rank], {})) {
    awaited.end(rank);
    end(send.request, unexpected(error));
  }
}

bool Messenger::Impl::cancel_unmet(const Request& request) {
  for (std::uint32_t rank = 0; rank < options.ranks; ++rank) {
    const auto erased =
        std::erase_if(unmet[rank], [&](const Unmet& send) { return send.request == &request; });
    if (erased == 0) continue;
    awaited.end(rank);
    return true;
  }
  return false;
}

Result<std::unique_ptr<Messenger>> Messenger::open(arena::Arena& arena, Options options) {
  // Only processes that were given an address reach an endpoint, so all endpoints have one job.
  // Ranks with nothing under way have returned all credits, so closing waits only for ranks that
  // compute before they receive.
  constexpr std::uint64_t longest_closing_ns = 20'000'000;
  auto impl = std::make_unique<Impl>(std::move(options), arena.pool());
  PENSTOCK_TRY(impl->engine.open(arena, {.endpoint = {.job = "penstock.messages",
                                                      .closing_timeout_ns = longest_closing_ns,
                                                      .peers_may_take_later = true,
                                                      .peers_may_be_of_other_jobs = true},
                                         .announced_from = impl->options.longest_unasked,
                                         .sources = impl->options.ranks}));
  return std::make_unique<Messenger>(std::move(impl));
}

Messenger::Messenger(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
Messenger::~Messenger() = default;

transport::Address Messenger::address() const {
  return impl_->engine.transport()->address();
}

Result<void> Messenger::meet(std::uint32_t rank, const transport::Address& address) {
  Impl& my = *impl_;
  if (rank >= my.options.ranks) return my.no_rank(rank);
  auto peer = my.engine.transport()->resolve(address);
  if (!peer) {
    const Error error{peer.error().code,
                      fmt::format("{}: {}", my.name(rank), peer.error().message)};
    my.fail_unmet(rank, error);
    return unexpected(error);
  }
  my.peers[rank] = *peer;
  my.engine.matcher().introduce(*peer, rank);
  for (const Impl::Unmet& send : std::exchange(my.unmet[rank], {})) {
    my.awaited.end(rank);
    my.begin_send(rank, send);
  }
  return {};
}

Result<void> Messenger::expect(std::uint32_t rank, std::uint64_t token) {
  if (rank >= impl_->options.ranks) return impl_->no_rank(rank);
  impl_->awaited.expect(rank, token);
  return {};
}

bool Messenger::knows(std::uint32_t rank) const {
  return rank < impl_->options.ranks && impl_->peers[rank].has_value();
}

void Messenger::send(std::uint32_t to, std::uint64_t tag, const void* data, std::uint64_t bytes,
                     Request& request) {
  Impl& my = *impl_;
  request = {};
  if (to >= my.options.ranks) return Impl::end(&request, my.no_rank(to));
  if (my.peers[to]) return my.begin_send(to, {tag, data, bytes, &request});
  if (const Error* const end = my.awaited.end_of(to)) return Impl::end(&request, unexpected(*end));
  my.awaited.begin(to);
  my.unmet[to].push_back({tag, data, bytes, &request});
}

void Messenger::Impl::begin_send(std::uint32_t to, const Unmet& send) {
  const Header header{
      .tag = send.tag, .data = options.self, .bytes = send.bytes, .kind = kind_tagged};
  const iovec iov{const_cast<void*>(send.data), send.bytes};  // NOLINT: it is only read
  const Peer peer = *peers[to];
  engine.prepare_send(peer, header);
  const auto begun =
      engine.send(peer, {.header = header, .iov = &iov, .iov_count = 1, .context = send.request});
  if (!begun) return end(send.request, unexpected(begun.error()));
  if (*begun == Engine::Begun::no_memory) return end(send.request, no_memory());
  if (*begun == Engine::Begun::sent) end(send.request, {});
}

void Messenger::receive(std::uint32_t from, std::uint64_t tag, void* data, std::uint64_t bytes,
                        Request& request) {
  Impl& my = *impl_;
  request = {};
  if (from != any_rank && from >= my.options.ranks) return Impl::end(&request, my.no_rank(from));
  request.source = from;
  ReceiveRequest receive;
  receive.iov[0] = {data, bytes};
  receive.iov_count = 1;
  receive.tagged = true;
  receive.source = from;
  receive.tag = tag;
  receive.context = &request;
  const bool known = from != any_rank && my.peers[from];
  my.awaited.begin(from);
  if (my.engine.post(receive, known ? *my.peers[from] : any_source) != 0) {
    my.awaited.end(from);
    return Impl::end(&request, Impl::no_memory());
  }
  if (!busy()) my.engine.transport()->return_credits();
}

bool Messenger::progress() {
  constexpr std::uint32_t polls_a_look = 64;
  Impl& my = *impl_;
  const bool moved = my.engine.progress();
  if (!my.busy())
    my.engine.transport()->return_credits();
  else if (++my.polls % polls_a_look == 0) [[unlikely]]
    my.look();
  return moved;
}

bool Messenger::cancel(Request& request) {
  return impl_->engine.cancel(&request) || impl_->cancel_unmet(request);
}

std::uint64_t Messenger::peak_unexpected_bytes() const {
  return impl_->engine.matcher().unexpected().peak_bytes;
}

bool Messenger::busy() const {
  return impl_->busy();
}

}  // namespace penstock::messages

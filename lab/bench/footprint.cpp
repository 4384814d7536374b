#include "bench/footprint.hpp"

#include <array>
#include <functional>
#include <memory>
#include <utility>
#include <vector>

#include "base/env.hpp"
#include "base/format.hpp"
#include "base/wait.hpp"
#include "bench/bench_pool.hpp"
#include "transport/transport.hpp"

namespace penstock::bench {
namespace {

constexpr std::size_t long_bytes = 64 << 10;

/// An endpoint that counts the messages it receives.
class Talker final : public transport::EndpointCallbacks, transport::Arrival {
 public:
  Result<void> open(arena::Arena& arena, std::function<void()> while_closing) {
    transport::Options options{"footprint"};
    options.while_closing = std::move(while_closing);
    endpoint_ = PENSTOCK_TRY(transport::Endpoint::open(arena, *this, options));
    return {};
  }
  transport::Endpoint& endpoint() { return *endpoint_; }
  /// Closes this endpoint; others may make progress meanwhile, but not this one.
  void close() { const auto closing = std::move(endpoint_); }
  void progress() {
    if (endpoint_) endpoint_->progress();
  }

  /// Sends a short and a long message.
  Result<void> talk_to(const transport::Address& address) {
    auto peer = PENSTOCK_TRY(endpoint_->resolve(address));
    for (const std::size_t bytes : {std::size_t{8}, long_bytes}) {
      auto op = std::make_unique<transport::SendOp>();
      op->header.bytes = bytes;
      op->iov[0] = {out_.data(), bytes};
      op->iov_count = 1;
      auto sent = PENSTOCK_TRY(endpoint_->send(peer, op.get()));
      if (!sent) waiting_.push_back(std::move(op));
    }
    return {};
  }
  std::uint64_t received() const { return received_; }

  transport::ReceiveBuffer on_message(const transport::Message& message) override {
    if (message.payload != nullptr) {
      ++received_;
      return {};
    }
    receive_buffer_ = {in_.data(), in_.size()};
    return {.iov = &receive_buffer_, .iov_count = 1, .arrival = this};
  }
  void arrived() override { ++received_; }
  void failed(const Error&) override {}
  void on_sent(transport::SendOp*) override {}
  void on_send_failed(transport::SendOp*, const Error&) override {}
  void on_peer_dead(transport::Peer, const std::string&) override {}

 private:
  inline static std::array<std::byte, long_bytes> out_{}, in_{};
  iovec receive_buffer_{};
  std::uint64_t received_ = 0;
  std::vector<std::unique_ptr<transport::SendOp>> waiting_;
  std::unique_ptr<transport::Endpoint> endpoint_;
};

/// Closes all endpoints, one after the other.
struct Closing {
  std::vector<Talker>& talkers;
  ~Closing() {
    for (Talker& talker : talkers) talker.close();
  }
};

/// Runs until every talker has received all its messages and every sender has been notified.
Result<void> finish(std::vector<Talker>& talkers, std::uint64_t messages_each) {
  base::Waiter waiter("the messages of all ranks", 0);
  for (;;) {
    bool finished = true;
    for (Talker& talker : talkers) {
      talker.endpoint().progress();
      finished = finished && talker.received() == messages_each && talker.endpoint().drained();
    }
    if (finished) return {};
    if (auto waited = waiter.pause(); !waited) return waited;
  }
}

double mebibytes(std::uint64_t bytes) {
  return static_cast<double>(bytes) / (1 << 20);
}

}  // namespace

Result<Report> measure_footprint(const FootprintOptions& options) {
  if (options.ranks < 2 || options.ranks > transport::max_endpoints || options.neighbours == 0 ||
      options.neighbours >= options.ranks) {
    return fail(ErrorCode::invalid_argument,
                "{} ranks that each talk to {} are impossible: give 2 to {} ranks, 1 to ranks - 1 "
                "neighbours",
                options.ranks, options.neighbours, transport::max_endpoints);
  }
  const auto bytes = PENSTOCK_TRY(base::parse_bytes(options.size));
  auto hold = PENSTOCK_TRY(Attachment::open_alone(options.pool, bytes, coherence::Mode::software));
  const std::uint64_t before = hold.arena->stats().bytes_used;
  std::vector<Talker> talkers(options.ranks);
  const Closing closing{talkers};
  // A closing endpoint waits for answers of the others, so these must make progress meanwhile.
  const auto move_all = [&talkers] {
    for (Talker& talker : talkers) talker.progress();
  };
  for (Talker& talker : talkers) PENSTOCK_TRY(talker.open(*hold.arena, move_all));
  const std::uint64_t opened = hold.arena->stats().bytes_used;
  for (std::uint32_t rank = 0; rank < options.ranks; ++rank)
    for (std::uint32_t i = 1; i <= options.neighbours; ++i) {
      Talker& to = talkers[(rank + i) % options.ranks];
      PENSTOCK_TRY(talkers[rank].talk_to(to.endpoint().address()));
    }
  const auto finished = finish(talkers, 2ull * options.neighbours);
  const std::uint64_t after = hold.arena->stats().bytes_used;
  if (!finished) return unexpected(finished.error());
  Report report("footprint");
  report.note("ranks", static_cast<double>(options.ranks));
  report.note("neighbours", static_cast<double>(options.neighbours));
  report.add(
      {"MiB of the pool that a job takes when each rank has sent a short and a 64 KB message "
       "to its neighbours",
       {{"endpoint table", 1}, {"channels", 1}, {"together", 1}, {"for a pair", 3}},
       {{mebibytes(opened - before), mebibytes(after - opened), mebibytes(after - before),
         mebibytes(after - opened) / (options.ranks * options.neighbours)}}});
  return report;
}

}  // namespace penstock::bench

// Counts the lines of the pool that two endpoints read again for a message. One thread drives both.
// Under `valgrind --tool=callgrind --toggle-collect='*exchange_one*'` also the instructions,
// without the noise of a second process.
#include <CLI/CLI.hpp>

#include <cstring>
#include <deque>

#include "base/format.hpp"
#include "bench/program.hpp"
#include "device/create_options.hpp"
#include "pool/pool.hpp"
#include "transport/transport.hpp"

namespace penstock::bench {
namespace {

using namespace penstock::transport;

/// So many make the pair busy: its ring and cells have grown.
constexpr std::uint64_t warm_up_rounds = 2000;

/// Receives each message into one buffer, and counts.
class Receiver final : public EndpointCallbacks {
 public:
  explicit Receiver(std::uint64_t bytes) : buffer_(bytes), iov_{buffer_.data(), bytes} {}

  ReceiveBuffer on_message(const Message& message) override {
    if (message.payload == nullptr) return {.iov = &iov_, .iov_count = 1, .arrival = &arrival_};
    ++arrival_.count;
    return {};
  }
  void on_sent(SendOp*) override { ++sent; }
  void on_send_failed(SendOp*, const Error& error) override { failure = error; }
  void on_peer_dead(Peer, const std::string& description) override {
    failure = Error{ErrorCode::peer_dead, description};
  }
  std::uint64_t arrived() const { return arrival_.count; }

  std::uint64_t sent = 0;
  std::optional<Error> failure;

 private:
  struct Count final : Arrival {
    void arrived() override { ++count; }
    void failed(const Error&) override {}
    std::uint64_t count = 0;
  };
  std::vector<std::byte> buffer_;
  iovec iov_;
  Count arrival_;
};

struct Side {
  std::unique_ptr<pool::Pool> pool;
  std::unique_ptr<arena::Arena> arena;
  std::unique_ptr<Receiver> receiver;
  std::unique_ptr<Endpoint> endpoint;
  Peer peer = 0;
};

Result<Side> open(const std::string& spec, std::uint32_t number, std::uint64_t bytes) {
  Side side;
  pool::AttachOptions options;
  options.spec = spec;
  options.rank = static_cast<int>(number);
  options.job = "message_counts";
  options.emulated_node = number;
  side.pool = PENSTOCK_TRY(pool::Pool::attach(options));
  side.arena = PENSTOCK_TRY(arena::Arena::open(*side.pool));
  side.receiver = std::make_unique<Receiver>(bytes);
  side.endpoint = PENSTOCK_TRY(Endpoint::open(*side.arena, *side.receiver, {"message_counts"}));
  return side;
}

/// One message from `from` to `to`, both polled until it has arrived.
[[gnu::noinline]] Result<void> exchange_one(Side& from, Side& to,
                                            const std::vector<std::byte>& data) {
  const std::uint64_t before = to.receiver->arrived();
  SendOp op;
  op.header.bytes = data.size();
  op.iov[0] = {const_cast<std::byte*>(data.data()), data.size()};
  op.iov_count = 1;
  const std::uint64_t sent = from.receiver->sent;
  bool complete = false;
  if (data.size() <= from.endpoint->limits().small_bytes) {
    while (!complete)
      complete = PENSTOCK_TRY(from.endpoint->try_inject(from.peer, op.header, data.data()));
  } else {
    complete = PENSTOCK_TRY(from.endpoint->send(from.peer, &op));
  }
  while (to.receiver->arrived() == before || (!complete && from.receiver->sent == sent)) {
    to.endpoint->progress();
    if (!complete) from.endpoint->progress();
    if (from.receiver->failure) return unexpected(*from.receiver->failure);
  }
  return {};
}

Result<void> exchange(Side& a, Side& b, const std::vector<std::byte>& data, std::uint64_t rounds) {
  for (std::uint64_t i = 0; i < rounds; ++i) {
    PENSTOCK_TRY(exchange_one(a, b, data));
    PENSTOCK_TRY(exchange_one(b, a, data));
  }
  return {};
}

/// Without it the endpoint that closes first would wait for the other, which this thread drives.
void drain(Side& a, Side& b) {
  while (!a.endpoint->drained() || !b.endpoint->drained()) {
    a.endpoint->progress();
    b.endpoint->progress();
    a.endpoint->return_credits();
    b.endpoint->return_credits();
  }
}

Result<void> measure(const std::string& spec, std::uint64_t bytes, std::uint64_t rounds) {
  Side a = PENSTOCK_TRY(open(spec, 0, bytes)), b = PENSTOCK_TRY(open(spec, 1, bytes));
  a.peer = PENSTOCK_TRY(a.endpoint->resolve(b.endpoint->address()));
  b.peer = PENSTOCK_TRY(b.endpoint->resolve(a.endpoint->address()));
  const std::vector<std::byte> data(bytes, std::byte{7});
  PENSTOCK_TRY(exchange(a, b, data, warm_up_rounds));
  const std::uint64_t before = a.pool->memory().device_reads();
  PENSTOCK_TRY(exchange(a, b, data, rounds));
  const auto lines = static_cast<double>(a.pool->memory().device_reads() - before);
  drain(a, b);
  fmt::print("{} B: {:.3f} lines read again a message\n", bytes,
             lines / (2 * static_cast<double>(rounds)));
  return {};
}

Result<void> run(coherence::Mode mode, std::uint64_t bytes, std::uint64_t rounds) {
  const std::string spec = fmt::format("shm:penstock-message-counts-{}", getpid());
  pool::CreateOptions options;
  options.spec = spec;
  options.bytes = 64 << 20;
  options.mode = mode;
  PENSTOCK_TRY(pool::create(options));
  const auto measured = measure(spec, bytes, rounds);
  (void)pool::remove(spec, true);
  return measured;
}

}  // namespace
}  // namespace penstock::bench

int main(int argc, char** argv) {
  CLI::App app("Lines of the pool that a message costs, in a ping-pong of one thread.");
  std::string mode = "software";
  std::uint64_t bytes = 8, rounds = 5000;
  app.add_option("--mode", mode, "software or hardware")
      ->check(CLI::IsMember({"software", "hardware"}));
  app.add_option("--bytes", bytes, "of a message");
  app.add_option("--rounds", rounds, "ping-pongs");
  CLI11_PARSE(app, argc, argv);
  const auto ran = penstock::bench::run(mode == "hardware" ? penstock::coherence::Mode::hardware
                                                           : penstock::coherence::Mode::software,
                                        bytes, rounds);
  if (ran) return 0;
  fmt::print(stderr, "message_counts: {}\n", ran.error().message);
  return 1;
}

// Helpers for tests of endpoints: temporary pools, and callbacks that record everything.
#pragma once

#include <gtest/gtest.h>
#include <unistd.h>

#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/clock.hpp"
#include "transport/transport.hpp"

namespace penstock::transport {

struct Arrived {
  Peer from;
  Header header;
  std::vector<std::byte> payload;
};

/// Records every report. Receives the payload of a long message in `pieces` buffers of together at
/// most `capacity` bytes.
class Recorder final : public EndpointCallbacks {
 public:
  ReceiveBuffer on_message(const Message& message) override {
    const Header& header = message.header;
    if (message.payload != nullptr) {
      const auto* bytes = static_cast<const std::byte*>(message.payload);
      arrived.push_back({message.from, header, {bytes, bytes + header.bytes}});
      if (meanwhile) std::exchange(meanwhile, {})();
      return {};
    }
    ++asked;
    if (message.may_wait && !ready) return {.match = Match::later};
    ++begun;
    auto* slot = new Slot(*this, message.from, header);
    const Match match = ready ? Match::posted : Match::unexpected;
    if (receive_buffer) {
      slot->iov.push_back({receive_buffer, header.bytes});
      return {.iov = slot->iov.data(),
              .iov_count = 1,
              .arrival = slot,
              .invalidated = posted_bytes != 0 ? invalidated.of_this_thread() : 0,
              .match = match};
    }
    slot->buffer.resize(std::min<std::uint64_t>(header.bytes, capacity));
    const std::uint64_t piece = (slot->buffer.size() + pieces - 1) / pieces;
    for (std::uint64_t at = 0; at < slot->buffer.size(); at += piece)
      slot->iov.push_back(
          {slot->buffer.data() + at, std::min<std::uint64_t>(piece, slot->buffer.size() - at)});
    return {.iov = slot->iov.data(),
            .iov_count = static_cast<std::uint32_t>(slot->iov.size()),
            .arrival = slot,
            .match = match};
  }
  PostedReceive posted() {
    return {receive_buffer, posted_bytes, posted_bytes ? &invalidated : nullptr};
  }
  void on_sent(SendOp* op) override { sent.push_back(op); }
  void on_send_failed(SendOp* op, const Error& error) override {
    failed.push_back(op);
    errors.push_back(error.message);
  }
  void on_peer_dead(Peer, const std::string& description) override { dead.push_back(description); }

  /// A large message on its way.
  struct Slot final : Arrival {
    Slot(Recorder& the_owner, Peer the_sender, const Header& the_header)
        : owner(the_owner), from(the_sender), header(the_header) {}
    void arrived() override {
      if (buffer.empty() && !iov.empty()) {
        const auto* at = static_cast<const std::byte*>(iov[0].iov_base);
        buffer.assign(at, at + header.bytes);
      }
      owner.arrived.push_back({from, header, std::move(buffer)});
      delete this;
    }
    void failed(const Error& error) override {
      owner.errors.push_back(error.message);
      delete this;
    }

    Recorder& owner;
    Peer from;
    Header header;
    std::vector<std::byte> buffer;
    std::vector<iovec> iov;
  };
  std::uint64_t capacity = ~0ull, pieces = 1;
  std::byte* receive_buffer = nullptr;  ///< used instead of a buffer of its own
  std::uint64_t posted_bytes = 0;       ///< size of `receive_buffer` if posted beforehand, else 0
  InvalidatedPrefix invalidated;
  bool ready = true;  ///< a receive for long messages is posted
  unsigned begun = 0, asked = 0;
  std::deque<Arrived> arrived;
  std::vector<SendOp*> sent, failed;
  std::function<void()> meanwhile;  ///< called once, while a message is reported
  std::vector<std::string> errors, dead;
};

inline std::vector<std::byte> pattern(std::uint64_t bytes, unsigned seed) {
  std::vector<std::byte> data(bytes);
  std::uint32_t x = seed * 2654435761u + 12345;
  for (auto& b : data) {
    x = x * 1664525u + 1013904223u;
    b = static_cast<std::byte>(x >> 24);
  }
  return data;
}

struct Attachment {
  std::unique_ptr<pool::Pool> pool;
  std::unique_ptr<arena::Arena> arena;  ///< ends before its pool

  void detach() {
    arena.reset();
    pool.reset();
  }
};

inline std::string unique_spec() {
  static int number = 0;
  return "shm:penstock-transport-test-" + std::to_string(getpid()) + "-" + std::to_string(number++);
}

inline Attachment attach(const std::string& spec, int rank,
                         std::optional<std::uint32_t> emulated_node = std::nullopt) {
  pool::AttachOptions options;
  options.spec = spec;
  options.rank = rank;
  options.job = "test";
  options.emulated_node = emulated_node;
  auto pool = pool::Pool::attach(options);
  if (!pool) throw std::runtime_error(pool.error().message);
  auto arena = arena::Arena::open(**pool);
  if (!arena) throw std::runtime_error(arena.error().message);
  return {std::move(*pool), std::move(*arena)};
}

/// Two endpoints, a and b, on two attachments of one process.
class TransportTest : public testing::TestWithParam<coherence::Mode> {
 protected:
  void SetUp() override { make_pool(64 << 20); }
  void make_pool(std::uint64_t bytes) {
    spec_ = unique_spec();
    pool::CreateOptions options;
    options.spec = spec_;
    options.bytes = bytes;
    options.mode = GetParam();
    options.max_processes = processes_;
    auto made = pool::create(options);
    ASSERT_TRUE(made) << made.error().message;
    side_a_ = attach(spec_, 0, nodes_ == 2 ? std::optional(0u) : std::nullopt);
    side_b_ = attach(spec_, 1, nodes_ == 2 ? std::optional(1u) : std::nullopt);
    a_ = open(side_a_, callbacks_a_);
    b_ = open(side_b_, callbacks_b_);
    to_b_ = *a_->resolve(b_->address());
    to_a_ = *b_->resolve(a_->address());
  }
  void TearDown() override {
    // one thread drives both sides: the endpoint that closes first would wait for the other
    for (int i = 0; i < 100000 && a_ && b_ && !(a_->drained() && b_->drained()); ++i) {
      a_->progress();
      b_->progress();
    }
    a_.reset();
    b_.reset();
    side_a_.detach();
    side_b_.detach();
    (void)pool::remove(spec_, true);
  }
  std::unique_ptr<Endpoint> open(Attachment& side, EndpointCallbacks& callbacks) {
    auto endpoint = Endpoint::open(*side.arena, callbacks, {"test"});
    EXPECT_TRUE(endpoint) << endpoint.error().message;
    return std::move(*endpoint);
  }
  void progress_until(const std::function<bool()>& done) {
    const std::uint64_t end = base::now_ns() + 20'000'000'000ull;
    while (!done()) {
      a_->progress();
      b_->progress();
      ASSERT_LT(base::now_ns(), end) << "no progress";
    }
  }
  SendOp op_of(std::vector<std::byte>& data, std::uint64_t tag) {
    SendOp op;
    op.header = {tag, ~tag, data.size(), 5};
    op.iov[0] = {data.data(), data.size()};
    op.iov_count = 1;
    return op;
  }

  std::uint32_t nodes_ = 1;         ///< 2: each side plays a host of its own
  std::uint32_t processes_ = 1024;  ///< capacity of the pool
  std::string spec_;
  Attachment side_a_, side_b_;
  Recorder callbacks_a_, callbacks_b_;
  std::unique_ptr<Endpoint> a_, b_;
  Peer to_a_ = 0, to_b_ = 0;
};

}  // namespace penstock::transport

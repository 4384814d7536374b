// Two processes, and what they need for a message between them.
#pragma once

#include <algorithm>
#include <memory>
#include <vector>

#include "sim/tests/ranks.hpp"

namespace penstock::sim {

inline constexpr std::uint64_t payload_bytes = 40'000;
inline constexpr std::byte right{0x11}, overwritten{0xee};

/// Only checks whether arriving messages are whole. Receives into the pool if `receive_buffer` is
/// set.
class Reader final : public transport::EndpointCallbacks, transport::Arrival {
 public:
  explicit Reader(World& world) : world_(world) {}
  ReceiveBuffer on_message(const transport::Message& message) override {
    if (message.payload != nullptr) return {};
    const Header& header = message.header;
    bytes_.resize(header.bytes);
    at_ = receive_buffer ? receive_buffer : bytes_.data();
    if (!posted_) std::fill_n(at_, header.bytes, overwritten);
    iov_ = {at_, header.bytes};
    receiving_ = true;
    return {.iov = &iov_,
            .iov_count = 1,
            .arrival = this,
            .invalidated = posted_ ? invalidated_.of_this_thread() : 0};
  }
  void arrived() override {
    ++delivered;
    posted_ = receiving_ = false;
    const auto wrong =
        std::find_if(at_, at_ + iov_.iov_len, [](std::byte byte) { return byte != right; });
    world_.require(wrong == at_ + iov_.iov_len,
                   fmt::format("delivered as good, but wrong from byte {} on", wrong - at_));
  }
  /// Sometimes the buffer is posted before its message comes.
  transport::PostedReceive posted() {
    if (!receive_buffer || receiving_ || (!posted_ && world_.random() % 4 != 0)) return {};
    if (!posted_) {
      posted_ = true;
      invalidated_ = {};
      std::fill_n(receive_buffer, payload_bytes, overwritten);
    }
    return {receive_buffer, payload_bytes, &invalidated_};
  }
  void failed(const Error&) override { has_failed = true; }
  void on_sent(SendOp*) override { ++sent; }
  void on_send_failed(SendOp*, const Error&) override { has_failed = true; }
  void on_peer_dead(Peer, const std::string&) override { notified = true; }

  void on_peer_left(Peer, const std::string&) override { left = true; }

  bool receiving() const { return receiving_; }

  bool has_failed = false, notified = false, left = false;
  int delivered = 0, sent = 0;
  std::byte* receive_buffer = nullptr;

 private:
  World& world_;
  std::byte* at_ = nullptr;
  bool posted_ = false, receiving_ = false;
  transport::InvalidatedPrefix invalidated_;
  std::vector<std::byte> bytes_;
  iovec iov_{};
};

template <class EndpointCallbacks>
struct SideOf {
  SideOf(World& world, const SimulatedPool& simulated, std::uint64_t closing_timeout_ns = 0,
         const std::string& job = "sim")
      : callbacks(world),
        pool(simulated.attach(world, {.job = job})),
        arena(SimulatedPool::open_arena(world, *pool)),
        endpoint(
            std::move(*transport::Endpoint::open(*arena, callbacks,
                                                 {.job = "sim",
                                                  .closing_timeout_ns = closing_timeout_ns,
                                                  .peers_may_be_of_other_jobs = job != "sim"}))) {}
  EndpointCallbacks callbacks;
  std::unique_ptr<pool::Pool> pool;
  std::unique_ptr<arena::Arena> arena;
  std::unique_ptr<transport::Endpoint> endpoint;
};
using Side = SideOf<Reader>;

/// Makes progress as a user does that posts receives: prepares the next one's buffer while nothing
/// arrives.
inline unsigned progress(Side& side) {
  const unsigned events = side.endpoint->progress();
  if (events == 0) side.endpoint->prepare(side.callbacks.posted());
  return events;
}

}  // namespace penstock::sim

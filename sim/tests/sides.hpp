// Two processes and what they need for a message between them.
#pragma once

#include <algorithm>
#include <memory>
#include <vector>

#include "sim/tests/ranks.hpp"

namespace penstock::sim {

inline constexpr std::uint64_t payload_bytes = 40'000;
inline constexpr std::byte right{0x11}, overwritten{0xee};

/// Looks only whether what arrives is whole. Lands it in the pool where `receive_buffer` is set.
class Reader final : public transport::EndpointCallbacks {
 public:
  explicit Reader(World& world) : world_(world) {}
  void on_message(Peer, const Header&, const void*) override {}
  ReceiveBuffer on_begin(Peer, const Header& header) override {
    bytes_.resize(header.bytes);
    at_ = receive_buffer ? receive_buffer : bytes_.data();
    if (!posted_) std::fill_n(at_, header.bytes, overwritten);
    iov_ = {at_, header.bytes};
    receiving_ = true;
    return {&iov_, 1, nullptr, posted_ ? invalidated_.bytes : 0};
  }
  void on_arrived(Peer, const Header&, void*) override {
    ++arrived;
    posted_ = receiving_ = false;
    const auto wrong =
        std::find_if(at_, at_ + iov_.iov_len, [](std::byte byte) { return byte != right; });
    world_.require(wrong == at_ + iov_.iov_len,
                   fmt::format("delivered as good, but wrong from byte {} on", wrong - at_));
  }
  /// Now and then the buffer waits before its message comes.
  transport::PostedReceive posted() override {
    if (!receive_buffer || receiving_ || (!posted_ && world_.random() % 4 != 0)) return {};
    if (!posted_) {
      posted_ = true;
      invalidated_ = {};
      std::fill_n(receive_buffer, payload_bytes, overwritten);
    }
    return {receive_buffer, payload_bytes, &invalidated_};
  }
  void on_receive_failed(Peer, void*, const Error&) override { failed = true; }
  void on_sent(SendOp*) override { ++sent; }
  void on_send_failed(SendOp*, const Error&) override { failed = true; }
  void on_peer_dead(Peer, const std::string&) override { told = true; }

  void on_peer_left(Peer, const std::string&) override { left = true; }

  bool receiving() const { return receiving_; }

  bool failed = false, told = false, left = false;
  int arrived = 0, sent = 0;
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
  SideOf(World& world, const SimulatedPool& simulated, std::uint64_t closing_timeout_ns = 0)
      : callbacks(world),
        pool(simulated.attach(world, {.job = "sim"})),
        arena(SimulatedPool::open_arena(world, *pool)),
        endpoint(std::move(*transport::Endpoint::open(
            *arena, callbacks, {.job = "sim", .closing_timeout_ns = closing_timeout_ns}))) {}
  EndpointCallbacks callbacks;
  std::unique_ptr<pool::Pool> pool;
  std::unique_ptr<arena::Arena> arena;
  std::unique_ptr<transport::Endpoint> endpoint;
};
using Side = SideOf<Reader>;

}  // namespace penstock::sim

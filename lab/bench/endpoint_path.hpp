// Penstock's path: messages by transport::Endpoint.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>

#include "bench/message_path.hpp"
#include "transport/transport.hpp"

namespace penstock::bench {

class EndpointPath final : public MessagePath,
                           private transport::EndpointCallbacks,
                           transport::Arrival {
 public:
  static Result<std::unique_ptr<EndpointPath>> open(arena::Arena& arena);

  transport::Address address() const { return endpoint_->address(); }
  Result<void> connect(const transport::Address& peer);
  Result<void> send(const std::byte* data, std::size_t bytes) override;
  Result<void> receive(std::byte* to, std::size_t bytes) override;
  /// Looks once whether a message has arrived in `to`.
  bool poll(std::byte* to);
  transport::Endpoint& endpoint() { return *endpoint_; }

 private:
  transport::ReceiveBuffer on_message(const transport::Message& message) override;
  void arrived() override { ++arrived_; }
  void failed(const Error& error) override { failure_ = error; }
  void on_sent(transport::SendOp*) override { sent_ = true; }
  void on_send_failed(transport::SendOp*, const Error& error) override { failure_ = error; }
  void on_peer_dead(transport::Peer, const std::string& description) override;
  void look();

  const pool::Pool* pool_ = nullptr;
  std::unique_ptr<transport::Endpoint> endpoint_;
  transport::Peer peer_ = 0;
  std::uint32_t inject_bytes_ = 0;
  transport::SendOp op_;
  iovec receive_buffer_{};
  std::byte* target_ = nullptr;
  std::uint64_t arrived_ = 0, taken_ = 0;
  bool sent_ = false;
  std::optional<Error> failure_;
};

}  // namespace penstock::bench

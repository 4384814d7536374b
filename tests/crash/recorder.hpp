// A user of an endpoint that keeps what it is told.
#pragma once

#include <cstring>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "transport/transport.hpp"

namespace penstock::crash {

/// Message `number` of a sender: what it holds can be computed by who receives it.
inline std::vector<std::byte> content(std::uint64_t number, std::uint64_t bytes) {
  std::vector<std::byte> data(bytes);
  std::uint64_t x = number * 0x9e3779b97f4a7c15u + bytes;
  for (auto& byte : data) {
    x = x * 6364136223846793005u + 1442695040888963407u;
    byte = static_cast<std::byte>(x >> 56);
  }
  return data;
}

class Recorder final : public transport::EndpointCallbacks {
 public:
  using Peer = transport::Peer;
  using Header = transport::Header;

  void on_message(Peer from, const Header& header, const void* payload) override {
    const auto* bytes = static_cast<const std::byte*>(payload);
    take(from, header, {bytes, bytes + header.bytes});
  }
  transport::ReceiveBuffer on_begin(Peer, const Header& header) override {
    auto* place = new PoolMapping{std::vector<std::byte>(header.bytes), {}};
    place->iov = {receive_buffer ? receive_buffer : place->buffer.data(), header.bytes};
    ++begun;
    return {&place->iov, 1, place};
  }
  void on_arrived(Peer from, const Header& header, void* cookie) override {
    const std::unique_ptr<PoolMapping> place(static_cast<PoolMapping*>(cookie));
    if (receive_buffer) std::memcpy(place->buffer.data(), receive_buffer, header.bytes);
    take(from, header, std::move(place->buffer));
    --begun;
  }
  void on_receive_failed(Peer, void* cookie, const Error& error) override {
    delete static_cast<PoolMapping*>(cookie);
    --begun;
    errors.push_back(error);
  }
  void on_sent(transport::SendOp*) override { ++sent; }
  void on_send_failed(transport::SendOp*, const Error& error) override {
    ++failed;
    errors.push_back(error);
  }
  void on_peer_dead(Peer, const std::string& description) override { dead.push_back(description); }

  std::byte* receive_buffer = nullptr;         ///< of large messages, in place of their own
  std::uint64_t arrived = 0;                   ///< whole messages
  std::map<Peer, std::uint64_t> arrived_from;  ///< in the order of their tags 0, 1, ...
  std::uint64_t damaged = 0;  ///< with other contents than their number says, or out of order
  int begun = 0;              ///< large ones that are neither whole nor failed
  std::uint64_t sent = 0, failed = 0;
  std::vector<Error> errors;
  std::vector<std::string> dead;

 private:
  struct PoolMapping {
    std::vector<std::byte> buffer;
    iovec iov;
  };
  void take(Peer from, const Header& header, std::vector<std::byte> payload) {
    std::uint64_t& next = arrived_from[from];
    if (header.tag != next || payload != content(header.tag, header.bytes)) ++damaged;
    ++next;
    ++arrived;
  }
};

}  // namespace penstock::crash

// Endpoint callbacks that record their calls.
#pragma once

#include <cstring>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "transport/transport.hpp"

namespace penstock::crash {

/// The contents of a sender's message `number`, which the receiver can compute too.
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

  transport::ReceiveBuffer on_message(const transport::Message& message) override {
    const Header& header = message.header;
    if (message.payload != nullptr) {
      const auto* bytes = static_cast<const std::byte*>(message.payload);
      take(message.from, header, {bytes, bytes + header.bytes});
      return {};
    }
    auto* long_one = new Long(*this, message.from, header);
    ++begun;
    return {.iov = &long_one->iov, .iov_count = 1, .arrival = long_one};
  }
  void on_sent(transport::SendOp*) override { ++sent; }
  void on_send_failed(transport::SendOp*, const Error& error) override {
    ++failed;
    errors.push_back(error);
  }
  void on_peer_dead(Peer, const std::string& description) override { dead.push_back(description); }

  std::byte* receive_buffer = nullptr;  ///< buffer for large messages; null: a new one for each
  std::uint64_t arrived = 0;            ///< complete messages
  std::map<Peer, std::uint64_t> arrived_from;  ///< messages with tags 0, 1, ... in order
  std::uint64_t damaged = 0;                   ///< messages with wrong contents, or out of order
  int begun = 0;  ///< large messages that are neither complete nor failed
  std::uint64_t sent = 0, failed = 0;
  std::vector<Error> errors;
  std::vector<std::string> dead;

 private:
  /// A large message that is arriving.
  struct Long final : transport::Arrival {
    Long(Recorder& the_owner, Peer the_sender, const Header& the_header)
        : owner(the_owner),
          from(the_sender),
          header(the_header),
          buffer(header.bytes),
          iov{owner.receive_buffer ? owner.receive_buffer : buffer.data(), header.bytes} {}
    void arrived() override {
      if (owner.receive_buffer) std::memcpy(buffer.data(), owner.receive_buffer, header.bytes);
      owner.take(from, header, std::move(buffer));
      --owner.begun;
      delete this;
    }
    void failed(const Error& error) override {
      --owner.begun;
      owner.errors.push_back(error);
      delete this;
    }

    Recorder& owner;
    Peer from;
    Header header;
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

// The message that a channel is receiving, and the buffer for its payload.
#pragma once

#include <utility>
#include <vector>

#include "transport/iov.hpp"
#include "transport/layout.hpp"

namespace penstock::transport {

struct RxMessage {
  /// Takes what the first line says of the message.
  void read(const MessageLine& line) {
    header.tag = line.tag;
    header.data = line.data;
    header.bytes = line.bytes();
    header.kind = line.kind();
    acknowledge = line.flags() & flag_acknowledge;
  }
  void set_buffer(const ReceiveBuffer& of_user) {
    buffer = of_user;
    direct = of_user.iov_count == 1 && of_user.iov[0].iov_len >= header.bytes
                 ? static_cast<std::byte*>(of_user.iov[0].iov_base)
                 : nullptr;
    got = 0;
  }
  bool is_complete() const { return got == header.bytes; }
  /// Where the payload goes in one piece: the receive buffer, or else a place from which scatter()
  /// copies it there.
  std::byte* contiguous() {
    if (direct) return direct;
    if (staging.size() < header.bytes) staging.resize(header.bytes);
    return staging.data();
  }
  void scatter(const std::byte* payload) const {
    if (!direct) iov_scatter(buffer.iov, buffer.iov_count, 0, payload, header.bytes);
  }
  /// Copies the next bytes of the payload from the pool.
  void load(const coherence::Memory& memory, const std::byte* from, std::uint64_t bytes) {
    if (direct) {
      memory.load_bulk(direct + got, from, bytes);
    } else {
      iov_visit(buffer.iov, buffer.iov_count, got, bytes,
                [&](std::byte* to, std::uint64_t n, std::uint64_t done) {
                  memory.load_bulk(to, from + done, n);
                });
    }
    got += bytes;
  }
  Arrival* take_owner() { return std::exchange(buffer.arrival, nullptr); }

  Header header;
  bool acknowledge = false;
  ReceiveBuffer buffer;
  std::byte* direct = nullptr;  ///< its only buffer, if that is long enough
  std::uint64_t got = 0;        ///< bytes received
  /// Holds an eager message whose receive buffer is scattered or too short. Each channel has its
  /// own: another channel may begin a message while the rest of this one is awaited.
  std::vector<std::byte> staging;
};

}  // namespace penstock::transport

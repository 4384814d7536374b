// Takes what a channel delivers, into buffers whose surroundings are watched: the address sanitizer
// knows where each ends, and what a message does not fill must stay as it was.
#pragma once

#include <algorithm>
#include <map>
#include <memory>
#include <vector>

#include "fuzz/expect.hpp"
#include "fuzz/input.hpp"
#include "transport/transport.hpp"

namespace penstock::fuzz {

class BufferCallbacks final : public transport::EndpointCallbacks {
 public:
  /// `in_pool`: memory where landings of one piece lie now and then, one at a time; may be null.
  explicit BufferCallbacks(Input& input, std::byte* in_pool = nullptr)
      : input_(input), in_pool_(in_pool) {}

  void on_message(transport::Peer, const transport::Header& header, const void* payload) override {
    expect(header.bytes <= 32);
    std::vector<std::byte> copy(header.bytes);
    if (!copy.empty()) std::memcpy(copy.data(), payload, copy.size());
    ++events_;
  }

  transport::ReceiveBuffer on_begin(transport::Peer from,
                                    const transport::Header& header) override {
    expect(header.bytes <= (1ull << 40) - 1);
    ++events_;
    auto begun = std::make_unique<Begun>();
    begun->from = from;
    begun->bytes = header.bytes;
    const std::uint64_t room = choose_room(header.bytes);
    const auto pieces = static_cast<std::uint32_t>(input_.below(5));
    for (std::uint32_t i = 0; i < pieces && i < transport::max_iov; ++i) {
      const bool last = i + 1 == std::min(pieces, transport::max_iov);
      const std::uint64_t bytes =
          last ? room - begun->room : std::min(room - begun->room, room / 3);
      std::byte* at = in_pool_;
      if (pieces != 1 || at == nullptr || !begun_.empty() || input_.flag()) {
        begun->buffers.push_back(std::make_unique<std::byte[]>(bytes));
        at = begun->buffers.back().get();
      }
      std::fill_n(at, bytes, untouched);
      begun->iov.push_back({at, bytes});
      begun->room += bytes;
    }
    const transport::ReceiveBuffer receive_buffer{
        begun->iov.data(), static_cast<std::uint32_t>(begun->iov.size()), begun.get()};
    expect(receive_buffer.cookie != nullptr);
    begun_.emplace(begun.get(), std::move(begun));
    return receive_buffer;
  }

  void on_arrived(transport::Peer from, const transport::Header& header, void* cookie) override {
    const Begun& begun = find(from, cookie);
    expect(begun.bytes == header.bytes);
    std::uint64_t at = 0;
    for (const iovec& piece : begun.iov) {
      const auto* bytes = static_cast<const std::byte*>(piece.iov_base);
      for (std::uint64_t i = 0; i < piece.iov_len; ++i, ++at) {
        expect(at < header.bytes || bytes[i] == untouched);
      }
    }
    begun_.erase(cookie);
  }

  void on_receive_failed(transport::Peer from, void* cookie, const Error& error) override {
    (void)find(from, cookie);
    expect(is_told(error));
    begun_.erase(cookie);
  }

  void on_sent(transport::SendOp*) override { ++sent; }
  void on_send_failed(transport::SendOp*, const Error& error) override {
    expect(is_told(error));
    ++sent;
  }
  void on_peer_dead(transport::Peer, const std::string& text) override { expect(!text.empty()); }

  std::size_t half_received() const { return begun_.size(); }
  unsigned events() const { return events_; }
  unsigned sent = 0;

 private:
  static constexpr std::byte untouched{0xa5};
  static constexpr std::uint64_t most = 80'000;
  struct Begun {
    transport::Peer from = 0;
    std::uint64_t bytes = 0, room = 0;
    std::vector<std::unique_ptr<std::byte[]>> buffers;
    std::vector<iovec> iov;
  };

  std::uint64_t choose_room(std::uint64_t bytes) {
    switch (input_.below(4)) {
      case 0:
        return std::min(bytes, most);
      case 1:
        return std::min(bytes / 2, most);
      case 2:
        return std::min(bytes + 1 + input_.below(100), most);
      default:
        return input_.below(100);
    }
  }

  const Begun& find(transport::Peer from, void* cookie) {
    const auto found = begun_.find(cookie);
    expect(found != begun_.end() && found->second->from == from);
    return *found->second;
  }

  Input& input_;
  std::byte* in_pool_;
  std::map<void*, std::unique_ptr<Begun>> begun_;
  unsigned events_ = 0;
};

}  // namespace penstock::fuzz

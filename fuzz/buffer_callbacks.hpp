// Receives a channel's messages into guarded buffers: the address sanitizer knows where each ends,
// and bytes that a message does not fill must stay unchanged.
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
  /// `in_pool`: memory in which some one-piece receive buffers lie, one at a time; may be null.
  explicit BufferCallbacks(Input& input, std::byte* in_pool = nullptr)
      : input_(input), in_pool_(in_pool) {}

  transport::ReceiveBuffer on_message(const transport::Message& message) override {
    const transport::Header& header = message.header;
    ++events_;
    if (message.payload != nullptr) {
      expect(header.bytes <= 32);
      std::vector<std::byte> copy(header.bytes);
      if (!copy.empty()) std::memcpy(copy.data(), message.payload, copy.size());
      return {};
    }
    expect(header.bytes <= (1ull << 40) - 1);
    auto begun = std::make_unique<Begun>(*this, header.bytes);
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
        .iov = begun->iov.data(),
        .iov_count = static_cast<std::uint32_t>(begun->iov.size()),
        .arrival = begun.get()};
    begun_.emplace(begun.get(), std::move(begun));
    return receive_buffer;
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
  /// A long message in flight.
  struct Begun final : transport::Arrival {
    Begun(BufferCallbacks& the_owner, std::uint64_t the_bytes)
        : owner(the_owner), bytes(the_bytes) {}
    void arrived() override {
      std::uint64_t at = 0;
      for (const iovec& piece : iov) {
        const auto* contents = static_cast<const std::byte*>(piece.iov_base);
        for (std::uint64_t i = 0; i < piece.iov_len; ++i, ++at)
          expect(at < bytes || contents[i] == untouched);
      }
      owner.forget(this);
    }
    void failed(const Error& error) override {
      expect(is_told(error));
      owner.forget(this);
    }

    BufferCallbacks& owner;
    std::uint64_t bytes, room = 0;
    std::vector<std::unique_ptr<std::byte[]>> buffers;
    std::vector<iovec> iov;
  };
  void forget(Begun* begun) { expect(begun_.erase(begun) == 1); }

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

  Input& input_;
  std::byte* in_pool_;
  std::map<void*, std::unique_ptr<Begun>> begun_;
  unsigned events_ = 0;
};

}  // namespace penstock::fuzz

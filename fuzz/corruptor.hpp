// Writes into the lines between two endpoints: their table, mailboxes and the channel from one to
// the other, where the production code put them and will read next.
#pragma once

#include <array>
#include <optional>

#include "fuzz/endpoint_world.hpp"
#include "fuzz/input.hpp"
#include "transport/layout.hpp"

namespace penstock::fuzz {

class Corruptor {
 public:
  Corruptor(const EndpointWorld& world, Input& input) : world_(world), input_(input) {}

  /// Changes one line on the way from endpoint `from` to endpoint `to`.
  void corrupt(std::uint32_t from, std::uint32_t to) {
    find_channel(from, to);
    std::byte* at = choose_line(from, to);
    if (at == nullptr) return;
    Line line = line_at(at);
    const std::uint64_t number = number_of(line);
    change(line);
    if (message_ && input_.below(8) != 7) line[7] = sequence_tag_of(line, number);
    if (checked_ && input_.below(4) != 3) line[7] = transport::checksum_of(line);
    before_ = line_at(at);
    std::memcpy(at, line.data(), sizeof line);
  }

 private:
  using Line = std::array<std::uint64_t, 8>;

  static Line line_at(const std::byte* at) {
    Line line;
    std::memcpy(line.data(), at, sizeof line);
    return line;
  }

  static std::uint64_t sequence_tag_of(const Line& line, std::uint64_t number) {
    transport::MessageLine message;
    std::memcpy(&message, line.data(), sizeof message);
    return message.sequence_tag_of(number);
  }
  /// The number for which this line would be the first of a message, by its sequence tag.
  static std::uint64_t number_of(const Line& line) { return line[7] ^ sequence_tag_of(line, 0); }

  /// Finds the channel that the mailbox word refers to, and how far its sender has got.
  void find_channel(std::uint32_t from, std::uint32_t to) {
    channel_ = nullptr;
    std::uint64_t word;
    const std::byte* const place = world_.word(to, from);
    if (place == nullptr) return;
    std::memcpy(&word, place, sizeof word);
    const std::uint64_t offset = transport::MailboxWord::offset(word);
    if (word == 0 || offset >= world_.frozen.bytes()) return;
    std::byte* at = world_.frozen.base() + offset;
    std::memcpy(&header_, at, sizeof header_);
    if (header_.magic != transport::channel_magic || header_.ring_lines == 0 ||
        header_.ring_lines > max_lines || header_.cell_flags > max_lines ||
        offset + bytes_of(header_) > world_.frozen.bytes())
      return;
    channel_ = at;
    head_ = 0;
    for (std::uint32_t i = 0; i < header_.ring_lines; ++i) {
      const std::uint64_t number = number_of(line_at(ring_line(i))) - header_.nonce;
      if (number < 1u << 20 && number >= head_) head_ = number + 1;
    }
  }

  static std::uint64_t bytes_of(const transport::ChannelHeader& header) {
    return transport::ChannelLayout(header).bytes();
  }
  std::byte* ring_line(std::uint64_t number) const {
    return channel_ + transport::ChannelLayout(header_).line(number % header_.ring_lines);
  }

  std::byte* line_of_word(std::uint32_t from, std::uint32_t to) const {
    return world_.word(to, from - from % transport::words_a_line);
  }

  /// Null: there is no channel yet.
  std::byte* choose_line(std::uint32_t from, std::uint32_t to) {
    const std::uint64_t which = input_.below(12);
    checked_ = which == 0 || which == 2;
    message_ = false;
    if (which == 0) return world_.line(input_.flag() ? from : to);
    if (which == 1) return input_.below(4) == 3 ? world_.box(to) : line_of_word(from, to);
    if (channel_ == nullptr) return nullptr;
    switch (which) {
      case 2:
        return channel_;
      case 3:
        return channel_ + transport::ChannelLayout::credits;
      case 4:
        return channel_ + transport::ChannelLayout::position;
      case 5:
        return header_.cell_flags < 8
                   ? nullptr
                   : channel_ +
                         transport::ChannelLayout::flag_line(input_.below(header_.cell_flags));
      default:
        message_ = true;
        return ring_line(head_ + 4 - input_.below(16));
    }
  }

  void change(Line& line) {
    using namespace transport;
    switch (input_.below(8)) {
      case 0:
        line[input_.below(8)] ^= 1ull << input_.below(64);
        return;
      case 1:
        line[input_.below(8)] = header_.nonce + head_ + input_.lie(64);
        return;
      case 2:  // the contents of another line, under this line's sequence tag
        if (channel_ != nullptr) {
          const std::uint64_t sequence_tag = line[7];
          line = line_at(ring_line(input_.byte()));
          if (message_ && input_.flag()) line[7] = sequence_tag;
        }
        return;
      case 3:  // the contents before the last change, whichever line that was
        if (before_) line = *before_;
        return;
      case 4:
        line = {};
        return;
      case 5:
      case 6:
        if (message_) {  // a message of another length or form
          const auto form = static_cast<Form>(1 + input_.below(4));
          line[0] = MessageLine::pack(input_.lie(world_.frozen.bytes()) & max_message_bytes,
                                      input_.byte(), form, input_.byte());
          return;
        }
        [[fallthrough]];
      default: {
        const std::uint64_t lie = input_.lie(world_.frozen.bytes());
        std::memcpy(reinterpret_cast<std::byte*>(line.data()) + 4 * input_.below(14), &lie,
                    input_.flag() ? 4 : 8);
      }
    }
  }

  static constexpr std::uint32_t max_lines = 1 << 14;

  const EndpointWorld& world_;
  Input& input_;
  std::byte* channel_ = nullptr;
  transport::ChannelHeader header_{};
  std::uint64_t head_ = 0;  ///< number of lines that its sender has written
  bool checked_ = false;    ///< the chosen line ends with a checksum
  bool message_ = false;    ///< the chosen line belongs to the ring
  std::optional<Line> before_;
};

}  // namespace penstock::fuzz

// A channel as a sender may lay it out in its memory, correctly or not.
#pragma once

#include <cstdint>
#include <cstring>

#include "fuzz/expect.hpp"
#include "fuzz/input.hpp"
#include "transport/layout.hpp"

namespace penstock::fuzz {

struct Parties {
  std::uint64_t job = 0;
  std::uint32_t source = 0, source_generation = 0;
  std::uint32_t target = 0, target_generation = 0;
};

/// Writes into a pool of `pool_bytes` at `base`; the channel begins at `offset`, its cells at
/// `cells`. The sender goes on counting lines; the receiver must judge what it writes.
class ForgedChannel {
 public:
  ForgedChannel(std::byte* base, std::uint64_t pool_bytes, std::uint64_t offset,
                std::uint64_t cells, std::uint64_t nonce)
      : base_(base), bytes_(pool_bytes), offset_(offset), cells_(cells), nonce_(nonce) {}

  std::uint64_t offset() const { return offset_; }

  void write_header(const Parties& parties, Input& input) {
    transport::ChannelHeader header{};
    header.magic = transport::channel_magic;
    header.nonce = nonce_;
    header.job = parties.job;
    header.source = parties.source;
    header.source_generation = parties.source_generation;
    header.target = parties.target;
    header.target_generation = parties.target_generation;
    header.ring_lines = 8u << input.below(8);
    header.cell_flags = 8 * static_cast<std::uint32_t>(1 + input.below(8));
    if (input.below(8) == 7) {
      const std::uint64_t lie = input.lie(bytes_);
      std::memcpy(reinterpret_cast<std::byte*>(&header) + 4 * input.below(14), &lie, 4);
    }
    if (input.below(16) != 15) header.checksum = checksum_of(header);
    put(offset_, &header, sizeof header);
    ring_lines_ = header.ring_lines;
    flags_ = offset_ + transport::ChannelLayout::flags;
    ring_ = offset_ + transport::ChannelLayout(header).line(0);
    flag_count_ = header.cell_flags;
  }

  /// Writes the first line of a message, with a checksum for its place; now and then with a false
  /// field.
  void write_message(Input& input) {
    using transport::Form;
    transport::MessageLine line{};
    const auto drawn = input.below(16);
    const auto form = static_cast<Form>(drawn == 15   ? input.byte()
                                        : drawn == 14 ? 4 + input.below(2)
                                                      : 1 + input.below(3));
    const std::uint8_t flags = input.byte(), kind = input.byte();
    std::uint64_t bytes = input.below(8) == 7     ? input.lie(1ull << 40)
                          : form == Form::inlined ? input.below(transport::inline_bytes + 1)
                          : form == Form::eager   ? 33 + input.below(600)
                                                  : input.number<std::uint16_t>();
    bytes &= transport::max_message_bytes;
    line.meta = transport::MessageLine::pack(bytes, flags, form, kind);
    line.tag = input.byte();
    line.data = input.byte();
    if (form == Form::pipelined) {
      line.pipelined.offset = cells_;
      line.pipelined.cell_bytes =
          static_cast<std::uint32_t>(coherence::line_bytes * (1 + input.below(32)));
      line.pipelined.cell_count = 1 + static_cast<std::uint32_t>(input.below(8));
      line.pipelined.first_cell = cell_;
      line.pipelined.ready = input.below(2);
      if (input.below(8) == 7) {
        const std::uint64_t lie = input.lie(bytes_);
        std::memcpy(line.payload + 4 * input.below(8), &lie, input.flag() ? 4 : 8);
      }
      first_cell_ = cell_ = line.pipelined.first_cell;
      cell_count_ = line.pipelined.cell_count;
      ready_ = line.pipelined.ready;
    } else if (form == Form::rendezvous_get) {
      line.rendezvous_get.offset = input.below(4) == 3 ? input.lie(bytes_) : cells_ + input.byte();
      line.rendezvous_get.piece_bytes =
          input.below(4) == 3 ? input.lie(bytes) : 1 + input.below(4096);
      pieces_ = line.rendezvous_get.piece_bytes == 0 || bytes == 0
                    ? 0
                    : transport::pieces_of(bytes, line.rendezvous_get.piece_bytes);
    } else {
      input.fill(line.payload, input.below(33));
    }
    line.sequence_tag = line.sequence_tag_of(nonce_ + head_);
    if (input.below(16) == 15) line.sequence_tag += input.lie(8);
    put_line(&line);
    if (form == Form::eager && input.below(4) != 3)
      write_rest(transport::lines_of(bytes) - 1, input);
    if (form == Form::rendezvous_get && pieces_ > 1) write_rest(pieces_ - 1, input);
    if (form == Form::pipelined && ready_ != 0) ++cell_;
  }

  /// Writes the lines after the first, all or fewer.
  void write_rest(std::uint64_t lines, Input& input) {
    if (lines > ring_lines_) lines = ring_lines_;
    if (input.below(4) == 3) lines = input.below(lines + 1);
    for (; lines > 0; --lines) {
      std::uint64_t words[8] = {head_, 2, 3, 4, 5, 6, 7, nonce_ + head_};
      put_line(words);
    }
  }

  /// Marks some cells as complete.
  void write_flags(Input& input) {
    for (auto cells = 1 + input.below(8); cells > 0; --cells) {
      const std::uint64_t slot = cell_count_ == 0 ? 0 : cell_ % cell_count_;
      const std::uint64_t flag = nonce_ + cell_;
      const std::uint64_t lies[] = {flag | transport::flag_put, transport::broken_off(flag)};
      const std::uint64_t word = input.below(4) == 3 ? lies[input.below(8) == 7] : flag;
      put(flags_ + 8 * (slot % (flag_count_ == 0 ? 1 : flag_count_)), &word, 8);
      ++cell_;
    }
  }

  /// Overwrites any word of header, credits, flags and ring.
  void write_word(Input& input) {
    const std::uint64_t word = input.flag() ? nonce_ + input.lie(64) : input.lie(bytes_);
    put(offset_ + 8 * input.below(600), &word, 8);
  }

 private:
  void put(std::uint64_t at, const void* from, std::uint64_t bytes) {
    if (at > bytes_ || bytes > bytes_ - at) return;
    std::memcpy(base_ + at, from, bytes);
  }
  void put_line(const void* line) {
    const std::uint64_t lap = ring_lines_ == 0 ? 1 : ring_lines_;
    put(ring_ + transport::line_bytes * (head_ % lap), line, transport::line_bytes);
    ++head_;
  }

  std::byte* base_;
  std::uint64_t bytes_, offset_, cells_, nonce_;
  std::uint64_t ring_ = 0, flags_ = 0, ring_lines_ = 8, flag_count_ = 8;
  std::uint64_t head_ = 0, cell_ = 0, first_cell_ = 0, cell_count_ = 1, ready_ = 0, pieces_ = 0;
};

}  // namespace penstock::fuzz

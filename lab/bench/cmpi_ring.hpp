// The baseline: the message ring of cMPI as published (sections 3.3 to 3.5). Head and tail words by
// non-temporal stores; a header and the payload copied into a cell and flushed line by line; a
// fence after each write and at each read; the sender reads the head for each message.
//
//   line 0        tail     sender: messages put in
//   line 1        head     receiver: messages taken out
//   then cells    line 0 header {number, bytes}, then the payload        sender
//
// Two deviations, both in its favour: a cell holds its header besides the full payload (published:
// 64 KB in all, so that a 64 KB message takes two cells), and the fence comes after the flush at
// each read (published: before it, where it does not order the load).
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>

#include "bench/message_path.hpp"
#include "coherence/coherence.hpp"

namespace penstock::bench {

/// One direction. Each side has an object of its own over the same memory; one only sends, the
/// other only receives. The memory is zero at first.
class CmpiRing {
 public:
  static constexpr std::uint64_t depth = 8;
  static std::uint64_t bytes(std::uint64_t cell_bytes) { return 128 + depth * (64 + cell_bytes); }

  /// `memory` must be bound so that bulk is copied and flushed: see paper_memory().
  CmpiRing(const coherence::Memory& memory, std::byte* at, std::uint64_t cell_bytes)
      : memory_(memory), at_(at), cell_bytes_(cell_bytes) {}

  /// Returns false if no cell is free.
  bool try_send(const std::byte* data, std::size_t bytes);
  /// Is there a message that was not taken yet? One flush, fence and load.
  bool poll();
  /// Takes the message that poll() saw; returns its size, nullopt if the size is impossible.
  std::optional<std::size_t> take(std::byte* to, std::size_t capacity);

 private:
  struct Header {
    std::uint64_t number, bytes, pad[6];
  };
  static_assert(sizeof(Header) == 64);
  std::byte* cell(std::uint64_t number) const {
    return at_ + 128 + (number - 1) % depth * (64 + cell_bytes_);
  }

  coherence::Memory memory_;
  std::byte* at_;
  std::uint64_t cell_bytes_;
  std::uint64_t number_ = 0;  ///< number of the last message sent or taken
};

/// The memory interface of the ring: in software mode it copies by plain stores, then clflushopt.
Result<coherence::Memory> paper_memory(coherence::Mode mode);

/// "cMPI ring, 64 KB cells"
std::string ring_name(std::uint64_t cell_bytes);

/// Messages of any size through two rings, one for each direction, in chunks of a cell.
class CmpiPath final : public MessagePath {
 public:
  CmpiPath(CmpiRing out, CmpiRing in, std::uint64_t cell_bytes)
      : out_(out), in_(in), cell_bytes_(cell_bytes) {}
  Result<void> send(const std::byte* data, std::size_t bytes) override;
  Result<void> receive(std::byte* to, std::size_t bytes) override;

 private:
  CmpiRing out_, in_;
  std::uint64_t cell_bytes_;
};

}  // namespace penstock::bench

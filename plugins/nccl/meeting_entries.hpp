// The entries of a meeting in the pool: each rank writes its own once, and reads the entries of the
// others. An entry is five lines:
//
//   state      in the last word of the first line: 0, then present(key), then done(key)
//   content    token, then the rank's data
//
// The content is at the device before the state: penstock_write() returns only then. The state is
// one word, so that a reader finds either the old or the new one, and it is the last word of its
// line: when it has arrived, no other word of that line is still on its way, and the object may be
// freed.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>

#include "penstock/penstock.h"

namespace penstock::nccl {

class MeetingEntries {
 public:
  static constexpr std::uint64_t max_bytes = 192;  ///< of a rank's data
  static constexpr std::uint64_t bytes_of_rank = 5 * 64;

  /// `memory`: in the pool, bytes_of_rank for each rank, zeroed before the meeting begins. `key`:
  /// odd; the same on all ranks.
  MeetingEntries(penstock_pool_t* pool, void* memory, std::uint64_t key)
      : pool_(pool), memory_(static_cast<std::byte*>(memory)), key_(key) {}

  /// Writes the entry of `rank`. Call it once. `bytes`: at most max_bytes.
  void write(int rank, std::uint64_t token, const void* data, std::uint64_t bytes);
  /// Copies the data of `rank` to `data` and returns its token; nullopt: it has not arrived yet.
  std::optional<std::uint64_t> read(int rank, void* data, std::uint64_t bytes) const;
  /// This rank, `rank`, makes no further access to the memory.
  void leave(int rank);
  bool has_left(int rank) const;

 private:
  std::byte* place(int rank) const {
    return memory_ + static_cast<std::uint64_t>(rank) * bytes_of_rank;
  }
  std::uint64_t present() const { return key_; }
  std::uint64_t done() const { return key_ ^ 2; }  // neither 0 nor the key, which is odd
  void set_state(int rank, std::uint64_t state);
  std::uint64_t state(int rank) const;

  penstock_pool_t* pool_;
  std::byte* memory_;
  std::uint64_t key_;
};

}  // namespace penstock::nccl

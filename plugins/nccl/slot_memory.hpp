// A rank's memory in the pool, through which its long messages of GPUs go. Only this rank and its
// GPU store there: a rank that goes on late never stores into memory that has a new owner.
//
//   line 0           the communicator's key; another word: this rank has given up, and what its
//                    slots hold is not to be used
//   line 1           0; then the key: this rank's GPU does not access the others' memory any more
//   from a page on   a ring of slots for each of the other ranks, in the order of ranks
#pragma once

#include <cstdint>
#include <optional>

#include "nccl/abi.hpp"
#include "penstock/penstock.h"

namespace penstock::nccl {

/// The slots from one rank to another.
struct SlotRing {
  static constexpr std::uint64_t slots = 4;

  penstock_pool_t* pool = nullptr;
  std::byte* begin = nullptr;  ///< of the first slot
  std::uint64_t slot_bytes = 0;
  const std::byte* owner = nullptr;  ///< the sender's line 0
  std::uint64_t key = 0;             ///< what it holds while the sender has not given up
  std::uint64_t token = 0;           ///< of the sender's process
  bool is_apart = false;             ///< the ranks are on different hosts

  std::uint64_t bytes() const { return slots * slot_bytes; }
  std::byte* slot(std::uint64_t chunk) const { return begin + chunk % slots * slot_bytes; }
  /// Called by the sender before its GPU's first store.
  Result drop_copies() const;
  /// Called by the sender when its GPU has filled a slot.
  Result publish(std::uint64_t chunk, std::uint64_t bytes) const;
  /// Called by the receiver before its GPU reads a slot.
  Result observe(std::uint64_t chunk, std::uint64_t bytes) const;
  /// Called by the receiver when its GPU has read a slot: whether the sender has given up or died,
  /// so that the slot may have been overwritten before.
  bool has_failed() const;
};

class SlotMemory {
 public:
  static constexpr std::uint64_t head_bytes = 4096;
  static constexpr std::uint64_t bytes(std::uint64_t rings, std::uint64_t slot_bytes) {
    return head_bytes + rings * SlotRing::slots * slot_bytes;
  }

  SlotMemory(penstock_pool_t* pool, std::byte* data, std::uint64_t key)
      : pool_(pool), data_(data), key_(key) {}

  // Called by the owner:
  void begin();
  /// Precedes the stores of its GPU into slots that are not free.
  void give_up();
  /// Follows the last access of its GPU to memory of the others.
  void leave();
  /// Stores of its GPU may lie in this host's caches, and must not come after a new owner's.
  /// Follows the last of them. `bytes`: of all memory.
  void write_back(std::uint64_t bytes) const;

  // Called by others, also when the memory has another owner:
  bool has_given_up() const { return word(0).value_or(key_) != key_; }
  /// The owner has left, or its memory is gone, as it may be only then.
  bool has_left() const;

  /// The ring number `place`.
  SlotRing ring(std::uint64_t place, std::uint64_t slot_bytes) const;

 private:
  std::optional<std::uint64_t> word(std::uint64_t line) const;
  void write(std::uint64_t line, std::uint64_t value);

  penstock_pool_t* pool_;
  std::byte* data_;
  std::uint64_t key_;
};

}  // namespace penstock::nccl

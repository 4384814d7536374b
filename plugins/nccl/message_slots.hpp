// Memory of the pool through which long messages of GPUs go. Each rank has an object with a few
// slots for each other rank: its own GPU alone copies into them, and that of the other rank copies
// from there. Messages of the host tell which slot is full, and which is free again.
//
//   line 0              the communicator's key; another word: this rank has given up, and what its
//                       slots hold is not to be used
//   line 1 + r          the key, once rank r has left, whose GPU then does not access the slots
//   from a page on      `slots` slots for each of the other ranks, in the order of ranks
#pragma once

#include <cstdint>
#include <mutex>
#include <string>
#include <vector>

#include "nccl/abi.hpp"
#include "penstock/penstock.h"

namespace penstock::nccl {

/// The slots from one rank to another.
struct SlotRing {
  static constexpr std::uint64_t slots = 4;

  penstock_pool_t* pool = nullptr;
  std::byte* begin = nullptr;  ///< of the first slot
  std::uint64_t slot_bytes = 0;
  const std::byte* failed = nullptr;  ///< the sender's line 0
  std::uint64_t key = 0;              ///< what it holds while the sender has not given up
  std::uint64_t token = 0;            ///< of the sender's process
  bool is_apart = false;              ///< the ranks are on different hosts

  std::byte* slot(std::uint64_t chunk) const { return begin + chunk % slots * slot_bytes; }
  /// Called by the sender when its GPU has filled a slot.
  Result publish(std::uint64_t chunk, std::uint64_t bytes) const;
  /// Called by the receiver before its GPU reads a slot.
  Result observe(std::uint64_t chunk, std::uint64_t bytes) const;
  /// Called by the receiver when its GPU has read a slot: whether the sender has given up or died,
  /// so that the slot may have been overwritten before.
  bool has_failed() const;
};

class MessageSlots {
 public:
  /// A rank's memory, for the other ranks.
  struct Offer {
    std::uint64_t slot_bytes = 0;  ///< 0: it has none
    std::uint32_t node = 0;
    std::uint32_t has_gpu = 0;
  };

  /// Takes this rank's memory, a part of what is free in the pool; without a GPU, or if slots would
  /// be too short, none.
  MessageSlots(penstock_pool_t* pool, std::uint64_t key, int rank, int ranks, bool has_gpu);
  /// This process's GPU does not access the memory any more. This rank's own is freed when all
  /// others have left, too, and this process makes or leaves a communicator, or detaches.
  ~MessageSlots();
  /// Precedes the detaching of this process, which frees its memory in the pool.
  static void forget(const penstock_pool_t* pool);
  MessageSlots(const MessageSlots&) = delete;
  MessageSlots& operator=(const MessageSlots&) = delete;

  const Offer& own() const { return offers_[self_]; }
  std::uint64_t key() const { return key_; }
  bool has_gpu(std::uint32_t rank) const { return offers_[rank].has_gpu != 0; }
  /// Those of all ranks, and the tokens of their processes.
  void meet(std::vector<Offer> offers, std::vector<std::uint64_t> tokens);
  /// Of each slot of the direction; 0: it has none. All ranks know it alike.
  std::uint64_t slot_bytes(std::uint32_t from, std::uint32_t to) const;
  /// Finds the slots of a direction of this rank. Errors: remote_error, where the sender has taken
  /// them back already.
  Result find(std::uint32_t peer, bool is_send, SlotRing& ring);
  /// Tells the others that this rank has given up. Before its streams stop waiting.
  void fail();
  /// Whether a peer whose memory this rank may open has told so.
  bool has_given_up(std::uint32_t peer);

 private:
  std::string name_of(std::uint32_t rank) const;
  penstock_object_t* open(std::uint32_t rank);

  penstock_pool_t* pool_;
  std::uint64_t key_;
  std::uint32_t self_;
  std::vector<Offer> offers_;
  std::vector<std::uint64_t> tokens_;
  std::mutex mutex_;                         ///< guards the others' objects
  std::vector<penstock_object_t*> objects_;  ///< by the sender's rank; null: not opened
  bool is_used_ = false;                     ///< this rank's GPU has stored into its slots
};

}  // namespace penstock::nccl

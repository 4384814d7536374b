// The slots of a communicator: each rank with a GPU has an object in the pool (slot_memory.hpp).
// Messages of the host tell which slot is full, and which is free again.
#pragma once

#include <cstdint>
#include <mutex>
#include <string>
#include <vector>

#include "nccl/abi.hpp"
#include "nccl/slot_memory.hpp"
#include "penstock/penstock.h"

namespace penstock::nccl {

class MessageSlots {
 public:
  /// A rank's memory, for the other ranks.
  struct Offer {
    std::uint64_t slot_bytes = 0;  ///< 0: it has none
    std::uint32_t node = 0;
    std::uint16_t has_gpu = 0;
    std::uint16_t has_memory = 0;  ///< if not, nobody learns of its leaving before it has ended
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
  SlotMemory memory(const penstock_object_t* object) const;

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

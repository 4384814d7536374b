// Pool memory of one endpoint for its channels. It comes from the arena in growing pieces, so that
// memory grows with the number of communicating pairs. A channel's block is returned when its peer
// has ended; a piece without blocks in use goes back to the arena.
#pragma once

#include <list>
#include <vector>

#include "transport/first_piece.hpp"

namespace penstock::transport {

class TxMemory {
 public:
  TxMemory(arena::Arena& arena, const EndpointTable& table, const Address& owner)
      : arena_(&arena), owner_(owner), first_(arena, table, owner) {}
  ~TxMemory();
  TxMemory(const TxMemory&) = delete;
  TxMemory& operator=(const TxMemory&) = delete;

  /// Allocates a block, 4 KiB aligned, contents undefined. `needed`: the caller fails without it,
  /// and `penstock ps` shows that the pool is full. Errors: no_space, with `what` and a remedy; if
  /// not `needed`, also deadline (the pool's lock, whose holder may be stopped, is not free soon).
  Result<std::byte*> allocate(std::uint64_t bytes, const char* what, bool needed = true);
  /// Returns a block; `bytes` as allocated. `quiescent`: no other process can store there any more.
  /// Otherwise this object never reuses the block: it goes back with its piece, and the arena keeps
  /// space that a dead process may have stored to in quarantine.
  void give_back(std::byte* at, std::uint64_t bytes, bool quiescent);
  /// Leaves memory in use, to which a living peer may still store, until the job is reclaimed. The
  /// last call.
  void defer_reclaim();

 private:
  struct Block {
    std::byte* at;
    std::uint64_t bytes;
  };
  struct Slab {
    arena::Object object;
    std::uint64_t taken = 0;  ///< bytes from the beginning that were ever allocated
    std::uint64_t used = 0;   ///< bytes in use
    bool quiet = true;        ///< no process, living or dead, can store there any more
    std::vector<Block> free;  ///< returned blocks
    bool holds(const std::byte* at) const {
      return at >= object.data && at < object.data + object.bytes;
    }
  };
  Result<Slab*> piece(std::uint64_t bytes, const char* what, bool needed);
  Result<Slab*> shared_piece(const char* what, bool needed);
  /// False: the pool's lock was not free in time.
  bool give_empty_pieces_back(std::uint64_t timeout_ns);
  static std::byte* take_from(Slab& piece, std::uint64_t bytes);

  arena::Arena* arena_;
  Address owner_;
  std::list<Slab> pieces_;
  FirstPiece first_;
  std::uint64_t made_ = 0;  ///< pieces made so far
  std::uint64_t next_piece_bytes_ = first_piece_bytes;
  static constexpr std::uint64_t first_piece_bytes = FirstPiece::bytes,
                                 largest_piece_bytes = 8 << 20;
};

}  // namespace penstock::transport

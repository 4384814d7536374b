// Allocates pool memory for the words of this process's windows (docs/protocols/window.md). Pieces
// are cut from a few objects, so that a window needs no object of its own. This process reuses
// freed pieces.
#pragma once

#include <cstdint>
#include <map>
#include <mutex>
#include <vector>

#include "arena/arena.hpp"

namespace penstock::mpi {

class PoolMemory;

class WordMemory {
 public:
  struct Piece {
    std::uint64_t offset = 0;  ///< in the pool, aligned to a line
    std::uint64_t bytes = 0;
  };

  explicit WordMemory(PoolMemory& memory) : memory_(memory) {}
  /// Defers the reclaim of pieces that were not freed until the job ends: peers may still read
  /// them.
  ~WordMemory();
  WordMemory(const WordMemory&) = delete;
  WordMemory& operator=(const WordMemory&) = delete;

  /// Allocates whole lines of undefined content. Errors: no_space. Thread-safe, as give_back().
  Result<Piece> take(std::uint64_t bytes);
  /// Frees a piece. No other rank may access it any more.
  void give_back(const Piece& piece);

 private:
  PoolMemory& memory_;
  std::mutex mutex_;
  std::map<std::uint64_t, std::vector<std::uint64_t>>
      free_;  ///< offsets of free pieces, keyed by size
  std::vector<arena::Object> objects_;
  std::uint64_t next_ = 0, end_ = 0;  ///< the unused rest of the last object
  std::uint64_t object_bytes_ = 0;    ///< size of the last object
  std::uint64_t taken_ = 0;           ///< pieces in use
};

}  // namespace penstock::mpi

// Memory in the pool for the words of this process's windows (docs/protocols/window.md): small
// pieces, cut from a few objects, so that a window costs no object of its own. A piece that is
// given back serves this process again.
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
  /// Others may still read what was not given back: it stays until the job has ended.
  ~WordMemory();
  WordMemory(const WordMemory&) = delete;
  WordMemory& operator=(const WordMemory&) = delete;

  /// Whole lines, which may hold anything. Errors: no_space. Thread-safe, as give_back().
  Result<Piece> take(std::uint64_t bytes);
  /// No other rank reads or writes it any more.
  void give_back(const Piece& piece);

 private:
  PoolMemory& memory_;
  std::mutex mutex_;
  std::map<std::uint64_t, std::vector<std::uint64_t>> free_;  ///< by size: places
  std::vector<arena::Object> objects_;
  std::uint64_t next_ = 0, end_ = 0;  ///< of the last object, what was never taken
  std::uint64_t object_bytes_ = 0;    ///< of the last object
  std::uint64_t taken_ = 0;           ///< pieces
};

}  // namespace penstock::mpi

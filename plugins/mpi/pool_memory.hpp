// This process's memory in the pool, for MPI_Alloc_mem and MPI_Win_allocate.
#pragma once

#include <atomic>
#include <map>
#include <mutex>
#include <optional>

#include "arena/arena.hpp"

namespace penstock::mpi {

inline constexpr std::uint64_t page_bytes = 4096;

class PoolMemory {
 public:
  explicit PoolMemory(arena::Arena& arena) : arena_(arena) {}
  ~PoolMemory();
  PoolMemory(const PoolMemory&) = delete;
  PoolMemory& operator=(const PoolMemory&) = delete;

  /// Makes an object that lives at most as long as this process: on the given part of the pool, or
  /// else on this process's own part (pool::Pool::own_part) if it has room. Errors: no_space,
  /// no_slots.
  Result<arena::Object> make(std::uint64_t bytes, bool zeroed = false,
                             std::optional<std::uint32_t> part = {});
  /// Makes an object for words of many ranks. Successive objects rotate over the pool's parts.
  Result<arena::Object> make_words(std::uint64_t bytes);
  /// Offset of this process's bell: a word that peers ring in addition to the bell of a window
  /// (window::Options::on_request). Made at the first call; lives as long as the process. 0 if the
  /// pool is full.
  std::uint64_t bell();
  /// Frees the space, which may get a new owner at once. The caller must have no cached copies of
  /// it.
  void give_back(const arena::Object& object);
  /// Defers the reclaim until the job ends: other ranks may still store to the space.
  void defer_reclaim(const arena::Object& object) { arena_.defer_reclaim(object); }
  /// defer_reclaim() for the bell, if there is one.
  void defer_bell_reclaim();

  bool attached_here() const { return arena_.pool().attached_here(); }

  /// Allocates for MPI_Alloc_mem; free() takes the address. Errors: those of make().
  Result<void*> allocate(std::uint64_t bytes);
  /// Frees memory of allocate(). False if `base` is other memory.
  bool free(void* base);
  /// The block of allocate() that holds [at, at + bytes). Thread-safe, as all functions here.
  std::optional<arena::Object> block_of(const void* at, std::uint64_t bytes);

 private:
  Result<arena::Object> make(std::uint64_t bytes, arena::CreateOptions options);
  void drop(const arena::Object& object);

  arena::Arena& arena_;
  std::mutex mutex_;
  std::uint64_t made_ = 0;
  std::atomic<std::uint64_t> words_made_{0};
  std::map<const std::byte*, arena::Object> blocks_;
  std::once_flag bell_once_;
  std::optional<arena::Object> bell_;
};

}  // namespace penstock::mpi

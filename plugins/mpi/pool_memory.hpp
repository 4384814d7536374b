// Memory of this process in the pool, for MPI_Alloc_mem and MPI_Win_allocate.
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

  /// Makes an object that lives as long as this process at most, on a part of the pool if one is
  /// asked for, else on this process's own (pool::Pool::own_part) if there is room. Errors:
  /// no_space, no_slots.
  Result<arena::Object> make(std::uint64_t bytes, bool zeroed = false,
                             std::optional<std::uint32_t> part = {});
  /// For words of many ranks: one after another they go round the parts.
  Result<arena::Object> make_words(std::uint64_t bytes);
  /// Offset of this process's bell: a word that peers ring after that of a window of it
  /// (window::Options::on_request). Made when it is first asked for, and there as long as the
  /// process. 0: the pool has no room.
  std::uint64_t bell();
  /// Frees the space, which may have another owner at once. The caller's caches hold none of it.
  void give_back(const arena::Object& object);
  /// The space outlives this process: other ranks may still store there.
  void defer_reclaim(const arena::Object& object) { arena_.defer_reclaim(object); }
  /// The same of the bell, if there is one.
  void defer_bell_reclaim();

  bool attached_here() const { return arena_.pool().attached_here(); }

  /// For MPI_Alloc_mem: remembered by its address. Errors: as make.
  Result<void*> allocate(std::uint64_t bytes);
  /// False: not from here.
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

// Named objects in a pool: any node creates, opens, closes, destroys. Ten-level hash table of
// fixed capacity with distinct prime bucket counts. Source: cMPI section 3.1, 3.7, table 2.
// Layout and crash rules: docs/protocols/arena.md.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "penstock/pool.hpp"

namespace penstock::arena {

inline constexpr std::size_t max_name_bytes = 63;

/// Whose death frees an object.
enum class Lifetime : std::uint32_t {
  pool = 1,     ///< stays until destroyed, also across restarts of everything
  process = 2,  ///< freed when the process that created it dies or detaches
};

struct Object {
  std::string name;
  std::uint64_t offset = 0;  ///< in the pool; the data is aligned as asked (64 bytes at least)
  std::uint64_t bytes = 0;
  std::byte* data = nullptr;
  std::uint64_t generation = 0;  ///< tells an object from a later one of the same name
  std::uint32_t slot = 0;        ///< in the name table
};

struct CreateOptions {
  Lifetime lifetime = Lifetime::pool;
  std::uint64_t alignment = 64;  ///< power of two, at most 2 MiB
  bool zero = true;              ///< contents are zero, published, before the name appears
  bool open_existing = false;    ///< an existing object of the same size is opened instead
};

struct Stats {
  std::uint64_t bytes_total = 0, bytes_used = 0, bytes_largest_free = 0;
  std::uint64_t objects = 0, slots = 0;
};

/// Thread-safe. Creating and destroying take the pool's lock; opening takes none.
class Arena {
 public:
  struct Reclaimed {
    std::uint32_t processes = 0, objects = 0;
    std::uint64_t bytes = 0;
  };

  /// First use formats the arena under the pool's lock. Frees what the dead owned, and tells in
  /// `freed` what that was.
  static Result<std::unique_ptr<Arena>> open(pool::Pool& pool, Reclaimed* freed = nullptr);
  ~Arena();

  /// Errors: already_exists, invalid_argument (name, size 0), no_space (names needed and largest
  /// free), no_slots.
  Result<Object> create(std::string_view name, std::uint64_t bytes,
                        const CreateOptions& options = {});
  /// Errors: not_found, wrong_format. Never believes an offset or a size unchecked.
  Result<Object> open(std::string_view name);
  /// The name disappears and the space is free at once; users must have agreed not to touch it.
  /// Errors: not_found when the object (this generation of it) is gone already.
  Result<void> destroy(const Object& object);

  std::vector<Object> list() const;
  Stats stats() const;
  /// Frees the process-lifetime objects of `token`. The caller holds the pool's lock.
  std::uint32_t free_owned(std::uint64_t token);
  /// Finds the dead, frees their objects, frees space that a crash left unreachable.
  Result<Reclaimed> collect(bool dry_run = false);

  pool::Pool& pool() const;

  struct Impl;
  explicit Arena(std::unique_ptr<Impl> impl);

 private:
  std::unique_ptr<Impl> impl_;
};

}  // namespace penstock::arena

// Named objects in a pool: any node creates, opens, closes, destroys. Ten-level hash table of
// fixed capacity with distinct prime bucket counts. Source: cMPI, sections 3.1 and 3.7, Table 2.
// Layout and crash rules: docs/protocols/arena.md.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "pool/pool.hpp"

namespace penstock::arena {

inline constexpr std::size_t max_name_bytes = 63;

/// Prefix of the names of Penstock's own objects. Users neither see nor reach these objects: if a
/// user destroyed the undo log of a living process, that process would go on writing there.
inline constexpr std::string_view reserved_prefix = "penstock.";
inline bool is_reserved(std::string_view name) {
  return name.starts_with(reserved_prefix);
}

/// The processes whose death frees an object.
enum class Lifetime : std::uint32_t {
  pool = 1,     ///< stays until destroyed, also across restarts of everything
  process = 2,  ///< freed when the process that created it dies or detaches
  /// As `pool`, and also stays when hosts are switched off. Only if the pool can keep it
  /// (device::Durability).
  persistent = 3,
};

struct Object {
  std::string name;
  std::uint64_t offset = 0;  ///< in the pool; the data is aligned as asked (64 bytes at least)
  std::uint64_t bytes = 0;
  std::byte* data = nullptr;
  std::uint64_t generation = 0;  ///< distinguishes an object from a later one of the same name
  std::uint32_t slot = 0;        ///< in the name table
};

struct CreateOptions {
  Lifetime lifetime = Lifetime::pool;
  std::uint64_t alignment = 64;  ///< power of two, at most 2 MiB
  bool zero = true;              ///< contents are zero, published, before the name appears
  bool open_existing = false;    ///< an existing object of the same size is opened instead
  /// Contents before the name appears, in place of zeros: a process that finds the name finds all
  /// of them. As long as the object, which consists of whole lines and has at most 1 MiB.
  const std::byte* contents = nullptr;
  /// Puts all bytes on this part of the pool, within a stripe (device::Striping).
  std::optional<std::uint32_t> part;
  /// As `part` if the object fits and there is room there, else anywhere.
  std::optional<std::uint32_t> near = {};
  /// Limits the wait for the pool's lock, which a stopped process may hold; 0: the default. With a
  /// limit the call does not wait for space in quarantine either.
  std::uint64_t timeout_ns = 0;
};

/// One of several objects that are made together, each for a process of this node.
struct Share {
  std::string name;
  std::uint64_t owner = 0;  ///< the process's token
  std::uint32_t part = 0;   ///< preferred part of the pool
};

/// The processes for which Arena::create_shared also makes objects. Both functions are called under
/// the pool's lock.
struct SharedWith {
  /// Returns processes of this node that are attached now. Those that already have a share are
  /// skipped.
  std::function<std::vector<Share>()> others;
  /// Called when the names are published and fenced. Returns the owners that no longer need their
  /// share; it is freed.
  std::function<std::set<std::uint64_t>()> late;
};

struct Stats {
  std::uint64_t bytes_total = 0, bytes_used = 0, bytes_largest_free = 0;
  std::uint64_t bytes_quarantined = 0;  ///< see Quarantine
  std::uint64_t objects = 0, slots = 0;
  bool damaged = false;  ///< the figures cover only what could be read
};

/// Space that was given back and is not yet free: since the object was made, a process died on a
/// node whose caches may still hold lines that it had stored. The quarantine ends when each such
/// node has flushed (at its next heartbeat, attach or `penstock pool gc`) or was restarted.
struct Quarantine {
  struct Node {
    std::uint32_t node = 0;
    std::string host;    ///< "" if the pool no longer holds its name
    bool alive = false;  ///< processes of it are attached: it will flush by itself
    std::uint64_t bytes = 0;
  };
  std::uint64_t bytes = 0, extents = 0;
  std::vector<Node> waits_for;

  /// Does some of the space wait only for living nodes?
  bool ends_by_itself() const;
};

/// Thread-safe. Creating and destroying take the pool's lock; opening takes none.
class Arena {
 public:
  struct Reclaimed {
    std::uint32_t processes = 0, objects = 0;
    std::uint64_t bytes = 0;
    std::uint64_t bytes_to_system = 0;  ///< blocks of the pool's files that no object uses
  };

  /// Opens the arena; its first use formats it under the pool's lock. Frees what the dead owned,
  /// and reports that in `freed`.
  static Result<std::unique_ptr<Arena>> open(pool::Pool& pool, Reclaimed* freed = nullptr);
  ~Arena();

  /// Creates an object. Errors: already_exists, invalid_argument (name, size 0), no_space (names
  /// the bytes needed and the largest free extent), no_slots, deadline.
  Result<Object> create(std::string_view name, std::uint64_t bytes,
                        const CreateOptions& options = {});
  /// Returns this process's share, of lifetime `process`: one that another process of the node has
  /// made, or a new one; then it also makes those of `with.others`, in the same turn of the pool's
  /// lock, so that processes that start together wait for one of them only. `options`: as for
  /// create(), except that contents are undefined. A process that ends without having called this
  /// calls adopt(), and destroys what it finds. Errors: as for create().
  Result<Object> create_shared(const Share& mine, std::uint64_t bytes, const CreateOptions& options,
                               const SharedWith& with);
  /// Takes over an object that another process has made for this one; from now on it is freed when
  /// this process leaves. One serialized device access. Errors: not_found.
  Result<Object> adopt(std::string_view name);
  /// Opens an object by name. Checks every offset and size that it reads. Errors: not_found,
  /// wrong_format.
  Result<Object> open(std::string_view name);
  /// Removes the name and frees the space at once; users must have agreed not to touch the object.
  /// `timeout_ns`: of the wait for the pool's lock (0: the default). `may` is called under the
  /// lock; its error keeps the object. Errors: not_found if the object (of this generation) no
  /// longer exists; deadline if the pool's lock is not free in time.
  Result<void> destroy(const Object& object, std::uint64_t timeout_ns = 0,
                       const std::function<Result<void>()>& may = {});

  /// Reads the lifetime from the object's header. Errors: not_found.
  Result<Lifetime> lifetime(const Object& object) const;
  /// Changes the lifetime. Takes the pool's lock. A process that makes an object `process` becomes
  /// its owner. Errors: not_found; unavailable for `persistent` if the pool keeps nothing.
  Result<void> set_lifetime(const Object& object, Lifetime lifetime);
  /// Returns the object in this slot of the name table if it still has this generation.
  std::optional<Object> find(std::uint32_t slot, std::uint64_t generation) const;
  /// True if this object still exists. One serialized device access, no allocation.
  bool stands(const Object& object) const;

  /// Under the lock. Stores to the object by dead processes of `node` may still lie dirty in that
  /// node's caches. Asks the node once to flush the object, and returns whether it has done so: at
  /// its next heartbeat, attach or `penstock pool gc`; at once if it is this node. Returns true for
  /// objects of lifetime `process`, and where caches are coherent: nothing needs to be flushed.
  Result<bool> is_flushed(const Object& object, std::uint32_t node);
  /// Under the lock. Makes a later is_flushed() ask anew.
  Result<void> forget_flush(const Object& object);

  /// Writes back this node's unpublished stores to the object and drops its copies; both are
  /// complete on return. Call it before leaving or destroying the object.
  void publish_stores(const Object& object) const;

  /// The token of the process that an object of lifetime `process` belongs to; 0: the object is
  /// gone. Two serialized device accesses.
  std::uint64_t owner(const Object& object) const;
  /// For objects of lifetime `process` that several processes use; they have one owner. `heir` is
  /// called under the pool's lock with the owner of the first object, unless that is gone. It
  /// returns the process that all of them belong to from now on, or 0: they are destroyed, the
  /// first one last. They no longer go with this process because it has made them. True: this call
  /// has destroyed the first one. Errors: deadline, and then nothing has changed.
  Result<bool> pass_on(const std::vector<Object>& objects,
                       const std::function<std::uint64_t(std::uint64_t owner)>& heir);

  /// Keeps this process's object when the process ends, because other living processes may still
  /// store to it. It is freed when the whole job has ended.
  void defer_reclaim(const Object& object);

  std::vector<Object> list() const;
  Stats stats() const;
  /// Finds the dead, frees their objects, and frees space that a crash left unreachable. In a
  /// sparse pool, also gives unused space back from its files.
  Result<Reclaimed> collect(bool dry_run = false);

  /// Returns the space in quarantine, and the nodes that it waits for.
  Quarantine quarantine() const;
  /// Ends the wait for a node whose host, and caches, are gone for good. Call it only when that is
  /// certain: later stores of its dead processes would damage the objects that then lie there.
  Result<void> end_quarantine_of(std::uint32_t node);

  pool::Pool& pool() const;

  struct Impl;
  explicit Arena(std::unique_ptr<Impl> impl);

 private:
  std::unique_ptr<Impl> impl_;
};

}  // namespace penstock::arena

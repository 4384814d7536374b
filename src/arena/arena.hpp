// Named objects in a pool: any node creates, opens, closes, destroys. Ten-level hash table of
// fixed capacity with distinct prime bucket counts. Source: cMPI section 3.1, 3.7, table 2.
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

/// Names of Penstock's own objects begin so. Users neither see nor reach these objects: if a user
/// destroyed the undo log of a living process, that process would go on writing there.
inline constexpr std::string_view reserved_prefix = "penstock.";
inline bool is_reserved(std::string_view name) {
  return name.starts_with(reserved_prefix);
}

/// The processes whose death frees an object.
enum class Lifetime : std::uint32_t {
  pool = 1,     ///< stays until destroyed, also across restarts of everything
  process = 2,  ///< freed when the process that created it dies or detaches
  /// As `pool`, and what was made persistent stays when hosts are switched off: only where the pool
  /// can keep it (pool::Durability).
  persistent = 3,
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
  /// What the object holds before the name appears, in place of zeros: who finds the name finds
  /// all of it. As long as the object, which has whole lines and 1 MiB at most.
  const std::byte* contents = nullptr;
  /// All of its bytes lie on this part of the pool, within a stripe (pool::Striping).
  std::optional<std::uint32_t> part;
  /// As `part` where it fits there and there is room, else anywhere.
  std::optional<std::uint32_t> near = {};
  /// Limit of the wait for the pool's lock, which a stopped process may hold; 0: the default. With
  /// a limit space in quarantine is not waited for either.
  std::uint64_t timeout_ns = 0;
};

/// One of several objects that are made together, for a process of this node.
struct Share {
  std::string name;
  std::uint64_t owner = 0;  ///< the process's token
  std::uint32_t part = 0;   ///< on which it lies, where there is room
};

/// The others for which Arena::create_shared makes objects. Both are called under the pool's lock.
struct SharedWith {
  /// Processes of this node that are attached now. Those that have a share already are left out.
  std::function<std::vector<Share>()> others;
  /// Called when the names are there and fenced: the owners that want theirs no more. It goes back.
  std::function<std::set<std::uint64_t>()> late;
};

struct Stats {
  std::uint64_t bytes_total = 0, bytes_used = 0, bytes_largest_free = 0;
  std::uint64_t bytes_quarantined = 0;  ///< see Quarantine
  std::uint64_t objects = 0, slots = 0;
  bool damaged = false;  ///< the figures are of what could be read
};

/// Space that was given back and is not allocated yet: a process died on a node since the object
/// was made, and that node's caches may hold lines that it had stored to. The quarantine ends when
/// each such node has flushed: at its next heartbeat, attach or `penstock pool gc`, or when it was
/// restarted.
struct Quarantine {
  struct Node {
    std::uint32_t node = 0;
    std::string host;    ///< "" when nothing in the pool tells any more
    bool alive = false;  ///< processes of it are attached: it flushes by itself
    std::uint64_t bytes = 0;
  };
  std::uint64_t bytes = 0, extents = 0;
  std::vector<Node> waits_for;

  /// Does any of it wait for living nodes only?
  bool ends_by_itself() const;
};

/// Thread-safe. Creating and destroying take the pool's lock; opening takes none.
class Arena {
 public:
  struct Reclaimed {
    std::uint32_t processes = 0, objects = 0;
    std::uint64_t bytes = 0;
    std::uint64_t bytes_to_system = 0;  ///< taken by the pool's files and used by no object
  };

  /// First use formats the arena under the pool's lock. Frees what the dead owned, and reports that
  /// in `freed`.
  static Result<std::unique_ptr<Arena>> open(pool::Pool& pool, Reclaimed* freed = nullptr);
  ~Arena();

  /// Errors: already_exists, invalid_argument (name, size 0), no_space (names needed and largest
  /// free), no_slots, deadline.
  Result<Object> create(std::string_view name, std::uint64_t bytes,
                        const CreateOptions& options = {});
  /// The share of this process, of lifetime `process`: one that another process of the node has
  /// made, or a new one, and then those of the others with it, in the same turn of the pool's lock.
  /// So all that start at once wait for one of them. `options` as for create(), but that contents
  /// are undefined. Whoever has not called this in the end calls adopt(), and destroys what it
  /// finds. Errors: as create().
  Result<Object> create_shared(const Share& mine, std::uint64_t bytes, const CreateOptions& options,
                               const SharedWith& with);
  /// An object that another process has made for this one; from now on it goes when this process
  /// leaves. One serialized device access. Errors: not_found.
  Result<Object> adopt(std::string_view name);
  /// Errors: not_found, wrong_format. Checks every offset and size that it reads.
  Result<Object> open(std::string_view name);
  /// The name disappears and the space is free at once; users must have agreed not to touch it.
  /// Errors: not_found when the object (this generation of it) is gone already.
  /// deadline when the pool's lock is not free within `timeout_ns` (0: the default). `may`: asked
  /// under the lock; its error keeps the object.
  Result<void> destroy(const Object& object, std::uint64_t timeout_ns = 0,
                       const std::function<Result<void>()>& may = {});

  /// As the object's header says now. Errors: not_found.
  Result<Lifetime> lifetime(const Object& object) const;
  /// Takes the pool's lock. The process that makes an object `process` is its owner then. Errors:
  /// not_found; unavailable, where the pool keeps nothing and `persistent` is asked for.
  Result<void> set_lifetime(const Object& object, Lifetime lifetime);
  /// The object of this generation in this slot of the name table, if it is still there.
  std::optional<Object> find(std::uint32_t slot, std::uint64_t generation) const;
  /// True if this object still exists. One serialized device access, no allocation.
  bool stands(const Object& object) const;

  /// Under the lock. What processes of `node` that have died stored to the object may still lie
  /// dirty in its caches. Asks the node to flush the object, once, and says whether it has: by its
  /// next heartbeat, attach or `penstock pool gc`; at once where it is this one. True for objects
  /// of lifetime `process`, and where caches are coherent: there is nothing to wait for.
  Result<bool> is_flushed(const Object& object, std::uint32_t node);
  /// Under the lock. A later is_flushed() asks anew.
  Result<void> forget_flush(const Object& object);

  /// Writes back this node's unpublished stores to the object and drops its copies; both are
  /// complete on return. Call it before the object is left or destroyed.
  void send_on(const Object& object) const;

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

  /// Other living processes may still store to this process's object: it stays when this process
  /// ends, and is given back when the job is gone.
  void leave_to_burial(const Object& object);

  std::vector<Object> list() const;
  Stats stats() const;
  /// Finds the dead, frees their objects, and frees space that a crash left unreachable. The files
  /// of a sparse pool give back space that no object uses.
  Result<Reclaimed> collect(bool dry_run = false);

  /// The space in quarantine, and the nodes that it waits for.
  Quarantine quarantine() const;
  /// The node's host is gone for good, and its caches with it: nothing waits for it any more. Call
  /// it only when that is certain: later stores of its dead processes damage what lies there by
  /// then.
  Result<void> end_quarantine_of(std::uint32_t node);

  pool::Pool& pool() const;

  struct Impl;
  explicit Arena(std::unique_ptr<Impl> impl);

 private:
  std::unique_ptr<Impl> impl_;
};

}  // namespace penstock::arena

// A pool: memory that several hosts map, and the processes attached to it. They find each other,
// notice deaths and reclaim by tables in the pool. src/device maps the memory. Layout and crash
// rules: docs/protocols/pool.md. Source: cMPI, section 3.1.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "base/status.hpp"
#include "coherence/coherence.hpp"
#include "device/create_options.hpp"
#include "device/device.hpp"
#include "device/owner.hpp"
#include "device/striping.hpp"
#include "pool/process_record.hpp"

namespace penstock::device {
class PoolMappings;
}

namespace penstock::pool {

/// Process slots that a rank takes: one for messages, one for windows.
inline constexpr std::uint32_t slots_per_rank = 2;
inline constexpr std::uint32_t max_ranks = 16384;
inline constexpr std::uint32_t max_nodes = 1024;
inline constexpr std::uint32_t default_ranks = 4096;  ///< if the pool is large enough
inline constexpr std::uint32_t least_default_ranks = 512;

inline constexpr std::uint32_t last_emulated_node = 65535;

/// Rank of a process that belongs to a job without being one of its ranks: a switch that serves it.
inline constexpr std::int32_t helper_rank = -2;

/// Contents of the superblock, checked: magic, layout version, checksum, geometry, size.
struct Info {
  std::string spec;
  std::uint64_t id = 0;  ///< random, never 0
  std::uint64_t bytes = 0;
  coherence::Mode mode = coherence::Mode::software;
  std::uint32_t max_processes = 0, max_nodes = 0;  ///< concurrent
  std::uint32_t max_ranks() const { return max_processes / slots_per_rank; }
  std::uint64_t created_wall_ns = 0;
  std::uint64_t arena_offset = 0, arena_bytes = 0;
  device::Striping striping;
  device::Owner owner;  ///< of the first part
};

using device::CreateOptions;

/// Creates and initializes a pool. Reserves space first, unless `sparse`: a small /dev/shm is an
/// error here, never a SIGBUS later. Errors name what was found, what was needed and the command
/// that fixes it.
Result<Info> create(const CreateOptions& options);
/// Reads the superblock only.
Result<Info> inspect(const std::string& spec);
/// Removes files and segments; wipes the superblock of a devdax. Refuses while living processes
/// are attached unless `force`.
Result<void> remove(const std::string& spec, bool force = false);

/// `penstock run` makes pools with this prefix for a job and removes them after the job.
inline constexpr std::string_view temporary_pool_prefix = "shm:run-";
/// The command that makes a pool of twice the size, as the end of an error message: "make a larger
/// pool: penstock pool create ...", or for a temporary pool "run the job with --size 64M".
/// `wanted`: bytes of the failed request, counted twice too, since other processes may ask for as
/// much.
std::string larger_pool_text(const Info& info, std::uint64_t wanted = 0);
/// The same; before it, for a pool that outlives its job, how to free space in it.
std::string more_space_text(const Info& info, std::uint64_t wanted = 0);

struct AttachOptions {
  std::string spec;
  std::optional<coherence::Mode> mode;  ///< if given, must match the pool's
  coherence::FlushChoice flush = coherence::FlushChoice::automatic;
  std::int32_t rank = -1;
  std::string job;
  std::optional<std::uint32_t>
      emulated_node;  ///< one of several nodes on this host (PENSTOCK_NODE)
  /// Its number among the ranks of its node, from 0; see part_for(). Default: the rank, or the slot
  /// of a process without rank.
  std::optional<std::uint32_t> seat = {};
  bool observer = false;  ///< maps and reads, takes no slot (pool info, ps)
};

class Members;
class PoolLock;
class Reclaim;

/// An attachment. Attaching takes milliseconds, whatever the size of the pool. Thread-safe except
/// where stated. A background thread renews the lease. The destructor detaches.
class Pool {
 public:
  /// Attaches, and reclaims dead owners found in the tables first. Errors: not_found, wrong_format,
  /// mismatch, permission, no_slots, no_space; each message ends with the fixing command.
  static Result<std::unique_ptr<Pool>> attach(const AttachOptions& options);
  ~Pool();
  Pool(const Pool&) = delete;
  Pool& operator=(const Pool&) = delete;

  /// False in a child forked by the attached process. There the parent's attachment cannot be
  /// locked, and destroying it or objects made from it has no effect. No system call.
  bool attached_here() const;
  const Info& info() const;

  const device::Device& device() const;
  const coherence::Memory& memory() const;
  std::byte* base() const;
  std::uint64_t bytes() const;
  /// Address of [offset, offset+bytes) after a bounds check; null if it is not inside the pool.
  void* at(std::uint64_t offset, std::uint64_t bytes) const;
  /// Offset of an address inside the mapping; nullopt outside.
  std::optional<std::uint64_t> offset_of(const void* address) const;
  /// Other mappings of the pool in this process. Call refresh() first if the answer must be
  /// complete.
  device::PoolMappings& mappings() const;

  /// Answers questions about the attached processes.
  const Members& members() const;
  /// Takes back the slots and the memory of dead processes.
  Reclaim& reclaim() const;

  std::uint32_t slot() const;        ///< own process slot
  std::uint64_t generation() const;  ///< of the own slot
  std::uint32_t node() const;
  /// `generation << 16 | slot`, never 0; identifies one incarnation of a process.
  std::uint64_t token() const;
  /// The part for objects of this process (device::part_for). `n`: index among objects that should
  /// lie on different parts. 0 in pools of one part.
  std::uint32_t own_part(std::uint64_t n = 0) const;
  /// As Members::alive().
  bool alive(std::uint64_t token) const;
  /// As Members::describe().
  std::string describe(std::uint64_t token) const;
  /// Call it before a store that only a living process may make. If this process has shown no life
  /// for so long that others may have declared it dead, it checks; if they have, it logs that and
  /// ends the process (status 75). A few ns, no system call, unless it is late.
  std::uint64_t confirm() const;
  void publish_stats(const ProcessStats& stats);  ///< own record; cheap, no system call
  void publish_activity(std::string_view text);   ///< own record; slow paths only
  /// `chore` is called at each heartbeat, usually by the heartbeat's thread, until it is replaced
  /// by an empty function; after that no call is in progress. It must be short: the lease is not
  /// renewed meanwhile. One per `owner`.
  void on_beat(const void* owner, std::function<void()> chore);

  /// The pool's lock: exclusive over all nodes and processes, by loads and stores between nodes and
  /// a lock file between processes of one host. The lock of a dead holder is recovered. Not
  /// recursive.
  class Guard;
  /// `unless`: called at times while another process of this host holds the lock. Errors: deadline;
  /// already_exists (`unless` returned true: another process has done the work).
  Result<Guard> lock(std::uint64_t timeout_ns = 0, const std::function<bool()>& unless = {});

  struct Impl;
  explicit Pool(std::unique_ptr<Impl> impl);

 private:
  std::unique_ptr<Impl> impl_;
};

class Pool::Guard {
 public:
  Guard(Guard&& other) noexcept : lock_(other.lock_) { other.lock_ = nullptr; }
  Guard& operator=(Guard&&) = delete;
  ~Guard();

 private:
  friend class PoolLock;
  explicit Guard(PoolLock* lock) : lock_(lock) {}
  PoolLock* lock_;
};

}  // namespace penstock::pool

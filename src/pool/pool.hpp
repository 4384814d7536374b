// A pool: memory that several hosts map, its superblock, and the attached processes. Layout and
// crash rules: docs/protocols/pool.md. Source: cMPI, section 3.1.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.hpp"
#include "coherence/coherence.hpp"
#include "pool/pool_mappings.hpp"
#include "pool/striping.hpp"

namespace penstock::pool {

inline constexpr std::uint64_t layout_version = 7;
inline constexpr std::uint64_t min_pool_bytes = 16ull << 20;

/// Process slots that a rank takes: one for messages, one for windows.
inline constexpr std::uint32_t slots_per_rank = 2;
inline constexpr std::uint32_t max_ranks = 16384;
inline constexpr std::uint32_t max_nodes = 1024;
inline constexpr std::uint32_t default_ranks = 4096;  ///< if the pool is large enough
inline constexpr std::uint32_t least_default_ranks = 512;
inline constexpr std::uint32_t default_nodes = 64;

/// One device, file or shared-memory segment of a SPEC.
struct Part {
  enum class Kind { devdax, file, shm } kind = Kind::file;
  std::string text;   ///< as written: "/dev/dax0.0", "/tmp/pool", "shm:demo"
  std::string named;  ///< its path: "/dev/shm/penstock.demo" for shm:demo
  /// The file that is opened, made or removed: `named`, or its target if that is a link.
  std::string path;

  bool is_link() const { return path != named; }
};
/// Parses a SPEC: `/dev/daxX.Y` | a path | `shm:NAME`; several parts joined by commas interleave.
Result<std::vector<Part>> parse_spec(std::string_view spec);
/// The same SPEC with absolute paths, for a process in another folder.
Result<std::string> absolute_spec(std::string_view spec);

struct CreateOptions {
  std::string spec;
  /// Total of all parts. 0: the whole devdax; for a file that is replaced, its present size.
  std::uint64_t bytes = 0;
  coherence::Mode mode = coherence::Mode::software;
  std::uint32_t max_processes = 0;  ///< process slots, two a rank; 0: by the size, default_ranks
  std::uint32_t max_nodes = default_nodes;  ///< concurrent nodes
  std::uint32_t permissions = 0600;
  std::optional<std::string> group;  ///< group name that may attach too (permissions 0660)
  bool overwrite = false;            ///< replace an existing pool
  /// The files take space when an object is made, at once for the whole object. A full file system
  /// is an error then. Errors: unavailable (the file system cannot reserve space).
  bool sparse = false;
};

/// The owner of a pool in the file system.
struct Owner {
  std::uint32_t uid = 0, gid = 0;
  std::uint32_t permissions = 0;
  std::string text() const;  ///< "root:lab 0660"
};
std::string user_name(std::uint32_t uid);   ///< "uid 1234" if it has no name
std::string group_name(std::uint32_t gid);  ///< likewise

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
  Striping striping;
  Owner owner;  ///< of the first part
};

/// Creates and initializes a pool. Reserves space first, unless `sparse`: a small /dev/shm is an
/// error here, never a SIGBUS later. Errors name what was found, what was needed and the command
/// that fixes it.
Result<Info> create(const CreateOptions& options);
/// Reads the superblock only.
Result<Info> inspect(const std::string& spec);
/// Checks whether this user's jobs may use the pool. Attaching includes this check; inspecting does
/// not. Errors: permission (the owner is neither this user nor root nor in PENSTOCK_TRUST_OWNER, or
/// all users may write to the pool).
Result<void> check_owner(const std::string& spec);
/// True if PENSTOCK_TRUST_OWNER accepts `name`: a user or a :GROUP, by name or number, or
/// everybody.
bool can_be_trusted(const std::string& name);
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

/// Which data a pool keeps when its hosts are switched off.
enum class Durability : std::uint32_t {
  none = 0,  ///< no data: the pool lies in memory of a host (shm:, tmpfs)
  file = 1,  ///< data that Pool::sync() has written to the file, which the page cache maps
  /// Data that have reached the device (coherence::Memory::full_fence): devdax, a file that the
  /// kernel maps with MAP_SYNC, and in simulated mode the file that stands for a device. They last
  /// as long as the device's own memory; no system call says whether that has a battery.
  device = 2,
};
const char* durability_name(Durability durability);

/// A process as the process table describes it (checked).
struct ProcessRecord {
  std::uint32_t slot = 0;
  std::uint64_t generation = 0;                ///< grows with each claim of the slot
  std::uint32_t node = 0;                      ///< index in the pool's node table
  std::optional<std::uint32_t> emulated_node;  ///< from PENSTOCK_NODE, among those of its host
  std::string host;
  std::string boot_id;
  std::uint32_t scope = 0;  ///< ProcessIdentity::scope
  std::int64_t pid = 0;
  std::uint64_t start_time = 0;  ///< of /proc/PID/stat, clock ticks since boot
  std::uint64_t attached_wall_ns = 0;
  std::uint64_t lease_beat = 0;    ///< heartbeat counter
  std::uint64_t device_reads = 0;  ///< lines read from the device until that beat
  std::uint64_t beat_ns = 0;       ///< time of that beat, by the clock of its host
  std::int32_t rank = -1;          ///< of the job, -1 when unknown
  std::string job;                 ///< job key, "" when none
  std::string program;
  bool attached = false;  ///< false: detached in order; the statistics are its last ones
  bool alive = false;
  // published by the transport, for `penstock ps` and the job summary
  std::uint64_t messages_sent = 0, bytes_sent = 0, messages_received = 0, bytes_received = 0;
  std::string activity;  ///< "", or its current wait

  std::uint64_t token() const { return generation << 16 | slot; }  ///< as Pool::token()
};

/// "node 3", or "emulated node 1" if several nodes are emulated on one host.
std::string node_text(const ProcessRecord& record);
/// "rank 3 (pid 1234 on host a, node 1)"; the program's name if it has no rank.
std::string describe(const ProcessRecord& record);

/// Activity of a process that needed more of the pool than was free.
inline constexpr std::string_view activity_pool_full = "found the pool full";
/// Activity of a process that only polls for messages. Another attachment of the process may know a
/// more precise one.
inline constexpr std::string_view activity_polling = "polls for messages";

/// Counters that a process publishes about itself. The transport writes them rarely.
struct ProcessStats {
  std::uint64_t messages_sent = 0, bytes_sent = 0, messages_received = 0, bytes_received = 0;
};

inline constexpr std::uint32_t last_emulated_node = 65535;

/// Rank of a process that belongs to a job without being one of its ranks: a switch that serves it.
inline constexpr std::int32_t helper_rank = -2;

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

class FlushTable;

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
  const coherence::Memory& memory() const;
  std::byte* base() const;
  std::uint64_t bytes() const;
  /// Address of [offset, offset+bytes) after a bounds check; null if it is not inside the pool.
  void* at(std::uint64_t offset, std::uint64_t bytes) const;
  /// Offset of an address inside the mapping; nullopt outside.
  std::optional<std::uint64_t> offset_of(const void* address) const;
  /// Other mappings of the pool in this process. Call refresh() first if the answer must be
  /// complete.
  PoolMappings& mappings() const;

  std::uint32_t slot() const;        ///< own process slot
  std::uint64_t generation() const;  ///< of the own slot
  std::uint32_t node() const;
  /// `generation << 16 | slot`, never 0; identifies one incarnation of a process.
  std::uint64_t token() const;
  /// The part for objects of this process (pool::part_for). `n`: index among objects that should
  /// lie on different parts. 0 in pools of one part.
  std::uint32_t own_part(std::uint64_t n = 0) const;
  /// True if the process is attached under this token, was not found dead and has a valid lease. A
  /// stopped process (SIGSTOP) is alive until its lease (PENSTOCK_LEASE_MS) expires, and on the
  /// same host as long as it exists. A process that is found dead by its lease stays dead: a
  /// verdict is published, and the process exits if it resumes. For the own token: confirm(), then
  /// true. Costs a system call: for waits, not for hot paths.
  bool alive(std::uint64_t token) const;
  /// True if another process has declared the process of `token` dead, by its lease. If false, a
  /// process that learns of that death later sees everything that the dead one had published before
  /// a full_fence. One device access.
  bool declared_dead(std::uint64_t token) const;
  /// Call it before a store that only a living process may make. If this process has shown no life
  /// for so long that others may have declared it dead, it checks; if they have, it logs that and
  /// ends the process (status 75). A few ns, no system call, unless it is late.
  std::uint64_t confirm() const;
  /// Node of the process, also if it has detached or died; nullopt if its slot has a new owner.
  std::optional<std::uint32_t> node_of(std::uint64_t token) const;
  /// "rank 3 (pid 1234 on host a, node 1)", from the record of `token`; also for dead processes.
  std::string describe(std::uint64_t token) const;

  bool grows() const;  ///< its files were made without reserving all their space
  /// Requires the lock. Reserves space for [offset, offset + bytes) before its first use, all of it
  /// or nothing, if the pool is sparse (CreateOptions::sparse). A no-op for other pools. Makes
  /// system calls. Errors: no_space.
  Result<void> reserve(std::uint64_t offset, std::uint64_t bytes) const;
  /// Requires the lock. Returns the whole blocks of an unused range to the file system; they read
  /// as zeros afterwards. Returns the number of bytes; 0 in pools that are not sparse.
  std::uint64_t give_back(std::uint64_t offset, std::uint64_t bytes) const;

  Durability durability() const;
  /// Writes published stores of this host to [offset, offset + bytes) to the file, if durability()
  /// is `file`; a no-op otherwise. A system call that waits for the storage. Errors: unavailable
  /// (the file system cannot write).
  Result<void> sync(std::uint64_t offset, std::uint64_t bytes) const;

  /// The pool's lock: exclusive over all nodes and processes, by loads and stores between nodes and
  /// a lock file between processes of one host. The lock of a dead holder is recovered. Not
  /// recursive.
  class Guard;
  /// `unless`: called at times while another process of this host holds the lock. Errors: deadline;
  /// already_exists (`unless` returned true: another process has done the work).
  Result<Guard> lock(std::uint64_t timeout_ns = 0, const std::function<bool()>& unless = {});

  std::vector<ProcessRecord> processes() const;
  /// How many of this host's emulated nodes 0 to `emulated_nodes` - 1 cannot join any more, because
  /// the node table is full.
  std::uint32_t nodes_without_entry(std::uint32_t emulated_nodes) const;
  /// Watches each attached process until its liveness is certain. On another host that takes until
  /// it shows life, or a lease. Errors: deadline.
  Result<void> make_certain() const;
  void publish_stats(const ProcessStats& stats);  ///< own record; cheap, no system call
  void publish_activity(std::string_view text);   ///< own record; slow paths only
  /// Called under the lock with dead processes, so that higher layers free their objects. Excludes
  /// processes whose job has living members, which may still write to those objects. The slots of
  /// the dead are released afterwards. The lock is released between groups of dead processes.
  using OnDead = std::function<void(const std::set<std::uint64_t>& tokens)>;
  /// Which processes are checked: `all`, or `near`, those of this node, which takes few reads. The
  /// first process of a node checks all in both cases.
  enum class Among : std::uint8_t { all, near };
  Result<std::uint32_t> reap(const OnDead& on_dead, Among among = Among::all);
  /// Announces that this process and those of `tokens`, which may belong to other jobs, may store
  /// to each other's memory. The memory that one of them leaves behind is then reclaimed only after
  /// the others have ended, as among the members of a job. Call it before the first such store, and
  /// before this process detaches: the announcement of either is enough. Takes the pool's lock,
  /// unless all have this process's job or the announcement stands already. Errors: not_found (one
  /// was killed, and its memory may have been freed); those of lock().
  Result<void> shares_with(std::span<const std::uint64_t> tokens);
  /// Other living processes may still store to this process's memory when it detaches: reap() frees
  /// it after the job has ended, like the memory of a dead process.
  void defer_reclaim();
  /// Requires the lock. True if the memory of the process of `token` may be freed: it is dead, and
  /// no living process of its job may still write there. Also records the death, see flushes().
  bool may_reclaim(std::uint64_t token);
  /// Requires the lock. Call it before freeing memory that other processes may have stored to:
  /// records the deaths that alive() has reported to this process, although the dead are not reaped
  /// yet.
  void record_known_deaths();
  /// Requires the lock. Call it before freeing memory without an agreement of its users: acts as if
  /// all attached processes had died.
  void record_unknown_deaths();
  /// True if a process of this host that was declared dead still exists and may store: a flush now
  /// would be too early. Reads a line of each slot.
  bool declared_dead_still_runs() const;
  /// True if a process of this host is attached under this token and still exists. Reads two lines.
  bool attached_on_this_host(std::uint64_t token) const;
  /// Which nodes may hold dirty lines of the dead.
  const FlushTable& flushes() const;
  /// Nodes whose caches this process can flush: its own, and in modes in which emulated nodes share
  /// their host's caches, all nodes of this host.
  std::vector<std::uint32_t> nodes_of_these_caches() const;
  /// `chore` is called at each heartbeat, usually by the heartbeat's thread, until it is replaced
  /// by an empty function; after that no call is in progress. It must be short: the lease is not
  /// renewed meanwhile. One per `owner`.
  void on_beat(const void* owner, std::function<void()> chore);
  /// Number of attached living processes on this host, this one included. May include one that has
  /// just ended.
  std::uint32_t local_processes() const;
  struct Member {
    std::uint32_t slot;
    std::uint64_t token;
  };
  /// Processes attached on this node, from their current lines; includes dead ones that are not
  /// reaped yet. One serialized device access, and one for each 64 slots of the node.
  std::vector<Member> members_of_this_node() const;

  struct Impl;
  explicit Pool(std::unique_ptr<Impl> impl);

 private:
  std::unique_ptr<Impl> impl_;
};

class Pool::Guard {
 public:
  Guard(Guard&& other) noexcept : pool_(other.pool_) { other.pool_ = nullptr; }
  Guard& operator=(Guard&&) = delete;
  ~Guard();

 private:
  friend class Pool;
  explicit Guard(Pool* pool) : pool_(pool) {}
  Pool* pool_;
};

}  // namespace penstock::pool

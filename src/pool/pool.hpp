// A pool: memory that several hosts map, its superblock, and the attached processes. Layout and
// crash rules: docs/protocols/pool.md. Source: cMPI section 3.1; architecture "Arena".
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <set>
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
inline constexpr std::uint32_t default_ranks = 4096;  ///< where the pool is large enough
inline constexpr std::uint32_t least_default_ranks = 512;
inline constexpr std::uint32_t default_nodes = 64;

/// One device, file or shared-memory segment of a SPEC.
struct Part {
  enum class Kind { devdax, file, shm } kind = Kind::file;
  std::string text;   ///< as written: "/dev/dax0.0", "/tmp/pool", "shm:demo"
  std::string named;  ///< its path: "/dev/shm/penstock.demo" for shm:demo
  /// The file that is opened, made or removed: a link at `named` is followed.
  std::string path;

  bool is_link() const { return path != named; }
};
/// SPEC: `/dev/daxX.Y` | a path | `shm:NAME`; several joined by commas interleave.
Result<std::vector<Part>> parse_spec(std::string_view spec);
/// The same pool for a process in another folder: with the paths of files made absolute.
Result<std::string> absolute_spec(std::string_view spec);

struct CreateOptions {
  std::string spec;
  /// Total of all parts. 0: the whole devdax; for files being replaced, the size they have.
  std::uint64_t bytes = 0;
  coherence::Mode mode = coherence::Mode::software;
  std::uint32_t max_processes = 0;  ///< process slots, two a rank; 0: by the size, default_ranks
  std::uint32_t max_nodes = default_nodes;  ///< at once
  std::uint32_t permissions = 0600;
  std::optional<std::string> group;  ///< group name that may attach too (permissions 0660)
  bool overwrite = false;            ///< replace an existing pool
  /// Its files take space when an object is made, all that the object needs at once. A full file
  /// system is an error then. Errors: unavailable, where the file system cannot reserve.
  bool sparse = false;
};

/// The owner of a pool, by the file system.
struct Owner {
  std::uint32_t uid = 0, gid = 0;
  std::uint32_t permissions = 0;
  std::string text() const;  ///< "root:lab 0660"
};
std::string user_name(std::uint32_t uid);   ///< "uid 1234" of one without a name
std::string group_name(std::uint32_t gid);  ///< likewise

/// As recorded in the superblock, checked: magic, layout version, checksum, geometry, size.
struct Info {
  std::string spec;
  std::uint64_t id = 0;  ///< random, never 0
  std::uint64_t bytes = 0;
  coherence::Mode mode = coherence::Mode::software;
  std::uint32_t max_processes = 0, max_nodes = 0;  ///< at once
  std::uint32_t max_ranks() const { return max_processes / slots_per_rank; }
  std::uint64_t created_wall_ns = 0;
  std::uint64_t arena_offset = 0, arena_bytes = 0;
  Striping striping;
  Owner owner;  ///< of the first part
};

/// Creates and initializes. Space is reserved first, unless `sparse`: a small /dev/shm is an error
/// here, never a SIGBUS later. Errors name what was found, what was needed and the command that
/// fixes it.
Result<Info> create(const CreateOptions& options);
/// Reads the superblock only.
Result<Info> inspect(const std::string& spec);
/// May this user's jobs use the pool? Attaching checks this; looking does not. Errors: permission,
/// where its owner is neither this user nor root nor named by PENSTOCK_TRUST_OWNER, or where all
/// users may write to it.
Result<void> check_owner(const std::string& spec);
/// True if PENSTOCK_TRUST_OWNER accepts `name`: a user or a :GROUP, by name or number, or
/// everybody.
bool can_be_trusted(const std::string& name);
/// Removes files and segments; wipes the superblock of a devdax. Refuses while living processes
/// are attached unless `force`.
Result<void> remove(const std::string& spec, bool force = false);

/// `penstock run` makes pools of such names for a job, and removes them after it.
inline constexpr std::string_view temporary_pool_prefix = "shm:run-";
/// How one gets a pool of twice the size, as the end of an error message: "make a larger pool:
/// penstock pool create ...", or of a temporary one "run the job with --size 64M". `wanted`: bytes
/// that were asked for in vain, counted twice too, for there may be others who ask.
std::string larger_pool_text(const Info& info, std::uint64_t wanted = 0);
/// The same, and before it how to free what lies in a pool that outlives its job.
std::string more_space_text(const Info& info, std::uint64_t wanted = 0);

/// What a pool keeps when its hosts are switched off.
enum class Durability : std::uint32_t {
  none = 0,  ///< nothing: it lies in memory of a host (shm:, tmpfs)
  file = 1,  ///< what Pool::sync() has written to the file: it is mapped by the page cache
  /// What has reached the device (coherence::Memory::full_fence): devdax, a file that the kernel
  /// maps with MAP_SYNC, and in simulated mode the file that stands for a device. As lasting as the
  /// device itself: whether that has a battery no system call tells.
  device = 2,
};
const char* durability_name(Durability durability);

/// A process as the process table describes it (checked).
struct ProcessRecord {
  std::uint32_t slot = 0;
  std::uint64_t generation = 0;                ///< grows each time the slot is taken
  std::uint32_t node = 0;                      ///< index in the pool's node table
  std::optional<std::uint32_t> emulated_node;  ///< as PENSTOCK_NODE says, of those on one host
  std::string host;
  std::string boot_id;
  std::uint32_t scope = 0;  ///< ProcessIdentity::scope
  std::int64_t pid = 0;
  std::uint64_t start_time = 0;  ///< of /proc/PID/stat, clock ticks since boot
  std::uint64_t attached_wall_ns = 0;
  std::uint64_t lease_beat = 0;    ///< heartbeat counter
  std::uint64_t device_reads = 0;  ///< lines it had read from the device at that beat
  std::uint64_t beat_ns = 0;       ///< when it was, by the clock of its host
  std::int32_t rank = -1;          ///< of the job, -1 when unknown
  std::string job;                 ///< job key, "" when none
  std::string program;
  bool attached = false;  ///< false: detached in order; the statistics are its last
  bool alive = false;
  // what the transport keeps here, for `penstock ps` and the job summary
  std::uint64_t messages_sent = 0, bytes_sent = 0, messages_received = 0, bytes_received = 0;
  std::string activity;  ///< "", or what it waits for

  std::uint64_t token() const { return generation << 16 | slot; }  ///< as Pool::token()
};

/// "node 3", or "emulated node 1" where several stand for hosts on one.
std::string node_text(const ProcessRecord& record);
/// "rank 3 (pid 1234 on host a, node 1)"; the program's name where there is no rank.
std::string describe(const ProcessRecord& record);

/// Activity of a process that needed more of the pool than was free.
inline constexpr std::string_view found_full = "found the pool full";
/// Activity of who looks for messages and does nothing else: another attachment of the process may
/// know more.
inline constexpr std::string_view only_polls = "polls for messages";

/// Counters that a process publishes about itself. The transport writes them seldom.
struct ProcessStats {
  std::uint64_t messages_sent = 0, bytes_sent = 0, messages_received = 0, bytes_received = 0;
};

inline constexpr std::uint32_t last_emulated_node = 65535;

/// The rank of a process that is a member of a job and none of its ranks: a switch that serves it.
inline constexpr std::int32_t helper_rank = -2;

struct AttachOptions {
  std::string spec;
  std::optional<coherence::Mode> mode;  ///< when given it must agree with the pool's
  coherence::FlushChoice flush = coherence::FlushChoice::automatic;
  std::int32_t rank = -1;
  std::string job;
  std::optional<std::uint32_t> emulated_node;  ///< several "hosts" on one, from 0 (PENSTOCK_NODE)
  /// Its number among the ranks of its node, from 0; see part_for(). Not told: its rank, or its
  /// slot where it has none.
  std::optional<std::uint32_t> seat = {};
  bool observer = false;  ///< maps and reads, takes no slot (pool info, ps)
};

class FlushTable;

/// An attachment. Takes milliseconds however large the pool is. Thread-safe except where said.
/// A background thread renews the lease. Detaches when destroyed.
class Pool {
 public:
  /// Dead owners found in the tables are reaped first. Errors: not_found, wrong_format, mismatch,
  /// permission, no_slots, no_space; each message ends with the fixing command.
  static Result<std::unique_ptr<Pool>> attach(const AttachOptions& options);
  ~Pool();
  Pool(const Pool&) = delete;
  Pool& operator=(const Pool&) = delete;

  /// False in a child that was forked by the process that attached. There the parent's attachment
  /// cannot be locked, and destroying it, or what was made of it, touches nothing. No system call.
  bool attached_here() const;
  const Info& info() const;
  const coherence::Memory& memory() const;
  std::byte* base() const;
  std::uint64_t bytes() const;
  /// Address of [offset, offset+bytes) after a bounds check; null when it does not lie inside.
  void* at(std::uint64_t offset, std::uint64_t bytes) const;
  /// Offset of an address inside the mapping; nullopt outside.
  std::optional<std::uint64_t> offset_of(const void* address) const;
  /// Other mappings of the pool in this process. refresh() before what it says must be complete.
  PoolMappings& mappings() const;

  std::uint32_t slot() const;        ///< own process slot
  std::uint64_t generation() const;  ///< of the own slot
  std::uint32_t node() const;
  /// `generation << 16 | slot`, never 0; identifies one incarnation of a process.
  std::uint64_t token() const;
  /// The part on which this process's own objects should lie (pool::part_for); `n`: of those that
  /// should lie apart from each other. 0 in pools of one part.
  std::uint32_t own_part(std::uint64_t n = 0) const;
  /// Alive: attached under this very token, and neither found dead nor with an expired lease. A
  /// stopped process (SIGSTOP) is alive until its lease (PENSTOCK_LEASE_MS) runs out, and on the
  /// same host for as long as it exists. A process that is found dead by its lease stays dead: a
  /// verdict is published, and the process ends when it goes on. Of the own token: confirm(), true.
  /// Costs a system call: for waits, not for hot paths.
  bool alive(std::uint64_t token) const;
  /// Another has published that it takes this process for dead, by its lease. After a `false`, who
  /// learns of the death later sees what this process had published before a full_fence. A device
  /// access.
  bool declared_dead(std::uint64_t token) const;
  /// Call it before a store that only a living process may make: if this one has shown no life for
  /// so long that others may have taken it for dead, it checks; if they have, it reports that on
  /// standard error and ends the process (status 75). A few ns, no system call, unless it is late.
  std::uint64_t confirm() const;
  /// Node of the process, also of one that has detached or died; nullopt when its slot has another
  /// owner by now.
  std::optional<std::uint32_t> node_of(std::uint64_t token) const;
  /// "rank 3 (pid 1234 on host a, node 1)", from the record of `token`; also of the dead.
  std::string describe(std::uint64_t token) const;

  bool grows() const;  ///< its files were made without space for all of it
  /// Under the lock. Reserves space for [offset, offset + bytes) before its first use, where the
  /// pool's files were made without (CreateOptions::sparse), all of it or nothing. A no-op for
  /// other pools. System calls. Errors: no_space.
  Result<void> reserve(std::uint64_t offset, std::uint64_t bytes) const;
  /// Under the lock. Gives the whole blocks of a range that no object needs back to the file
  /// system; they read as zeros then. Returns the number of bytes; 0 in pools that were not made
  /// sparse.
  std::uint64_t give_back(std::uint64_t offset, std::uint64_t bytes) const;

  Durability durability() const;
  /// What this host has stored to [offset, offset + bytes) and published is in the file when it
  /// returns, where durability() is `file`; a no-op elsewhere. A system call that waits for the
  /// storage. Errors: unavailable, when the file system cannot write.
  Result<void> sync(std::uint64_t offset, std::uint64_t bytes) const;

  /// Exclusive over all nodes and processes, by loads and stores between nodes and a lock file
  /// between processes of one host. A dead holder is replaced. Not recursive.
  class Guard;
  /// `unless`: asked now and then while another process of this host has the lock. Errors:
  /// deadline; already_exists when it says true: what the lock was wanted for is done.
  Result<Guard> lock(std::uint64_t timeout_ns = 0, const std::function<bool()>& unless = {});

  std::vector<ProcessRecord> processes() const;
  /// The number of this host's emulated nodes 0 to `emulated_nodes` - 1 that could not join any
  /// more because the table of nodes is full.
  std::uint32_t nodes_without_entry(std::uint32_t emulated_nodes) const;
  /// Watches each attached process until it is certain whether it lives: one on another host until
  /// it shows life, or for a lease. Errors: deadline.
  Result<void> make_certain() const;
  void publish_stats(const ProcessStats& stats);  ///< own record; cheap, no system call
  void publish_activity(std::string_view text);   ///< own record; slow paths only
  /// Called under the lock with processes found dead, so that higher layers free what they owned;
  /// not with those whose job still has living members, which may write there until they notice.
  /// Slots of the dead are released afterwards. Between groups of the dead the lock is let go.
  using OnDead = std::function<void(const std::set<std::uint64_t>& tokens)>;
  /// Whose death is looked for: that of all, or of whom a process that attaches finds with few
  /// reads, those of its node; the first of a node looks at all.
  enum class Among : std::uint8_t { all, near };
  Result<std::uint32_t> reap(const OnDead& on_dead, Among among = Among::all);
  /// Other living processes may still store to this process's memory when it detaches: reap() gives
  /// it back when the job is gone, as that of a dead process.
  void leave_to_burial();
  /// Under the lock. True if the memory of the process of `token` may be given back: it is dead,
  /// and no living process of its job may still write there. Then its death is recorded, see
  /// flushes().
  bool bury(std::uint64_t token);
  /// Under the lock, before something is given back that others may have stored to: the deaths that
  /// this process has learned of by alive() are recorded, though the dead were not reaped yet.
  void record_known_deaths();
  /// Under the lock, before something is given back without the others having agreed: as if all
  /// attached processes had died.
  void record_unknown_deaths();
  /// A process of this host that was given up has not ended, and may still store: to flush now
  /// would be too early. Reads a line of each slot.
  bool given_up_still_here() const;
  /// A process of this host is attached under this token, and has not ended. Reads two lines.
  bool stands_here(std::uint64_t token) const;
  /// Which nodes may hold dirty lines of the dead.
  const FlushTable& flushes() const;
  /// Nodes whose caches this process can flush: its own, and in modes where emulated nodes share
  /// their host's caches those of this host.
  std::vector<std::uint32_t> nodes_of_these_caches() const;
  /// `chore` is called at each heartbeat, most often by its thread, until it is replaced by an
  /// empty one; then no call is under way. Short: the lease is not renewed meanwhile. One for each
  /// `owner`.
  void on_beat(const void* owner, std::function<void()> chore);
  /// Number of living processes on this host that are attached, self included; one that has just
  /// ended may still count.
  std::uint32_t local_processes() const;
  struct Member {
    std::uint32_t slot;
    std::uint64_t token;
  };
  /// Who is attached on this node, by their lines as they are now: the dead among them too, until
  /// they are reaped. A serialized device access, and one for each 64 slots that the node has.
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

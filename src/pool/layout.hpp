// Layout of a pool.
//
//   offset 0            page of the superblock, alone; written once, last, by the creator
//   renaming_offset       splitter grid: a number ("name") for each node that ever joins
//   attaching_offset    one line per name: the process that is attaching on that node
//   registration_offset bakery over names: taken while a node enters the node table
//   nodes_offset        one line per node
//   lock_offset         bakery over nodes: the pool's lock
//   flushes_offset      clock, deaths and flushes of nodes: flush_table.hpp
//   states_offset       one line per process slot: identity and state
//   details_offset      four lines per slot: host, boot id, program, job
//   leases_offset       one line per slot: heartbeat
//   stats_offset        one line per slot: message counters
//   activities_offset   three lines per slot: the operation it waits for
//   verdicts_offset     one line per slot, and one per name: the processes that declared it dead
//   arena_offset        objects, to the end of the pool
//
// The lines of a process are split by how often they change, and each kind is an array of its own,
// so that a scan of all states or heartbeats is one contiguous run. All lines of a slot are written
// by its owner; by another, under the lock, only when the owner is dead or gone. Verdicts are
// written by others, see verdicts.hpp.
//
// A pool of one part is its file. Of several parts each begins with a superblock copy of its own,
// followed at data_offset by stripes: stripe k of the pool is stripe k / parts of part k % parts.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include "pool/pool.hpp"

namespace penstock::pool {

inline constexpr std::uint64_t page_bytes = 4096;
inline constexpr std::uint64_t huge_page_bytes = 2ull << 20;
inline constexpr std::uint32_t max_parts = 64;
inline constexpr std::uint32_t max_mappings = 1024;
inline constexpr std::uint32_t max_processes =
    32768;  // slots from here on name attaching processes
inline constexpr std::uint32_t max_nodes = 128;
inline constexpr std::uint64_t magic = 0x4b434f54534e4550u;  // "PENSTOCK" in memory

/// Numbers that the splitter grid of `nodes` rows can give out.
constexpr std::uint32_t names_of(std::uint32_t nodes) {
  return nodes * (nodes + 1) / 2;
}

// ---- superblock --------------------------------------------------------------------------------
//
//   line 0 | magic | layout version | header bytes | pool id | bytes | mode, parts | part, - |
//   created | line 1 | max processes, max nodes | part bytes | data offset | stripe bytes |
//   renaming | attaching processes |
//          | registration | nodes |
//   line 2 | lock | states | details | leases | stats | activities | arena offset | arena bytes |
//   line 3 | flushes | verdicts | 0 ... | checksum |
struct alignas(64) Superblock {
  std::uint64_t magic = 0;
  std::uint64_t layout_version = 0;
  std::uint64_t header_bytes = 0;
  std::uint64_t pool_id = 0;
  std::uint64_t bytes = 0;
  std::uint32_t mode = 0;
  std::uint32_t part_count = 0;
  std::uint32_t part_index = 0;
  std::uint32_t unused_word = 0;
  std::uint64_t created_wall_ns = 0;

  std::uint32_t max_processes = 0;
  std::uint32_t max_nodes = 0;
  std::uint64_t part_bytes = 0;  ///< of each part, its own superblock included
  std::uint64_t data_offset = 0;
  std::uint64_t stripe_bytes = 0;
  std::uint64_t renaming_offset = 0;
  std::uint64_t attaching_offset = 0;
  std::uint64_t registration_offset = 0;
  std::uint64_t nodes_offset = 0;

  std::uint64_t lock_offset = 0;
  std::uint64_t states_offset = 0;
  std::uint64_t details_offset = 0;
  std::uint64_t leases_offset = 0;
  std::uint64_t stats_offset = 0;
  std::uint64_t activities_offset = 0;
  std::uint64_t arena_offset = 0;
  std::uint64_t arena_bytes = 0;

  std::uint64_t flushes_offset = 0;
  std::uint64_t verdicts_offset = 0;
  std::uint64_t unused[5] = {};
  std::uint64_t checksum = 0;  ///< xxh64 of everything before it
};
static_assert(sizeof(Superblock) == 4 * 64);
static_assert(offsetof(Superblock, max_processes) == 64);
static_assert(offsetof(Superblock, lock_offset) == 128);
static_assert(offsetof(Superblock, checksum) == 248);

// ---- lines of the tables -----------------------------------------------------------------------
// Each ends with a checksum, see checksummed_line.hpp. Zeroed lines are "never written".

using Uuid = std::array<std::uint8_t, 16>;

/// | generation | beat | pid | start time | pid namespace | boot id (16) | checksum |
struct alignas(64) AttachingLine {
  std::uint64_t generation = 0;  ///< no special parity; grows with each visit
  std::uint64_t beat = 0;
  std::uint64_t pid = 0;
  std::uint64_t start_time = 0;
  std::uint64_t pid_namespace = 0;
  Uuid boot_id{};
  std::uint64_t checksum = 0;
};
static_assert(sizeof(AttachingLine) == 64);

/// | boot id (16) | machine id (16) | emulated, name | registered | incarnation | checksum |
struct alignas(64) NodeLine {
  Uuid boot_id{};
  Uuid machine_id{};
  std::uint32_t emulated = 0;  ///< index + 1 of an emulated node, 0 for a whole host
  std::uint32_t name = 0;      ///< from the splitter grid
  std::uint64_t registered_wall_ns = 0;
  std::uint64_t incarnation = 0;  ///< 1, and one more after each restart of the host
  std::uint64_t checksum = 0;
};
static_assert(sizeof(NodeLine) == 64);

enum class SlotState : std::uint32_t {
  unused = 0,
  attached = 1,
  detached = 2,  ///< in order; its last statistics stay readable
  reaped = 3,    ///< died; what it owned has been freed
  left = 4,      ///< detached in order, but living processes may still store to what it owned
};

/// | generation | state, node | pid | start time | pid namespace | attached | rank, - | checksum |
struct alignas(64) StateLine {
  std::uint64_t generation = 0;
  std::uint32_t state = 0;
  std::uint32_t node = 0;
  std::uint64_t pid = 0;
  std::uint64_t start_time = 0;
  std::uint64_t pid_namespace = 0;
  std::uint64_t attached_wall_ns = 0;
  std::int32_t rank = -1;
  std::uint32_t unused = 0;
  std::uint64_t checksum = 0;
};
static_assert(sizeof(StateLine) == 64);

/// line 0: | boot id (16) | program (40) | checksum |   line 1: host   lines 2, 3: job
struct alignas(64) OriginLine {
  Uuid boot_id{};
  char program[40] = {};
  std::uint64_t checksum = 0;
};
static_assert(sizeof(OriginLine) == 64);

/// Text over one or more lines, 56 bytes each, zero-filled.
struct alignas(64) TextLine {
  char text[56] = {};
  std::uint64_t checksum = 0;
};
static_assert(sizeof(TextLine) == 64);

struct alignas(64) DetailLines {
  OriginLine origin;
  TextLine host;
  TextLine job[2];
};
static_assert(sizeof(DetailLines) == 4 * 64);

struct alignas(64) LeaseLine {
  std::uint64_t generation = 0;
  std::uint64_t beat = 0;
  std::uint64_t mapped_at = 0;     ///< address of the pool in that process, for the process itself
  std::uint64_t device_reads = 0;  ///< lines that the process has read from the device
  std::uint64_t at_ns = 0;         ///< of the beat, by its host's clock
  std::uint64_t unused[2] = {};
  std::uint64_t checksum = 0;
};
static_assert(sizeof(LeaseLine) == 64);

struct alignas(64) StatsLine {
  std::uint64_t generation = 0;
  std::uint64_t messages_sent = 0, bytes_sent = 0, messages_received = 0, bytes_received = 0;
  std::uint64_t unused[2] = {};
  std::uint64_t checksum = 0;
};
static_assert(sizeof(StatsLine) == 64);

struct alignas(64) ActivityLines {
  TextLine text[3];
};
static_assert(sizeof(ActivityLines) == 3 * 64);

/// Word i: | generation (48) | slot of the judge (16) | for a generation that is i modulo 8.
struct alignas(64) VerdictLine {
  static constexpr std::size_t generations = 8;
  std::uint64_t words[generations] = {};
};
static_assert(sizeof(VerdictLine) == 64);

// ---- geometry ----------------------------------------------------------------------------------

/// Fills in the table offsets and the arena from bytes, max_processes and max_nodes. Error:
/// invalid_argument when the tables would leave less than half of the pool to the arena.
Result<void> lay_out(Superblock& superblock);

/// Bytes of superblock and tables: what is zeroed at creation.
inline std::uint64_t metadata_bytes(const Superblock& s) {
  return s.arena_offset;
}

}  // namespace penstock::pool

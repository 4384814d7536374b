// Layout of a pool.
//
//   offset 0            page of the superblock, alone; written once, last, by the creator
//   renaming_offset     doors: a number ("name") for each host that is about to get a node number
//   attaching_offset    one line per node, and one per name: the process that is attaching there
//   registration_offset bakery over names: held while a host enters the node table
//   nodes_offset        one line per node
//   places_offset       lines of hints: the index of a host in the node table
//   homes_offset        one line per node: blocks of slots that its processes look at first
//   lock_offset         bakery over nodes: the pool's lock
//   flushes_offset      clock, deaths and flushes of nodes: flush_table.hpp
//   blocks_offset       the next block of slots, reclaim mark, and one line per block
//   states_offset       one line per process slot: identity and state
//   details_offset      four lines per slot: host, boot id, program, job
//   leases_offset       one line per slot: heartbeat
//   stats_offset        one line per slot: message counters
//   activities_offset   three lines per slot: its current wait
//   verdicts_offset     one line per slot, node and name: the processes that declared it dead
//   arena_offset        objects, to the end of the pool
//
// The lines of a process are split by how often they change, and each kind has its own array, so
// that a scan of all states or heartbeats reads contiguous memory. The owner of a slot writes all
// its lines; another process does so only under the lock, after the owner has died or detached.
// Verdicts are written by other processes, see verdicts.hpp.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "base/checksum.hpp"
#include "device/superblock.hpp"
#include "pool/pool.hpp"

namespace penstock::pool {

/// Numbers from here on are lines of attaching processes.
inline constexpr std::uint32_t max_processes = max_ranks * slots_per_rank;

/// Doors of the renaming; enough that hosts that arrive together seldom meet at one door.
constexpr std::uint32_t names_of(std::uint32_t nodes) {
  return nodes < 8 ? 16 : 2 * nodes;
}
/// Lines of eight hints each; on average two hosts share a line.
constexpr std::uint32_t place_lines_of(std::uint32_t nodes) {
  return nodes / 2 + 1;
}
/// Slots that a node takes at a time: a power of two, such that each node finds two blocks. With
/// two slots per rank all ranks fit, whatever their distribution over nodes, and a node can list
/// blocks for eleven times its share.
constexpr std::uint32_t block_slots_of(std::uint32_t processes, std::uint32_t nodes) {
  std::uint32_t slots = 1;
  while (slots < 64 && 2ull * slots * 2 * nodes <= processes) slots *= 2;
  return slots;
}
constexpr std::uint32_t blocks_of(std::uint32_t processes, std::uint32_t nodes) {
  const std::uint32_t slots = block_slots_of(processes, nodes);
  return (processes + slots - 1) / slots;
}

// ---- lines of the tables -----------------------------------------------------------------------
// Each ends with a checksum, see checksummed_line.hpp. Zeroed lines are "never written".

using Uuid = std::array<std::uint8_t, 16>;

/// Hash of a boot id: two hosts collide with a probability of one in four billion.
constexpr std::uint32_t host_word(const Uuid& boot_id) {
  std::uint32_t word = 0;
  for (std::size_t i = 0; i < boot_id.size(); ++i)
    word ^= static_cast<std::uint32_t>(boot_id[i]) << i % 4 * 8;
  return word;
}

/// | generation | beat | pid, unlocked | start time | scope, file | boot id (16) | checksum |
struct alignas(64) AttachingLine {
  std::uint64_t generation = 0;  ///< of a node's line: grows with each visit; of a name's: visit id
  std::uint64_t beat = 0;        ///< 0: the visit is over
  std::uint32_t pid = 0;
  std::uint32_t unlocked = 0;  ///< 1 while it may take a slot of its node without the pool's lock
  std::uint64_t start_time = 0;
  std::uint32_t scope = 0;  ///< ProcessIdentity::scope
  std::uint32_t file = 0;   ///< ProcessIdentity::pool_file
  Uuid boot_id{};
  std::uint64_t checksum = 0;
};
static_assert(sizeof(AttachingLine) == 64);

/// | boot id (16) | machine id (16) | emulated, - | registered | incarnation | checksum |
struct alignas(64) NodeLine {
  Uuid boot_id{};
  Uuid machine_id{};
  std::uint32_t emulated = 0;  ///< index + 1 of an emulated node, 0 for a whole host
  std::uint32_t unused = 0;
  std::uint64_t registered_wall_ns = 0;
  std::uint64_t incarnation = 0;  ///< 1, plus one for each restart and for each new host
  std::uint64_t checksum = 0;
};
static_assert(sizeof(NodeLine) == 64);

/// Word: | hash (48) | node + 1 (16) |, written by its host. A hint: a process checks the node's
/// line before it uses it.
struct alignas(64) PlaceLine {
  static constexpr std::size_t words_a_line = 8;
  std::uint64_t words[words_a_line] = {};
};
static_assert(sizeof(PlaceLine) == 64);

enum class SlotState : std::uint32_t {
  unused = 0,
  attached = 1,
  detached = 2,  ///< in order; its last statistics stay readable
  reaped = 3,    ///< dead; its objects have been freed
  left = 4,      ///< detached in order, but living processes may still store to its objects
};

/// | generation | state, node | pid, file | start time | scope, - | attached | rank, host | ...
struct alignas(64) StateLine {
  std::uint64_t generation = 0;
  std::uint32_t state = 0;
  std::uint32_t node = 0;
  std::uint32_t pid = 0;
  std::uint32_t file = 0;  ///< ProcessIdentity::pool_file
  std::uint64_t start_time = 0;
  std::uint32_t scope = 0;  ///< ProcessIdentity::scope
  std::uint32_t unused = 0;
  std::uint64_t attached_wall_ns = 0;
  std::int32_t rank = -1;
  std::uint32_t host = 0;  ///< host_word() of its boot id
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

/// A set of processes, as a word with a bit for each 64th of all tokens: it may contain more
/// processes than were added, never fewer.
struct TokenSet {
  static constexpr std::uint64_t all = ~std::uint64_t{0};
  static std::uint64_t bit_of(std::uint64_t token) {
    return std::uint64_t{1} << (base::xxh64(&token, sizeof token, 0) % 64);
  }
};

struct alignas(64) LeaseLine {
  std::uint64_t generation = 0;
  std::uint64_t beat = 0;
  std::uint64_t mapped_at = 0;     ///< address of the pool in that process, for its own use
  std::uint64_t device_reads = 0;  ///< lines that the process has read from the device
  std::uint64_t at_ns = 0;         ///< time of the beat, by its host's clock
  std::uint64_t shares_with = 0;   ///< TokenSet: see Reclaim::shares_with()
  std::uint64_t unused = 0;
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

/// Word i: | generation (48) | slot of the judge (16) | for generations that are i modulo 8.
struct alignas(64) VerdictLine {
  static constexpr std::size_t generations = 8;
  std::uint64_t words[generations] = {};
};
static_assert(sizeof(VerdictLine) == 64);

/// | times taken | node + 1, previous node + 1 | 0 ... | checksum |   see slot_blocks.hpp
struct alignas(64) BlockLine {
  std::uint64_t taken = 0;  ///< 0: no node has had it yet
  std::uint32_t owner = 0;
  std::uint32_t from = 0;  ///< 0, except while the block moves from one node to another
  std::uint64_t unused[5] = {};
  std::uint64_t checksum = 0;
};
static_assert(sizeof(BlockLine) == 64);

// ---- geometry ----------------------------------------------------------------------------------

/// Computes the table offsets and the arena from bytes, max_processes and max_nodes. Errors:
/// invalid_argument (the tables would leave less than half of the pool to the arena).
Result<void> lay_out(device::Superblock& superblock);
/// The superblock of the pool made of `parts`, checked with the places of its tables.
inline Result<device::Superblock> check_superblocks(const std::vector<device::OpenPart>& parts,
                                                    const std::string& spec) {
  return device::check_superblocks(parts, spec, lay_out);
}
/// The contents of a checked superblock; `owner` stays empty.
Info info_of(const device::Superblock& superblock, const std::string& spec);
/// Default number of process slots for a pool of this size: enough for 4,096 ranks, or for as many
/// as fit their lines into a thirty-second part of the pool, but for at least 512 ranks.
std::uint32_t default_processes(std::uint64_t pool_bytes);

/// Bytes of superblock and tables; creation zeroes them.
inline std::uint64_t metadata_bytes(const device::Superblock& s) {
  return s.arena_offset;
}

}  // namespace penstock::pool

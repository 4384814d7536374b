// Pool layout of two-sided messages, by cache line. Every line has one writer.
//
// Endpoint table: three arena objects. The first endpoint of a pool makes them; they are never
// freed or moved. In a pool for P processes the table has S slots. Slot p < P belongs to the first
// endpoint of process p; the other slots are for further endpoints.
//
// "penstock.endpoints":
//   line 0            TableHead            once, before the object has its name
//   line 1            word 0: slot hint    any process that claims or closes a slot >= P
//   then              TilesState[G][2]     for each group of 64 senders, 0..63, 64..127, ...:
//                                          under the group's lock, one after the other
//
// "penstock.endpoints.locks", zeroed:
//   lines             sync::Lock[G]        line i: by the owner of endpoint i
//
// "penstock.endpoints.body", not zeroed:
//   lines             EndpointLine[S]      line i: by the owner of endpoint i
//   then              rows[S][8]           PeerStatisticsRow: likewise
//   then              boxes[S]             one for each receiver, whole lines:
//                       word 0             the bell: all senders
//                       word 1             a copy of the entry that was written last
//                       words 2..          TileEntry of each group: under the group's lock
//
// Tiles are in objects "penstock.endpoints.tiles.GROUP.N".
//
// A tile has the words of 64 senders of one receiver, 8 a line; endpoint s writes word s. All words
// of boxes and tiles are written by partial non-temporal stores only (rule 5).
//
// A sender's word says "endpoint s has announced message number n on the channel at this offset".
// It only hints where to look; a sequence tag proves that a message is there. Boxes and tiles are
// never freed or given to another receiver, so a late announcement by a dying process causes one
// vain look and no damage.
//
// Channel (in memory of the sending endpoint, 4 KiB aligned):
//
//   line 0            ChannelHeader        sender, once
//   line 1            CreditLine           receiver: lines and cells consumed; a clear-to-send;
//                                          an error
//   line 2            PositionLine         sender, periodically: how much is in the pool
//   lines 3..         cell flags           sender, 8 words a line
//   then              ring                 sender: tagged lines
//   elsewhere         cells                sender: pipelined payload; made by the first such send
//
// Ring lines are numbered from 0 without end. Line i is valid when its last word is the sequence
// tag of nonce + i; flag c is valid when it equals nonce + c. Each channel has a random nonce, so
// old contents never look valid, neither after a wrap nor in memory of an earlier owner, and
// nothing needs to be cleared.
#pragma once

#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>

#include "base/checksum.hpp"
#include "coherence/coherence.hpp"
#include "transport/transport.hpp"

namespace penstock::transport {

inline constexpr std::uint64_t channel_magic = 0x50454e534348414e;  // "PENSCHAN"
inline constexpr std::uint64_t channel_alignment = 4096;
using coherence::line_bytes;
inline constexpr const char* table_name = "penstock.endpoints";
inline constexpr const char* table_body_name = "penstock.endpoints.body";
inline constexpr const char* table_locks_name = "penstock.endpoints.locks";
inline constexpr const char* tiles_prefix = "penstock.endpoints.tiles.";
inline constexpr std::uint64_t table_magic = 0x5f53544e494f5045;  // "EPOINTS_"
inline constexpr std::uint64_t table_version = 5;

struct TableHead {
  std::uint64_t magic;
  std::uint64_t version;
  std::uint32_t processes;  ///< capacity of the pool
  std::uint32_t slots;
  std::uint64_t body_offset;  ///< in the pool
  std::uint64_t body_bytes;
  std::uint64_t key;  ///< of the checksums in the body, which is not zeroed
  std::uint64_t locks_offset;
  std::uint64_t checksum;
};
static_assert(sizeof(TableHead) == line_bytes);

/// Which tiles of a group are taken. Two copies; the newer valid one counts.
struct TilesState {
  std::uint64_t number;  ///< version: grows by one with each write
  std::uint64_t piece_offset;
  std::uint32_t piece_tiles, taken;  ///< tiles of that piece, and how many of them have an owner
  std::uint32_t pieces;              ///< pieces made so far
  std::uint32_t unused;
  std::uint64_t owner;  ///< receiver that owns the last tile; `entry` is its TileEntry
  std::uint64_t entry;
  std::uint64_t pad;
  std::uint64_t checksum;
};
static_assert(sizeof(TilesState) == line_bytes);

/// Both copies.
using TilesStates = std::array<TilesState, 2>;

/// The beginning of "penstock.endpoints"; TilesStates of each group follow.
struct TableHeadLines {
  TableHead head;
  std::uint64_t hint[line_bytes / sizeof(std::uint64_t)];
};
static_assert(sizeof(TableHeadLines) == 2 * line_bytes);

enum class EndpointState : std::uint32_t { free = 0, open = 1, closed = 2 };

/// A claimer writes the whole line; no other process writes it until the next claim. Later changes
/// store single words, which are never torn. So the line of a living endpoint is always whole, and
/// a torn line belongs to a slot that is being claimed.
struct EndpointLine {
  std::uint64_t generation;
  std::uint64_t token;  ///< owning process
  std::uint64_t job;
  /// The latest run of consecutive generations that closed in order; 0: none.
  std::uint32_t closed_from, closed_to;
  std::uint64_t state;      ///< stored alone: generation << 32 | EndpointState
  std::uint64_t user_word;  ///< stored alone: the user's word for peers; 0: none
  std::uint64_t supply;     ///< stored alone: part() << 32 | supplied()
  std::uint64_t checksum;   ///< of the first four words, with the table's key and the slot

  static constexpr std::uint64_t pack(std::uint64_t generation, EndpointState state) {
    return generation << 32 | static_cast<std::uint32_t>(state);
  }
  bool open() const { return state == pack(generation, EndpointState::open); }
  static constexpr std::uint64_t supply_word(std::uint32_t part, std::uint32_t generation) {
    return std::uint64_t{part} << 32 | generation;
  }
  /// The latest generation that was given memory.
  std::uint32_t supplied() const { return static_cast<std::uint32_t>(supply); }
  /// The part of the pool for the process's first memory.
  std::uint32_t part() const { return static_cast<std::uint32_t>(supply >> 32); }
  /// True if the endpoint is open and was not given memory yet.
  bool wants_memory() const { return open() && supplied() != generation; }
  bool closed() const { return state == pack(generation, EndpointState::closed); }
  /// True if this earlier generation of the slot is known to have closed in order.
  bool had_closed(std::uint32_t earlier) const {
    return earlier != 0 && earlier >= closed_from && earlier <= closed_to;
  }
};
static_assert(sizeof(EndpointLine) == line_bytes);

inline constexpr std::uint64_t mailbox_word_bytes = sizeof(std::uint64_t);
inline constexpr std::uint32_t words_a_line = line_bytes / sizeof(std::uint64_t);
inline constexpr std::uint32_t tile_lines = 8, senders_a_tile = tile_lines * words_a_line;
inline constexpr std::uint64_t tile_bytes = tile_lines * line_bytes;
inline constexpr std::uint32_t rows_of_slot = 8;

/// Offsets of the body's parts from its first byte.
class TableLayout {
 public:
  static constexpr std::uint64_t bell = 0, latest = mailbox_word_bytes,
                                 directory = 2 * mailbox_word_bytes;  ///< in a box

  explicit constexpr TableLayout(std::uint32_t slots)
      : slots_(slots),
        box_bytes_((directory + mailbox_word_bytes * groups() + line_bytes - 1) / line_bytes *
                   line_bytes) {}

  constexpr std::uint32_t slots() const { return slots_; }
  /// Tiles of a mailbox to which all endpoints send.
  constexpr std::uint32_t groups() const { return (slots_ + senders_a_tile - 1) / senders_a_tile; }
  constexpr std::uint64_t box_bytes() const { return box_bytes_; }
  constexpr std::uint64_t line(std::uint64_t slot) const { return line_bytes * slot; }
  constexpr std::uint64_t rows(std::uint64_t slot) const {
    return line(slots_) + line_bytes * rows_of_slot * slot;
  }
  constexpr std::uint64_t box(std::uint64_t slot) const { return rows(slots_) + box_bytes_ * slot; }
  constexpr std::uint64_t bytes() const { return box(slots_); }
  constexpr std::uint64_t head_bytes() const {
    return sizeof(TableHeadLines) + sizeof(TilesStates) * groups();
  }
  constexpr std::uint64_t lock(std::uint64_t group) const {
    return line_bytes * senders_a_tile * group;
  }
  constexpr std::uint64_t locks_bytes() const { return lock(groups()); }

 private:
  std::uint32_t slots_;
  std::uint64_t box_bytes_;
};

/// Location of a tile, and a bit for each of its lines that has senders; receivers skip the other
/// lines. | check (16) | offset in the pool, a multiple of 512 (48, the low 9 of them 0) |; the low
/// 8 bits are the line bits.
struct TileEntry {
  static constexpr std::uint64_t lines_bits = 0xff, offset_bits = (1ull << 48) - tile_bytes;
  static constexpr int check_shift = 48;

  static std::uint64_t offset(std::uint64_t entry) { return entry & offset_bits; }
  static std::uint32_t lines(std::uint64_t entry) {
    return static_cast<std::uint32_t>(entry & lines_bits);
  }
  /// Adds the check: for the mailbox of `owner`, in the table with this key.
  static std::uint64_t sealed(std::uint64_t offset, std::uint32_t lines, std::uint64_t key,
                              std::uint32_t owner, std::uint32_t group) {
    const std::uint64_t words[] = {offset | lines, std::uint64_t{owner} << 32 | group};
    return words[0] | base::xxh64(words, sizeof words, key) >> check_shift << check_shift;
  }
  static bool is_whole(std::uint64_t entry, std::uint64_t key, std::uint32_t owner,
                       std::uint32_t group) {
    return lines(entry) != 0 && entry == sealed(offset(entry), lines(entry), key, owner, group);
  }
};

struct ChannelHeader {
  std::uint64_t magic;
  std::uint64_t nonce;
  std::uint64_t job;
  std::uint32_t source, source_generation;
  std::uint32_t target, target_generation;
  std::uint32_t ring_lines;  ///< a power of two
  std::uint16_t cell_flags;  ///< a multiple of 8
  std::uint16_t intra_node;  ///< 1: both ends are on one node and count on its caches
  /// The sender's previous channel: its offset / channel_alignment, and the number of ring lines
  /// written there, modulo 2^32. They are received first. 0: there is none.
  std::uint32_t previous;
  std::uint32_t lines_before;
  std::uint64_t checksum;  ///< of the words above
};
static_assert(sizeof(ChannelHeader) == line_bytes);

/// Rendezvous put: where the receive buffer lies in the pool, and which part of it the sender may
/// store to. Whole lines.
struct ClearToSend {
  std::uint64_t message = 0;  ///< nonce + number of the message's line; 0: no clear-to-send
  std::uint64_t offset = 0;   ///< of the message's first byte in the pool
  std::uint64_t from = 0,
                until = 0;     ///< byte range of the message; `until` 0: refused
  std::uint64_t checksum = 0;  ///< of the words above; a torn line does not match
};

constexpr std::uint32_t error_bits = 12;

struct CreditLine {
  std::uint64_t lines;  ///< nonce + ring lines consumed
  std::uint64_t cells;  ///< nonce + cells consumed
  ClearToSend clear_to_send;
  std::uint64_t error;  ///< 0, or nonce + (number << 12 | code): a request cannot be answered
};
static_assert(sizeof(CreditLine) == line_bytes);

/// How much the sender published before this line. A receiver that finds less has lost data.
struct PositionLine {
  std::uint64_t begun = 0;  ///< nonce + ring lines written
  std::uint64_t whole = 0;  ///< nonce + ring lines of messages that are complete in the pool
  std::uint64_t cells = 0;  ///< nonce + cells announced
  /// nonce + 1: the sender waits for credit, delivery or a clear-to-send; nonce: it does not wait
  std::uint64_t waits = 0;
  std::uint64_t pad[3] = {};
  std::uint64_t checksum = 0;
  bool operator==(const PositionLine&) const = default;
};
static_assert(sizeof(PositionLine) == line_bytes);

/// Offsets of a channel's parts from its first byte; every such offset is computed here.
class ChannelLayout {
 public:
  static constexpr std::uint64_t credits = line_bytes;
  static constexpr std::uint64_t position = 2 * line_bytes;
  static constexpr std::uint64_t flags = 3 * line_bytes;
  static constexpr std::uint32_t flags_a_line = line_bytes / sizeof(std::uint64_t);
  /// Bytes that must lie within the pool before a reader loads the header.
  static constexpr std::uint64_t least_bytes = flags;

  /// `cell_flags`: a multiple of flags_a_line; `ring_lines`: a power of two.
  constexpr ChannelLayout(std::uint64_t cell_flags, std::uint64_t ring_lines)
      : ring_(flag_line(cell_flags)), ring_mask_(ring_lines - 1) {}
  explicit constexpr ChannelLayout(const ChannelHeader& of)
      : ChannelLayout(of.cell_flags, of.ring_lines) {}

  /// The flag of a cell, and the line that holds the flag.
  static constexpr std::uint64_t flag(std::uint64_t cell) {
    return flags + sizeof(std::uint64_t) * cell;
  }
  static constexpr std::uint64_t flag_line(std::uint64_t cell) {
    return flags + line_bytes * (cell / flags_a_line);
  }
  std::uint64_t ring_lines() const { return ring_mask_ + 1; }
  /// Line `number` of the ring; numbers never wrap.
  std::uint64_t line(std::uint64_t number) const {
    return ring_ + line_bytes * (number & ring_mask_);
  }
  /// Number of contiguous lines from `number` on.
  std::uint64_t lines_to_wrap(std::uint64_t number) const {
    return ring_lines() - (number & ring_mask_);
  }
  constexpr std::uint64_t bytes() const { return ring_ + line_bytes * (ring_mask_ + 1); }

 private:
  std::uint64_t ring_, ring_mask_;
};

/// In a cell's flag: this part of the message lies in the receive buffer, not in the cell.
inline constexpr std::uint64_t flag_put = 1ull << 63;
/// Replaces this flag when the sender ends a message early and stores nothing more. The value
/// contains the nonce because the memory may hold data of an earlier user. The function is its own
/// inverse.
constexpr std::uint64_t broken_off(std::uint64_t flag) {
  return ~flag;
}

// A slot's rows in the table hold the statistics of the endpoint's first peers; the key of their
// checksums contains the endpoint's generation. Further peers have rows in arena objects
// "penstock.peers.SLOT.GENERATION.N":
//
//   line 0            PeerStatisticsHeader       the endpoint, once
//   lines 1..63       PeerStatisticsRow          the endpoint, periodically; zero until used
inline constexpr std::uint64_t peer_statistics_magic = 0x50454e5350454552;  // "PENSPEER"
inline constexpr const char* peer_statistics_prefix = "penstock.peers.";
inline constexpr std::uint64_t rows_of_piece = 63;

struct PeerStatisticsHeader {
  std::uint64_t magic;
  std::uint64_t token;  ///< owning process of the endpoint
  std::uint32_t slot, generation;
  std::uint64_t pad[4];
  std::uint64_t checksum;
};
static_assert(sizeof(PeerStatisticsHeader) == line_bytes);

struct PeerStatisticsRow {
  std::uint32_t peer, generation;
  EndpointStats counts;
  std::uint64_t checksum;
};
static_assert(sizeof(PeerStatisticsRow) == line_bytes);

/// How a message's payload travels.
enum class Form : std::uint8_t {
  inlined = 1,         ///< in the first line
  eager = 2,           ///< the beginning in the first line, the rest in the tagged lines after it
  pipelined = 3,       ///< in cells
  rendezvous_get = 4,  ///< stays in the sender's buffer, which lies in the pool
  /// Was a rendezvous get; the sender's user has the buffer back, so the message is lost.
  withdrawn = 5,
};

inline constexpr std::size_t inline_bytes = 32;

/// Flags in a message's first word.
inline constexpr std::uint8_t flag_acknowledge = 1;  ///< return credits as soon as consumed
inline constexpr std::uint8_t flag_request_to_send =
    2;  ///< pipelined: the sender waits for a clear-to-send or a refusal

/// Length limit of a message: the length field has 40 bits.
inline constexpr std::uint64_t max_message_bytes = (1ull << 40) - 1;

/// First line of every message.
struct MessageLine {
  std::uint64_t meta;  ///< bytes << 24 | flags << 16 | form << 8 | kind
  std::uint64_t tag;
  std::uint64_t data;
  union {
    std::byte payload[inline_bytes];  ///< forms inlined and eager
    struct {
      std::uint64_t offset;  ///< of the cells in the pool
      std::uint32_t cell_bytes, cell_count;
      std::uint64_t first_cell;  ///< number of the first cell; numbers never wrap
      std::uint64_t ready;       ///< cells that were complete when this line was written
    } pipelined;
    struct {
      std::uint64_t offset;       ///< of the payload in the pool, any alignment
      std::uint64_t piece_bytes;  ///< this line announces the first piece; each following line has
                                  ///< only a sequence tag and announces one more piece
      std::uint64_t unused[2];
    } rendezvous_get;
  };
  std::uint64_t sequence_tag;

  static std::uint64_t pack(std::uint64_t bytes, std::uint8_t flags, Form form, std::uint8_t kind) {
    return bytes << 24 | static_cast<std::uint64_t>(flags) << 16 |
           static_cast<std::uint64_t>(form) << 8 | kind;
  }
  std::uint64_t bytes() const { return meta >> 24; }
  std::uint8_t flags() const { return static_cast<std::uint8_t>(meta >> 16); }
  Form form() const { return static_cast<Form>(static_cast<std::uint8_t>(meta >> 8)); }
  std::uint8_t kind() const { return static_cast<std::uint8_t>(meta); }

  /// The tag of line `number`, which includes the nonce. It covers the words that identify the
  /// message, so a line whose identity was overwritten is rejected. The multiplication keeps user
  /// data from looking like a line number.
  std::uint64_t sequence_tag_of(std::uint64_t number) const {
    const std::uint64_t words = meta ^ std::rotl(tag, 21) ^ std::rotl(data, 42);
    return number ^ (words * 0x9e3779b97f4a7c15ull & ~0ull << 32);
  }
  /// Checks a sequence tag before the rest of the line is loaded.
  static bool may_be(std::uint64_t sequence_tag, std::uint64_t number) {
    return static_cast<std::uint32_t>(sequence_tag) == static_cast<std::uint32_t>(number);
  }
};
static_assert(sizeof(MessageLine) == line_bytes);
static_assert(offsetof(MessageLine, sequence_tag) == 56);

/// Ring lines that a message in form inlined or eager takes.
constexpr std::uint64_t lines_of(std::uint64_t bytes) {
  return bytes <= inline_bytes ? 1 : 1 + (bytes - inline_bytes + 55) / 56;
}

/// Limit of ring lines of a rendezvous get.
inline constexpr std::uint64_t max_get_pieces = 64;

/// Ring lines that a rendezvous get takes: one a piece. `bytes` and `piece_bytes` are not 0.
constexpr std::uint64_t pieces_of(std::uint64_t bytes, std::uint64_t piece_bytes) {
  return (bytes - 1) / piece_bytes + 1;
}

/// Mailbox word: location of the channel, and the number of messages announced on it.
struct MailboxWord {
  static std::uint64_t pack(std::uint64_t channel_offset, std::uint32_t announced) {
    return channel_offset / channel_alignment << 32 | announced;
  }
  static std::uint64_t offset(std::uint64_t word) { return (word >> 32) * channel_alignment; }
  static std::uint32_t announced(std::uint64_t word) { return static_cast<std::uint32_t>(word); }
};

/// The words of a receiver's mailbox that one sender writes.
struct MailboxWords {
  void* announcement;
  /// Written by all senders along with their announcements. Only a change of the value has a
  /// meaning.
  void* bell;
};

/// A sender rings the bell if its last announcement is older than `ring_after_ns` by the coarse
/// clock, whose steps are at most 10 ms. A receiver that has found nothing for `rest_ns` watches
/// only its bell.
inline constexpr std::uint64_t ring_after_ns = 500'000, rest_ns = 20'000'000;

/// Checksums of the words before `checksum`. An endpoint line's checksum leaves out the words that
/// are stored alone.
inline std::uint64_t checksum_of(const EndpointLine& line, std::uint64_t key, std::uint32_t slot) {
  return base::xxh64(&line, offsetof(EndpointLine, state), key + slot);
}
inline std::uint64_t checksum_of(const ClearToSend& clear_to_send) {
  return base::xxh64(&clear_to_send, offsetof(ClearToSend, checksum), 0);
}
template <class Line>
std::uint64_t checksum_of(const Line& line, std::uint64_t key = 0) {
  static_assert(sizeof(Line) == line_bytes);
  return base::xxh64(&line, line_bytes - sizeof(std::uint64_t), key);
}

}  // namespace penstock::transport

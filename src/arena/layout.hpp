// The arena in the pool, by cache line. All offsets are from the start of the pool. The holder of
// the pool's lock is the one writer of every line here. Crash rules: docs/protocols/arena.md.
//
//   arena_offset +0     ArenaHeader      written once, last, by the formatting process
//                +64    ArenaHeader      the same again, written just before
//                +128   Moving           cursor and next generation
//                +192   JournalTarget    which extent header is being rewritten
//                +256   (image)          what it is being rewritten to
//                +320   reserved
//                +4096  Slot[]           name table: the levels one after another
//   extents_start       ExtentHeader, object bytes, ExtentHeader, object bytes, ... to the end
//
// Nothing is assumed to be zero: a line counts only if its checksum is right, and checksums are
// keyed by the pool's id and by a salt drawn when the arena was formatted. So formatting clears
// nothing, and lines that an earlier pool left in the memory are garbage to this one.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string_view>

#include "arena/arena.hpp"

namespace penstock::arena {

inline constexpr std::uint64_t line_bytes = coherence::line_bytes;
inline constexpr std::uint64_t control_bytes = 4096;
inline constexpr std::uint32_t arena_layout_version = 3;
inline constexpr std::uint32_t table_levels = 10;
inline constexpr std::uint64_t min_level_one = 67;
inline constexpr std::uint64_t max_level_one = 199'999;
inline constexpr std::uint64_t max_alignment = 2ull << 20;

inline constexpr std::uint64_t arena_magic = 0x31414e4552415350;    // "PSARENA1"
inline constexpr std::uint64_t moving_magic = 0x31474e49564f4d50;   // "PMOVING1"
inline constexpr std::uint64_t journal_magic = 0x314c4e52554f4a50;  // "PJOURNL1"
inline constexpr std::uint32_t extent_magic = 0x31545845;           // "EXT1"

struct ArenaHeader {
  std::uint64_t magic;
  std::uint32_t version;
  std::uint32_t levels;
  std::uint64_t salt;  // drawn when formatted
  std::uint64_t arena_bytes;
  std::uint64_t level_one;  // buckets of the first level; the others are the next lower primes
  std::uint64_t slots;      // of all levels
  std::uint64_t extents_start;
  std::uint64_t checksum;  // keyed by the pool's id
};
static_assert(sizeof(ArenaHeader) == line_bytes);

struct Moving {
  std::uint64_t magic;
  std::uint64_t cursor;  // offset of an extent header, where the next search for space begins
  std::uint64_t next_generation;
  std::uint64_t reserved[4];
  std::uint64_t checksum;
};
static_assert(sizeof(Moving) == line_bytes);

struct JournalTarget {
  std::uint64_t magic;
  std::uint64_t target;  // offset of the extent header
  std::uint64_t reserved[5];
  std::uint64_t checksum;  // over this line and the image; 0: no rewrite is under way
};
static_assert(sizeof(JournalTarget) == line_bytes);

/// Stands in place of a slot while a large object is zeroed without the lock and has no name yet.
inline constexpr std::uint32_t pending_slot = 0xffff'ffff;

enum class ExtentState : std::uint32_t {
  free = 1,
  used = 2,
  quarantined = 3,  ///< given back, but some node may hold dirty lines of it (quarantine.md)
};

/// In front of every piece of object space. A used extent without a slot that refers back to it was
/// lost by a crash (a pending one: if its owner is dead); a free one keeps the highest generation
/// that its space has seen.
struct ExtentHeader {
  std::uint32_t magic;
  ExtentState state;
  std::uint64_t offset;  // of this line
  std::uint64_t bytes;   // up to the next header, this line included
  std::uint32_t slot;
  Lifetime lifetime;
  std::uint64_t generation;
  std::uint64_t owner;  // lifetime process, or pending: token of the process that created the
                        // object; else the tick that flushes of nodes must reach, 0 for none
  std::uint64_t born;   // tick when the object was made
  std::uint64_t checksum;
};
static_assert(sizeof(ExtentHeader) == line_bytes);

/// Is `owner` a tick? Then nodes where processes died flush the extent (quarantine.md,
/// persistence.md).
inline bool waits_for_flush(const ExtentHeader& extent) {
  const bool asked = extent.state == ExtentState::used && extent.lifetime != Lifetime::process &&
                     extent.slot != pending_slot && extent.owner != 0;
  return asked || extent.state == ExtentState::quarantined;
}

enum class SlotState : std::uint32_t { used = 1 };

/// Two lines: the entry and the name. The entry is published last and its checksum covers both. A
/// slot is free if the checksum does not match.
struct SlotEntry {
  SlotState state;
  Lifetime lifetime;
  std::uint64_t hash;
  std::uint64_t offset;  // of the object's bytes
  std::uint64_t bytes;
  std::uint64_t owner;
  std::uint64_t generation;
  std::uint64_t reserved;
  std::uint64_t checksum;
};
static_assert(sizeof(SlotEntry) == line_bytes);

struct SlotName {
  std::uint8_t length;
  char text[max_name_bytes];
};
static_assert(sizeof(SlotName) == line_bytes);

struct Slot {
  SlotEntry entry;
  SlotName name;

  std::string_view name_view() const { return {name.text, name.length}; }
};
static_assert(sizeof(Slot) == 2 * line_bytes);

/// XXH64 of all but the last 8 bytes, which hold the checksum. Never 0: 0 marks an erased line.
std::uint64_t hash_bytes(const void* bytes, std::size_t count, std::uint64_t seed);

template <class Line>
std::uint64_t line_checksum(const Line& line, std::uint64_t key) {
  static_assert(sizeof(Line) == line_bytes);
  return hash_bytes(&line, line_bytes - sizeof(std::uint64_t), key);
}

/// The checksum of a slot at `index`: a slot that was copied to another place is not valid there.
std::uint64_t slot_checksum(const Slot& slot, std::uint32_t index, std::uint64_t key);

}  // namespace penstock::arena

// The lines that transactions and checkpoints keep in the pool. Steps, deaths and counts of device
// accesses: docs/protocols/persistence.md.
//
// A pair of lines, which all structures below use: line (step & 1) holds a step, the other line the
// step before. So one of the two is whole at any moment, and the greater step counts.
//
//   PairLine      | step | six words, by use                                       | checksum |
//
// object "penstock.writers"           one line for each undo log of the pool       under the lock
//   WriterLine   | magic | owner | node | log | 0 | 0 | 0                          | checksum |
// object "penstock.log.OWNER.NUMBER"  an undo log                                  by its owner
//   +0, +4096    pair: | state | transaction | 0 ... |
//   +8192        EntryHeader, old bytes in whole lines, EntryHeader, ...
//   EntryHeader  | magic, slot | generation | offset | bytes | transaction | index | 0 | checksum |
// object "penstock.version.GENERATION" of an object that transactions change       by its writer
//   +0, +64      pair: | version | owner | log | 0 ... |    odd version: it is being changed
// a checkpoint                                                                     by its writers
//   +0, +4096    pair: | tag | 0 ... |    the step is the version: copy (step & 1) is valid
//   +8192        copy 0, copy 1: whole pages
//
// Checksums are keyed by the pool's id, the generation of the object and the kind of line, so that
// nothing needs to be cleared and no line counts in another place. Lines that a power cut of a
// file's host must not tear together lie on different pages.
#pragma once

#include <cstddef>
#include <cstdint>

#include "arena/arena.hpp"
#include "base/checksum.hpp"
#include "coherence/coherence.hpp"

namespace penstock::persist {

inline constexpr std::uint64_t line_bytes = coherence::line_bytes;
inline constexpr std::uint64_t page_bytes = 4096;
inline constexpr std::uint64_t pair_bytes = 2 * page_bytes;  ///< size of a pair on two pages

/// Makes a line of one kind invalid as a line of another.
enum class Kind : std::uint64_t { log = 1, entry = 2, version = 3, checkpoint = 4, writer = 5 };

struct PairLine {
  std::uint64_t step = 0;
  std::uint64_t words[6] = {};
  std::uint64_t checksum = 0;
};
static_assert(sizeof(PairLine) == line_bytes);

inline constexpr std::uint64_t writer_magic = 0x3154495257505350;  // "PSPWRIT1"

struct WriterLine {
  std::uint64_t magic = 0;
  std::uint64_t owner = 0;  ///< token of the process; 0: none
  std::uint64_t node = 0;   ///< of the owner
  std::uint64_t log = 0;    ///< number of the undo log among those of the owner
  std::uint64_t unused[3] = {};
  std::uint64_t checksum = 0;
};
static_assert(sizeof(WriterLine) == line_bytes);

inline constexpr std::uint32_t entry_magic = 0x31474f4c;  // "LOG1"

struct EntryHeader {
  std::uint32_t magic = 0;
  std::uint32_t slot = 0;  ///< the object's slot in the name table
  std::uint64_t generation = 0;
  std::uint64_t offset = 0;  ///< in the object; whole lines
  std::uint64_t bytes = 0;   ///< whole lines
  std::uint64_t transaction = 0;
  std::uint64_t index = 0;  ///< number of the entry in the transaction, from 0
  std::uint64_t unused = 0;
  std::uint64_t checksum = 0;  ///< of the old bytes and of this line
};
static_assert(sizeof(EntryHeader) == line_bytes);

/// Returns the key of all checksums of one kind in one object.
inline std::uint64_t key_of(std::uint64_t pool_id, std::uint64_t generation, Kind kind) {
  const std::uint64_t parts[] = {pool_id, generation, static_cast<std::uint64_t>(kind)};
  return base::xxh64(parts, sizeof parts, 0);
}

/// Never 0, which marks an erased line.
template <class Line>
std::uint64_t checksum_of(const Line& line, std::uint64_t key) {
  const std::uint64_t hash = base::xxh64(&line, sizeof line - sizeof line.checksum, key);
  return hash == 0 ? 1 : hash;
}

}  // namespace penstock::persist

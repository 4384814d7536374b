// Process slots belong to nodes in blocks, so that a process takes a slot without the pool's lock
// (docs/protocols/pool.md). A node takes a block under the pool's lock; its processes take the
// slots of its blocks under their host's lock alone.
//
//   line 0: | next fresh block | where the search goes on | 0 ...              | checksum |
//   line 1: | token of the process that buries, 0 if none does | 0 ...                    |
//   block:  | times taken | node + 1, whose it was + 1 | 0 ...                 | checksum |
//   home:   | 22 blocks, 2 bytes each | blocks ever entered, turn, reuse        | checksum |
//
// Blocks and line 0 are written under the pool's lock, a node's home under its host's lock. What
// stands in a home is a hint: the block's own line says whose it is.
//
// A node that finds no fresh block takes one that has a free slot from another node. A process of
// that node may just be taking this very slot, as Dekker's algorithm decides: it says that it is
// there (AttachingLine::apart) and then reads whose the block is; the other writes whose it is,
// then waits until no process is there, and looks at the slots once more.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <vector>

#include "pool/process_table.hpp"

namespace penstock::pool {

struct alignas(64) NextBlockLine {
  std::uint64_t next = 0;
  std::uint64_t turn = 0;
  std::uint64_t unused[5] = {};
  std::uint64_t checksum = 0;
};
static_assert(sizeof(NextBlockLine) == 64);

struct alignas(64) HomeLine {
  static constexpr std::uint32_t capacity = 22;
  std::uint16_t blocks[capacity] = {};  ///< the last ones that were entered
  std::uint32_t entered = 0;
  std::uint32_t turn = 0;   ///< of those, which is looked at first
  std::uint32_t reuse = 0;  ///< 1: no block of the pool is fresh any more
  std::uint64_t checksum = 0;

  std::uint32_t listed() const { return entered < capacity ? entered : capacity; }
};
static_assert(sizeof(HomeLine) == 64);

/// A block as it is seen at one time.
struct BlockView {
  std::uint32_t number = 0;
  BlockLine line;
  bool whole = true;
  std::vector<SlotView> slots;

  bool fresh() const { return whole && line.taken == 0; }
  bool of(std::uint32_t node) const { return whole && line.owner == node + 1 && line.from == 0; }
};

class SlotBlocks {
 public:
  /// `from` of a block of which nobody knows whose it was.
  static constexpr std::uint32_t anybody = UINT32_MAX;
  /// `confirm`: called before each line that is written under the pool's lock.
  SlotBlocks(const coherence::Memory& memory, std::byte* base, const Superblock& superblock,
             const ProcessTable& processes, std::function<void()> confirm);

  static constexpr std::uint64_t bytes(std::uint32_t blocks) { return (2ull + blocks) * 64; }
  std::uint32_t blocks() const { return blocks_; }
  std::uint32_t slots_a_block() const { return slots_a_block_; }

  /// The block's line and the states of its slots; one device access.
  BlockView look(std::uint32_t number) const;
  /// The slots in which processes of the node are, as its home says; other nodes' may be among
  /// them, and some may be missing. nullopt: it does not list them all. Its own processes ask.
  std::optional<std::vector<SlotView>> near(std::uint32_t node) const;

  // under the host's lock
  /// An unreadable one is empty. What is published is ordered before the state of the slot that is
  /// taken then.
  HomeLine home(std::uint32_t node) const;
  void publish_home(std::uint32_t node, const HomeLine& home) const;

  // under the pool's lock, whose release orders what is published
  /// A block that no node has had; nullopt: none is left.
  std::optional<BlockView> take_fresh(std::uint32_t node) const;
  /// Writes whose the block is, and whose it may be for those who looked before: 0 for nobody's.
  void give(BlockView& block, std::uint32_t node, std::uint32_t from) const;
  std::uint32_t turn() const;
  void set_turn(std::uint32_t number) const;

  // burials: pool.md
  void mark_burial(std::uint64_t token) const;
  void unmark_burial() const;
  bool burial_marked() const;

 private:
  NextBlockLine next_line() const;
  bool fresh(std::uint32_t number) const;
  std::uint64_t place(std::uint32_t number) const { return offset_ + (2ull + number) * 64; }
  std::uint64_t home_place(std::uint32_t node) const { return homes_ + node * 64ull; }

  coherence::Memory memory_;
  std::byte* base_;
  ProcessTable processes_;
  std::function<void()> confirm_;
  std::uint64_t offset_, homes_;
  std::uint32_t slots_, slots_a_block_, blocks_;
};

}  // namespace penstock::pool

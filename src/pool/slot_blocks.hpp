// Process slots belong to nodes in blocks, so that a process can take a slot without the pool's
// lock (docs/protocols/pool.md). A node takes a block under the pool's lock; its processes take the
// slots of its blocks under their host's lock alone.
//
//   line 0: | next fresh block | search position | 0 ...                       | checksum |
//   line 1: | token of the process that reclaims, 0: none | 0 ...                         |
//   block:  | times taken | node + 1, previous node + 1 | 0 ...                | checksum |
//   home:   | 22 blocks, 2 bytes each | blocks ever entered, turn, reuse        | checksum |
//
// Blocks and line 0 are written under the pool's lock, a node's home under its host's lock. A home
// holds hints: the block's own line says which node owns it.
//
// If no fresh block is left, a node takes a block with a free slot from another node. A process of
// that node may be taking this very slot, so both follow Dekker's algorithm: the process announces
// itself (AttachingLine::unlocked) and then reads the owner of the block; the taker writes the new
// owner, waits until no process is announced, and then checks the slots again.
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
  std::uint32_t turn = 0;   ///< index of the block that is checked first
  std::uint32_t reuse = 0;  ///< 1: the pool has no fresh block any more
  std::uint64_t checksum = 0;

  std::uint32_t listed() const { return entered < capacity ? entered : capacity; }
};
static_assert(sizeof(HomeLine) == 64);

/// A snapshot of a block.
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
  /// `from` of a block whose previous node is not known.
  static constexpr std::uint32_t anybody = UINT32_MAX;
  /// `confirm`: called before each line is written under the pool's lock.
  SlotBlocks(const coherence::Memory& memory, std::byte* base, const device::Superblock& superblock,
             const ProcessTable& processes, std::function<void()> confirm);

  static constexpr std::uint64_t bytes(std::uint32_t blocks) { return (2ull + blocks) * 64; }
  std::uint32_t blocks() const { return blocks_; }
  std::uint32_t slots_a_block() const { return slots_a_block_; }

  /// The block's line and the states of its slots; one device access.
  BlockView look(std::uint32_t number) const;
  /// The slots of the node's processes, by its home; may include other nodes' slots and miss some.
  /// nullopt: the home does not list all. Called by processes of the node.
  std::optional<std::vector<SlotView>> near(std::uint32_t node) const;

  // under the host's lock
  /// A damaged home reads as empty. A published home is ordered before the state of the slot that
  /// is then taken.
  HomeLine home(std::uint32_t node) const;
  void publish_home(std::uint32_t node, const HomeLine& home) const;

  // under the pool's lock, whose release orders the publishes
  /// Takes a block that no node has had; nullopt: none is left.
  std::optional<BlockView> take_fresh(std::uint32_t node) const;
  /// Publishes the owner of the block, and the previous owner for processes that looked before; 0:
  /// none.
  void give(BlockView& block, std::uint32_t node, std::uint32_t from) const;
  std::uint32_t turn() const;
  void set_turn(std::uint32_t number) const;

  // mark of a reclaim: pool.md
  void mark_reclaim(std::uint64_t token) const;
  void unmark_reclaim() const;
  bool reclaim_marked() const;

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

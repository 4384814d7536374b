// The attached processes: the lines of the process slots.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "pool/host_identity.hpp"
#include "pool/layout.hpp"

namespace penstock::pool {

/// State line of a slot as read.
struct SlotView {
  std::uint32_t slot = 0;
  StateLine line;
  bool whole = true;  ///< false: wrong checksum or impossible contents; single words are never torn

  bool attached() const { return is(SlotState::attached); }
  /// True until the memory of its process has been freed.
  bool owns() const { return attached() || is(SlotState::left); }

  bool is(SlotState state) const { return line.state == static_cast<std::uint32_t>(state); }
};
/// True for a torn line too: a half-written line must not be taken.
inline bool was_taken(const SlotView& view) {
  return !view.whole || view.line.generation != 0;
}

/// Reads are safe at any time. Only the owner writes, or another process under the lock.
class ProcessTable {
 public:
  ProcessTable(const coherence::Memory& memory, std::byte* base,
               const device::Superblock& superblock);

  std::uint32_t slots() const { return slots_; }
  SlotView state(std::uint32_t slot) const;
  /// The slots [first, end), at least one; lines that the caller has invalidated become fresh too.
  /// One device access.
  std::vector<SlotView> states(std::uint32_t first, std::uint32_t end) const;
  /// All slots that were ever taken. Blocks are first taken in order, so the cost depends on the
  /// used slots, not on the size of the table.
  std::vector<SlotView> used() const;
  /// nullopt: the line is unreadable.
  std::optional<OriginLine> origin(std::uint32_t slot) const;
  /// nullopt: unreadable or not of `generation`.
  std::optional<std::uint64_t> beat(std::uint32_t slot, std::uint64_t generation) const;
  /// Generation of the slot's last heartbeat; nullopt: unreadable.
  std::optional<std::uint64_t> beating_generation(std::uint32_t slot) const;
  /// The generation of the slot's last process: from the state, or from the heartbeat if that is
  /// torn.
  std::uint64_t generation(const SlotView& view) const;
  /// Address of the pool in the process of the slot; 0: unreadable or not of `generation`.
  std::uint64_t mapped_at(std::uint32_t slot, std::uint64_t generation) const;
  /// True if this node's cached line says attached under `generation`: enough for a slot of this
  /// process.
  bool cached_as_attached(std::uint32_t slot, std::uint64_t generation) const;
  std::string job(std::uint32_t slot) const;
  /// The processes that it shares memory with, see Reclaim::shares_with(). nullopt: the line is
  /// unreadable or not of its generation.
  std::optional<std::uint64_t> shares_with(const SlotView& view) const;
  /// All fields except `alive`.
  ProcessRecord record(const SlotView& view) const;

  struct Entry {
    HostIdentity host;
    ProcessIdentity process;
    std::uint32_t node = 0;
    std::int32_t rank = -1;
    std::string job;
  };
  /// Publishes all lines of a slot, the state last, and returns the state. Requires the pool's
  /// lock, or a block of the own node. `before`: a fresh look at the slot. `confirm`: called before
  /// each store that would do harm if this process had lost lock or block.
  StateLine take(const SlotView& before, const Entry& entry,
                 const std::function<void()>& confirm) const;
  /// Publishes host, program and job. `confirm`: called before each part. The caller does the
  /// fence.
  void publish_details(std::uint32_t slot, const Entry& entry,
                       const std::function<void()>& confirm) const;
  /// Fences: later publishes of this thread come after it.
  void publish_state(std::uint32_t slot, const StateLine& line) const;
  void set_state(std::uint32_t slot, StateLine line, SlotState state) const;
  /// The caller does the fence.
  void publish_beat(std::uint32_t slot, std::uint64_t generation, std::uint64_t beat,
                    std::uint64_t shares_with) const;
  void publish_stats(std::uint32_t slot, std::uint64_t generation, const ProcessStats& stats) const;
  void publish_activity(std::uint32_t slot, std::string_view text) const;

 private:
  /// Loads a line that the caller has invalidated, and checks it.
  SlotView load_state(std::uint32_t slot) const;
  bool fresh(std::uint32_t block, std::uint32_t count) const;
  /// The two lines of slot_blocks.hpp precede the blocks.
  std::uint64_t place_of_block(std::uint32_t block) const {
    return blocks_ + (2ull + block) * sizeof(BlockLine);
  }
  std::optional<LeaseLine> lease(std::uint32_t slot) const;
  template <class Line>
  std::uint64_t place(std::uint64_t array, std::uint32_t slot) const {
    return array + std::uint64_t{slot} * sizeof(Line);
  }
  void publish_text(std::uint64_t place, std::size_t lines, std::string_view text) const;
  std::string read_text(std::uint64_t place, std::size_t lines) const;

  coherence::Memory memory_;
  std::byte* base_;
  std::uint32_t slots_, nodes_;
  std::uint64_t states_, details_, leases_, stats_, activities_, blocks_;
  std::uint32_t slots_a_block_;
};

}  // namespace penstock::pool

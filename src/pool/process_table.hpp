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
  bool whole =
      true;  ///< false: wrong checksum or impossible contents; each word for itself is whole

  bool attached() const { return is(SlotState::attached); }
  /// True until the memory of its process has been given back.
  bool owns() const { return attached() || is(SlotState::left); }

  bool is(SlotState state) const { return line.state == static_cast<std::uint32_t>(state); }
};
/// A line that its writer left half written must not be taken.
inline bool was_taken(const SlotView& view) {
  return !view.whole || view.line.generation != 0;
}

/// Reads are safe at any time; writes are the owner's, or another's under the lock.
class ProcessTable {
 public:
  ProcessTable(const coherence::Memory& memory, std::byte* base, const Superblock& superblock);

  std::uint32_t slots() const { return slots_; }
  SlotView state(std::uint32_t slot) const;
  /// Those of [first, end), which are some; what the caller has invalidated is fresh as well. One
  /// device access.
  std::vector<SlotView> states(std::uint32_t first, std::uint32_t end) const;
  /// All slots that were ever taken. Their blocks are taken in order the first time, so this costs
  /// what they are, not what the table could hold.
  std::vector<SlotView> used() const;
  /// nullopt: unreadable.
  std::optional<OriginLine> origin(std::uint32_t slot) const;
  /// nullopt: unreadable or not of `generation`.
  std::optional<std::uint64_t> beat(std::uint32_t slot, std::uint64_t generation) const;
  /// Generation under which the slot's process beats, or has beaten last; nullopt: unreadable.
  std::optional<std::uint64_t> beating(std::uint32_t slot) const;
  /// The generation of the slot's last process: if its state is not whole, that of its heartbeat.
  std::uint64_t generation(const SlotView& view) const;
  /// Address of the pool in the process of the slot; 0: unreadable or not of `generation`.
  std::uint64_t mapped_at(std::uint32_t slot, std::uint64_t generation) const;
  /// Attached under `generation`, as this node holds the line: enough for a slot of this process.
  bool held_attached(std::uint32_t slot, std::uint64_t generation) const;
  std::string job(std::uint32_t slot) const;
  /// Everything but `alive`.
  ProcessRecord record(const SlotView& view) const;

  struct Entry {
    HostIdentity host;
    ProcessIdentity process;
    std::uint32_t node = 0;
    std::int32_t rank = -1;
    std::string job;
  };
  /// Publishes all lines of the slot that was just looked at, the state last, which it gives. Under
  /// the pool's lock, or in a block of the own node; `confirm` is asked before what hurts if this
  /// process has lost these meanwhile.
  StateLine take(const SlotView& before, const Entry& entry,
                 const std::function<void()>& confirm) const;
  /// Who it is, but for its state; `confirm` is asked before each part. The caller orders.
  void publish_details(std::uint32_t slot, const Entry& entry,
                       const std::function<void()>& confirm) const;
  /// Ordered before all that this thread publishes later.
  void publish_state(std::uint32_t slot, const StateLine& line) const;
  void set_state(std::uint32_t slot, StateLine line, SlotState state) const;
  /// The caller orders.
  void publish_beat(std::uint32_t slot, std::uint64_t generation, std::uint64_t beat) const;
  void publish_stats(std::uint32_t slot, std::uint64_t generation, const ProcessStats& stats) const;
  void publish_activity(std::uint32_t slot, std::string_view text) const;

 private:
  /// Loads after the caller's invalidations; checks.
  SlotView load_state(std::uint32_t slot) const;
  bool fresh(std::uint32_t block, std::uint32_t count) const;
  /// Behind the two lines of slot_blocks.hpp.
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

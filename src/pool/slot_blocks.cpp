#include "pool/slot_blocks.hpp"

#include <algorithm>

#include "pool/checksummed_line.hpp"

namespace penstock::pool {

SlotBlocks::SlotBlocks(const coherence::Memory& memory, std::byte* base,
                       const device::Superblock& s, const ProcessTable& processes,
                       std::function<void()> confirm)
    : memory_(memory),
      base_(base),
      processes_(processes),
      confirm_(std::move(confirm)),
      offset_(s.blocks_offset),
      homes_(s.homes_offset),
      slots_(s.max_processes),
      slots_a_block_(block_slots_of(s.max_processes, s.max_nodes)),
      blocks_(blocks_of(s.max_processes, s.max_nodes)) {}

BlockView SlotBlocks::look(std::uint32_t number) const {
  BlockView view{.number = number};
  if (number >= blocks_) {
    view.whole = false;
    return view;
  }
  memory_.invalidate(base_ + place(number), sizeof(BlockLine));
  const std::uint32_t first = number * slots_a_block_;
  view.slots = processes_.states(first, std::min(first + slots_a_block_, slots_));
  view.whole =
      load_checksummed_line<BlockLine>(memory_, base_, place(number), &view.line).has_value();
  return view;
}

std::optional<std::vector<SlotView>> SlotBlocks::near(std::uint32_t node) const {
  const HomeLine there = home(node);
  if (there.entered == 0 || there.entered > HomeLine::capacity) return std::nullopt;
  std::vector<SlotView> views;
  for (std::uint32_t i = 0; i < there.listed(); ++i) {
    for (const SlotView& view : look(there.blocks[i]).slots) {
      if (was_taken(view)) views.push_back(view);
    }
  }
  return views;
}

bool SlotBlocks::fresh(std::uint32_t number) const {
  const auto line = observe_checksummed_line<BlockLine>(memory_, base_, place(number));
  return line && line->taken == 0;
}

HomeLine SlotBlocks::home(std::uint32_t node) const {
  const auto line = observe_checksummed_line<HomeLine>(memory_, base_, home_place(node));
  return line.value_or(HomeLine{});
}

void SlotBlocks::publish_home(std::uint32_t node, const HomeLine& home) const {
  publish_checksummed_line(memory_, base_, home_place(node), home);
}

NextBlockLine SlotBlocks::next_line() const {
  auto line = observe_checksummed_line<NextBlockLine>(memory_, base_, offset_);
  if (line && line->next <= blocks_ && line->turn < blocks_) return *line;
  NextBlockLine found;  // its writer died while writing it: blocks are taken in order
  std::uint32_t high = blocks_;
  for (std::uint32_t low = 0; low < high;) {
    const std::uint32_t middle = low + (high - low) / 2;
    if (fresh(middle)) {
      high = middle;
    } else {
      low = middle + 1;
    }
  }
  found.next = high;
  return found;
}

std::optional<BlockView> SlotBlocks::take_fresh(std::uint32_t node) const {
  NextBlockLine line = next_line();
  // a process took it and died before it published that
  while (line.next < blocks_ && !fresh(static_cast<std::uint32_t>(line.next))) ++line.next;
  if (line.next == blocks_) return std::nullopt;
  BlockView block = look(static_cast<std::uint32_t>(line.next));
  give(block, node, 0);
  ++line.next;
  if (confirm_) confirm_();
  publish_checksummed_line(memory_, base_, offset_, line);
  return block;
}

void SlotBlocks::give(BlockView& block, std::uint32_t node, std::uint32_t from) const {
  block.line = {.taken = block.line.taken + 1, .owner = node + 1, .from = from};
  block.whole = true;
  if (confirm_) confirm_();
  publish_checksummed_line(memory_, base_, place(block.number), block.line);
  memory_.full_fence();  // a process that takes a slot of it afterwards has seen this
}

std::uint32_t SlotBlocks::turn() const {
  return static_cast<std::uint32_t>(next_line().turn);
}

void SlotBlocks::set_turn(std::uint32_t number) const {
  NextBlockLine line = next_line();
  line.turn = number % blocks_;
  if (confirm_) confirm_();
  publish_checksummed_line(memory_, base_, offset_, line);
}

void SlotBlocks::mark_reclaim(std::uint64_t token) const {
  memory_.publish_word(base_ + offset_ + coherence::line_bytes, token);
  memory_.full_fence();  // a process that is not seen attaching from here on finds the mark
}

void SlotBlocks::unmark_reclaim() const {
  memory_.publish_word(base_ + offset_ + coherence::line_bytes, 0);
}

bool SlotBlocks::reclaim_marked() const {
  return memory_.observe_word(base_ + offset_ + coherence::line_bytes) != 0;
}

}  // namespace penstock::pool

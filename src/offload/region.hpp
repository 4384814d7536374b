// The memory that a communicator shares with its switch, for n ranks, w chunks in flight and L
// leaves (0: one switch serves all ranks):
//
//   description    1 line        by the process that makes the region, before any other reads it
//   switches       1 + L lines   line 0: by the switch, or the spine; line 1 + i: by leaf i
//   members        n lines       line p: by rank p, once: its token and its leaf
//   submissions    n + L rings   ring p: by rank p; ring n + i: by leaf i, for the spine
//   completions    n + L rings   ring p: by the switch, or p's leaf; ring n + i: by the spine
//   results        (1 + L) w     slots: by the switch or spine; by leaf i
//   sources        (n + L) w     slots: by rank p; by leaf i, its partial result for the spine
//
// A ring has 64 lines; packet i lies in line i mod 64, and its operand or result in slot i mod w.
// Each line has one writer. The region is an object of the ranks' job, and a switch that serves it
// is a member of that job, so that its memory has no other owner while either may still store
// there. In words: docs/protocols/switch.md.
#pragma once

#include <cstdint>
#include <optional>

#include "offload/packet.hpp"
#include "pool/pool.hpp"

namespace penstock::offload {

inline constexpr std::uint32_t max_leaves = 7;

/// The dimensions of a region, the same for all processes that use it.
struct Shape {
  std::uint32_t ranks = 0;
  std::uint32_t leaves = 0;
  std::uint32_t window = 4;      ///< chunks of a rank in flight at once
  std::uint64_t slot_bytes = 0;  ///< whole lines
  std::uint32_t communicator = 0;
  std::uint64_t owner = 0;  ///< token of the process that made it
  bool operator==(const Shape&) const = default;
};

/// Where things lie, relative to the region's offset.
class Region {
 public:
  Region(std::uint64_t offset, const Shape& shape) : offset_(offset), shape_(shape) {}

  const Shape& shape() const { return shape_; }
  std::uint64_t offset() const { return offset_; }
  std::uint64_t bytes() const { return source(rings(), 0) - offset_; }
  /// Bytes to be zeroed and published before the first use.
  std::uint64_t zeroed_bytes() const { return result(0, 0) - offset_; }

  std::uint64_t switch_line(std::uint32_t number) const { return line(1 + number); }
  std::uint64_t member_line(std::uint32_t rank) const { return line(2 + shape_.leaves + rank); }
  /// `ring`: a rank, or ranks + a leaf.
  std::uint64_t submission(std::uint32_t ring, std::uint64_t index) const {
    return line(first_ring() + ring * ring_lines + index % ring_lines);
  }
  std::uint64_t completion(std::uint32_t ring, std::uint64_t index) const {
    return line(first_ring() + (rings() + ring) * ring_lines + index % ring_lines);
  }
  /// `number`: 0 for the switch or spine, 1 + leaf for a leaf.
  std::uint64_t result(std::uint32_t number, std::uint64_t index) const {
    return line(first_ring() + 2 * rings() * ring_lines) + slot(number, index);
  }
  std::uint64_t source(std::uint32_t ring, std::uint64_t index) const {
    return result(1 + shape_.leaves, 0) + slot(ring, index);
  }
  std::uint32_t rings() const { return shape_.ranks + shape_.leaves; }

  Place submission_place(std::uint32_t ring, std::uint64_t index) const {
    return {Place::Ring::submissions, shape_.communicator, ring, index};
  }
  Place completion_place(std::uint32_t ring, std::uint64_t index) const {
    return {Place::Ring::completions, shape_.communicator, ring, index};
  }

 private:
  std::uint64_t line(std::uint64_t number) const {
    return offset_ + number * coherence::line_bytes;
  }
  std::uint64_t first_ring() const { return 2 + shape_.leaves + shape_.ranks; }
  std::uint64_t slot(std::uint64_t row, std::uint64_t index) const {
    const std::uint64_t window = shape_.window;  // 0: a shape that check() refuses
    return (row * window + (window == 0 ? 0 : index % window)) * shape_.slot_bytes;
  }

  std::uint64_t offset_;
  Shape shape_;
};

/// Checks that a shape is possible: counts neither 0 nor absurd, slots of whole lines. Errors:
/// wrong_format.
Result<void> check(const Shape& shape);

/// Called by the maker of the region: zeros all but the slots, then describes it. All is at the
/// device on return.
void describe(const pool::Pool& pool, const Region& region);
/// Called by a switch: reads the description at `offset`. Errors: wrong_format, also if the region
/// would not lie in the pool.
Result<Region> find_region(const pool::Pool& pool, std::uint64_t offset);

/// A participant: a rank with its leaf, or a switch.
struct Member {
  std::uint64_t token = 0;
  std::uint32_t leaf = 0;
};
/// Each line has one writer, which writes once. Not ordered.
void publish_member(const pool::Pool& pool, const Region& region, std::uint64_t at,
                    const Member& member);
/// Returns nullopt if the line is not there yet, or damaged. One device access.
std::optional<Member> observe_member(const pool::Pool& pool, const Region& region,
                                     std::uint64_t at);

}  // namespace penstock::offload

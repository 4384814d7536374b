// Which nodes may hold dirty lines of dead processes, and up to which tick each node has flushed.
//
// A killed process leaves its stores dirty in its node's caches. They may reach the device at any
// later time, when the memory may have a new owner. So memory that a node's dead processes may have
// stored to gets a new owner only after that node has flushed it (docs/protocols/quarantine.md).
//
//   clock    two lines   number of such events so far, in two copies
//   deaths   N lines     when a process of the node died last
//   flushes  N lines     the tick up to which the node has flushed, and its flushing process
//
//   clock | ticks | last death | 0 ...                | checksum |
//   death | ticks | 0 ...                             | checksum |
//   flush | ticks | 0 | token | steps | 0 ...         | checksum |
//
// Clock and deaths are written under the pool's lock. A flush line is written by processes of its
// host; the last write stays, and an older number only causes one more flush. Token and steps are a
// hint: the process that flushes for the node, and a counter that grows while it does.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <set>
#include <utility>
#include <vector>

#include "coherence/coherence.hpp"

namespace penstock::pool {

class FlushTable {
 public:
  FlushTable(const coherence::Memory& memory, std::byte* base, std::uint64_t offset,
             std::uint32_t nodes, std::function<void()> confirm = {})
      : memory_(memory),
        base_(base),
        offset_(offset),
        nodes_(nodes),
        confirm_(std::move(confirm)) {}

  static constexpr std::uint64_t bytes(std::uint32_t nodes) {
    return (2 + 2 * std::uint64_t{nodes}) * coherence::line_bytes;
  }
  std::uint32_t nodes() const { return nodes_; }

  struct Clock {
    std::uint64_t ticks = 0;
    std::uint64_t last_death = 0;  ///< 0: no process has died yet
  };
  /// Ticks from this value on come from a damaged clock.
  static constexpr std::uint64_t unreadable_ticks = UINT64_MAX / 2;
  /// Without the lock the result may be out of date. One serialized device access.
  Clock clock() const;
  /// Advances the clock. Requires the lock; the caller has fenced stores that must be visible
  /// first.
  void tick() const;

  /// Records that processes of the nodes died. Requires the lock. Call it before their objects are
  /// freed or they are marked as reaped: the deaths reach the device before later publishes.
  void record_deaths(const std::set<std::uint32_t>& nodes) const;
  /// Records that no store of the node's dead will arrive any more. Requires the lock.
  void forget_deaths(std::uint32_t node) const;
  struct Flush {
    std::uint64_t ticks = 0;   ///< the node has flushed all memory that was in quarantine then
    std::uint64_t leader = 0;  ///< token of the process that flushes for the node; 0: none
    std::uint64_t steps = 0;   ///< of the leader; grows while it makes progress
    bool operator==(const Flush&) const = default;
  };
  /// Called by a process of the node's host.
  void record_flush(std::uint32_t node, const Flush& flush) const;

  /// Ticks, by node; one serialized device access.
  struct Times {
    std::vector<std::uint64_t> deaths;  ///< 0: none; the greatest number for a torn line
    std::vector<std::uint64_t> flushes;
  };
  Times times() const;
  /// As last recorded; zero if the line is torn.
  Flush flush(std::uint32_t node) const;
  /// The tick up to which the node has flushed; 0: never, or the line is torn.
  std::uint64_t flushed(std::uint32_t node) const { return flush(node).ticks; }

 private:
  std::uint64_t clock_place(std::uint32_t copy) const { return offset_ + copy * 64ull; }
  std::uint64_t death_place(std::uint32_t node) const { return offset_ + (2ull + node) * 64; }
  std::uint64_t flush_place(std::uint32_t node) const {
    return offset_ + (2ull + nodes_ + node) * 64;
  }
  void publish_clock(const Clock& clock) const;

  coherence::Memory memory_;
  std::byte* base_;
  std::uint64_t offset_;
  std::uint32_t nodes_;
  std::function<void()> confirm_;  ///< called before each line is written under the lock
};

}  // namespace penstock::pool

// A process that is attaching has no slot yet, but takes locks, and processes that wait for these
// locks must be able to find it dead. So it first writes an attaching line and uses an attaching
// token: generation << 16 | 0x8000 | number of the line. A node's line serves all its processes, of
// which only one attaches at a time, thanks to the host lock. While a host has no node number yet,
// its process uses the line of its name (docs/protocols/renaming.md).
#pragma once

#include <optional>
#include <vector>

#include "pool/host_identity.hpp"
#include "pool/layout.hpp"

namespace penstock::pool {

inline constexpr std::uint64_t slot_mask = 0xffff;
inline constexpr std::uint64_t attaching_bit = 0x8000;

constexpr std::uint64_t make_token(std::uint64_t generation, std::uint64_t slot) {
  return generation << 16 | slot;
}
constexpr std::uint64_t attaching_token(std::uint64_t generation, std::uint64_t number) {
  return make_token(generation, attaching_bit | number);
}
constexpr bool is_attaching(std::uint64_t token) {
  return (token & attaching_bit) != 0;
}
/// For an attaching process the result has the attaching bit.
constexpr std::uint64_t slot_of(std::uint64_t token) {
  return token & slot_mask;
}
constexpr std::uint64_t attaching_number_of(std::uint64_t token) {
  return token & slot_mask & ~attaching_bit;
}
constexpr std::uint64_t generation_of(std::uint64_t token) {
  return token >> 16;
}

static_assert(max_nodes + names_of(max_nodes) <= attaching_bit, "a line's number fits below it");
static_assert(max_processes <= attaching_bit, "a slot fits below the attaching bit");

class AttachingTable {
 public:
  AttachingTable(const coherence::Memory& memory, std::byte* base,
                 const device::Superblock& superblock)
      : memory_(memory),
        base_(base),
        offset_(superblock.attaching_offset),
        nodes_(superblock.max_nodes),
        lines_(superblock.max_nodes + names_of(superblock.max_nodes)) {}

  /// A node's line has the node's number; lines of names follow.
  std::uint32_t line_of_name(std::uint32_t name) const { return nodes_ + name; }

  /// The first line of a visit. Requires the host lock. `id`: generation of the visit, for names;
  /// 0: one more than the last.
  AttachingLine next(std::uint32_t number, const HostIdentity& host, const ProcessIdentity& process,
                     std::uint64_t id = 0) const;
  void publish(std::uint64_t number, const AttachingLine& line) const;
  /// Orders later loads behind the publish, also those of processes that see the line.
  void publish_before_loads(std::uint64_t number, const AttachingLine& line) const;
  /// Ends the visit of `token`: the last store to the line. No effect if another visit has begun.
  void leave(std::uint64_t token) const;
  /// The line as last published; nullopt: never written, unreadable, or `number` is out of range.
  std::optional<AttachingLine> read(std::uint64_t number) const;
  struct Visit {
    AttachingLine line;  ///< as read, whole or not
    bool whole = true;
  };
  bool has(std::uint64_t number) const { return number < lines_; }
  /// `number` must be in range.
  Visit look(std::uint64_t number) const;
  /// As read(), for all names. One serialized device access.
  std::vector<std::optional<AttachingLine>> read_names() const;
  /// Nodes on which a process may be attaching without the pool's lock. One serialized device
  /// access.
  std::vector<std::uint32_t> nodes_attaching_unlocked() const;

 private:
  std::uint64_t place(std::uint64_t number) const {
    return offset_ + number * sizeof(AttachingLine);
  }
  coherence::Memory memory_;
  std::byte* base_;
  std::uint64_t offset_;
  std::uint32_t nodes_;
  std::uint64_t lines_;
};

/// A process's visit in a line of the table. It keeps a private copy, so a foreign store, for
/// example by a process that came too late for the line, is overwritten by the next beat.
class Visit {
 public:
  Visit(const AttachingTable& table, std::uint32_t number, const AttachingLine& line)
      : table_(table), number_(number), line_(line) {}
  std::uint64_t token() const { return attaching_token(line_.generation, number_); }
  void begin() const { table_.publish_before_loads(number_, line_); }
  /// Renews the heartbeat. The process must not be declared dead already. The caller does the store
  /// fence. `unlocked`: see AttachingLine.
  void beat(bool unlocked);
  void leave() const { table_.leave(token()); }

 private:
  AttachingTable table_;
  std::uint32_t number_;
  AttachingLine line_;
};

}  // namespace penstock::pool

// A process that is just attaching has no slot yet, but takes locks, and the processes that wait
// for these must be able to find it dead. So it writes the attaching line of its node's name first
// and uses an attaching process token: generation << 16 | 0x8000 | name. At most one process of a
// node attaches at a time: the host lock ensures that.
#pragma once

#include <optional>

#include "pool/host_identity.hpp"
#include "pool/layout.hpp"

namespace penstock::pool {

inline constexpr std::uint64_t slot_mask = 0xffff;
inline constexpr std::uint64_t attaching_bit = 0x8000;

constexpr std::uint64_t make_token(std::uint64_t generation, std::uint64_t slot) {
  return generation << 16 | slot;
}
constexpr std::uint64_t attaching_token(std::uint64_t generation, std::uint64_t name) {
  return make_token(generation, attaching_bit | name);
}
constexpr bool is_attaching(std::uint64_t token) {
  return (token & attaching_bit) != 0;
}
/// An attaching process's has the attaching bit.
constexpr std::uint64_t slot_of(std::uint64_t token) {
  return token & slot_mask;
}
constexpr std::uint64_t attaching_name_of(std::uint64_t token) {
  return token & slot_mask & ~attaching_bit;
}
constexpr std::uint64_t generation_of(std::uint64_t token) {
  return token >> 16;
}

static_assert(names_of(max_nodes) <= attaching_bit, "a name fits below the attaching bit");
static_assert(max_processes <= attaching_bit, "a slot fits below the attaching bit");

class AttachingTable {
 public:
  AttachingTable(const coherence::Memory& memory, std::byte* base, const Superblock& superblock)
      : memory_(memory),
        base_(base),
        offset_(superblock.attaching_offset),
        names_(names_of(superblock.max_nodes)) {}

  /// Enters; returns the token. The host lock is held.
  std::uint64_t enter(std::uint32_t name, const HostIdentity& host,
                      const ProcessIdentity& process) const;
  /// Publishes a beat: the attaching process stays alive. The caller does the store fence.
  void beat(std::uint32_t name) const;
  /// The line as last published; nullopt when it was never written, is unreadable, or `name` is
  /// none.
  std::optional<AttachingLine> read(std::uint64_t name) const;

 private:
  std::uint64_t place(std::uint64_t name) const { return offset_ + name * sizeof(AttachingLine); }
  coherence::Memory memory_;
  std::byte* base_;
  std::uint64_t offset_;
  std::uint64_t names_;
};

}  // namespace penstock::pool

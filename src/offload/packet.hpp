// Packets between the ranks of a communicator and a switch that computes: 64 bytes each, the valid
// word last. Source: ETRI/OSU slides, "iMEX" (they name the structures, without a layout); the
// layout is ours: docs/protocols/switch.md.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include "base/status.hpp"
#include "coherence/coherence.hpp"

namespace penstock::offload {

/// Version of packets, regions and the directory. Any other version is refused.
inline constexpr std::uint32_t protocol_version = 1;

/// The longest operand or result, in bytes, that a packet holds.
inline constexpr std::size_t inline_bytes = 24;

enum class Operation : std::uint8_t {
  reduce_scatter = 1,
  all_reduce = 2,
  reduce = 3,
  broadcast = 4,
  all_gather = 5,
  barrier = 6,
};
inline constexpr std::uint8_t last_operation = 6;
const char* name_of(Operation operation);

enum class Status : std::uint8_t {
  ok = 0,
  malformed = 1,     ///< the culprit's packet is damaged, misplaced, or names impossible values
  mismatch = 2,      ///< the culprit's call differs from that of the lowest rank
  rank_missing = 3,  ///< the culprit did not arrive within the time that the switch waits
  rank_dead = 4,     ///< the culprit has died
  unsupported = 5,   ///< a type or an operation that the switch does not know
  internal = 6,      ///< the switch itself has failed
};
inline constexpr std::uint8_t last_status = 6;
const char* name_of(Status status);

/// An operand or result in the packet itself.
struct Inlined {
  std::uint8_t bytes = 0;  ///< 0: nothing
  std::array<std::byte, inline_bytes> data = {};
  bool operator==(const Inlined&) const = default;
};

/// Host to switch: "my chunk is published". `reduction` and `datatype` are numbers of
/// coll::Operation and coll::Datatype; bytes that are only moved are elements of type uint8.
struct Command {
  Operation operation = Operation::barrier;
  std::uint8_t reduction = 0, datatype = 0;
  std::uint32_t communicator = 0;
  std::uint32_t sequence = 0;  ///< lower 32 bits of the collective's number
  std::uint16_t rank = 0, ranks = 0, root = 0;
  bool last_chunk = false;
  bool partial = false;        ///< sent by a leaf: the operand is the result of its ranks' operands
  std::uint64_t source = 0;    ///< offset in the pool; 0: this rank has no operand
  std::uint64_t elements = 0;  ///< in a segment
  std::uint32_t chunk = 0;
  Inlined operand = {};  ///< `source` and `elements` are 0 then
  bool operator==(const Command&) const = default;
};

/// Switch to host.
struct Completion {
  Operation operation = Operation::barrier;
  Status status = Status::ok;
  std::uint8_t datatype = 0;
  std::uint32_t communicator = 0;
  std::uint32_t sequence = 0;
  std::uint16_t rank = 0, culprit = 0;
  std::uint32_t chunk = 0;
  std::uint64_t result = 0;  ///< offset in the pool of the first segment; 0: none
  std::uint64_t elements = 0;
  std::uint32_t gather_ns = 0;  ///< from the first packet of the chunk to the last
  std::uint32_t reduce_ns = 0;
  Inlined inlined = {};  ///< `result`, `elements` and the times are 0 then
  bool operator==(const Completion&) const = default;
};

/// A packet's place: its ring, and its number there, from 0. The check covers it, so that a packet
/// in the wrong place is recognized.
struct Place {
  enum class Ring : std::uint8_t { submissions = 1, completions = 2 };
  Ring ring = Ring::submissions;
  std::uint32_t communicator = 0;
  std::uint32_t rank = 0;
  std::uint64_t index = 0;
};
inline constexpr std::uint64_t ring_lines = 64;

struct alignas(coherence::line_bytes) Packet {
  std::array<std::byte, coherence::line_bytes> bytes = {};
};
static_assert(sizeof(Packet) == coherence::line_bytes);

Packet seal(const Command& command, const Place& place);
Packet seal(const Completion& completion, const Place& place);

/// Whether the packet of this place has arrived, by its valid word: it is whole, unless a foreign
/// process wrote there.
bool has_arrived(const Packet& packet, const Place& place);

/// Reads a packet that has arrived. Errors: wrong_format, which says what is wrong: its check, its
/// magic, its version, an invalid field, another communicator or rank.
Result<Command> read_command(const Packet& packet, const Place& place);
Result<Completion> read_completion(const Packet& packet, const Place& place);

}  // namespace penstock::offload

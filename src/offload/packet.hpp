// Packets between the ranks of a communicator and a switch that computes: 64 bytes each, the valid
// word last. Source: ETRI/OSU slides, "iMEX" (the structures are named there, and not shown); the
// layout is that of design page papers/5-switch.md, 5.4. In words: docs/protocols/switch.md.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include "base/status.hpp"
#include "coherence/coherence.hpp"

namespace penstock::offload {

/// Of packets, regions and the directory. What has another one is refused.
inline constexpr std::uint32_t protocol_version = 1;

/// Bytes of an operand or a result that fit a packet.
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
  malformed = 1,     ///< a packet of the culprit is damaged, another's, or names what cannot be
  mismatch = 2,      ///< the culprit's call differs from that of the lowest rank
  rank_missing = 3,  ///< the culprit has not come in the time that the switch was told to wait
  rank_dead = 4,     ///< the culprit has died
  unsupported = 5,   ///< a type or an operation that the switch does not know
  internal = 6,      ///< the switch itself has failed
};
inline constexpr std::uint8_t last_status = 6;
const char* name_of(Status status);

/// What a packet carries itself, in place of where it lies.
struct Inlined {
  std::uint8_t bytes = 0;  ///< 0: nothing
  std::array<std::byte, inline_bytes> data = {};
  bool operator==(const Inlined&) const = default;
};

/// Host to switch: "my chunk is there". `reduction` and `datatype` are numbers of coll::Operation
/// and coll::Datatype; bytes that are only moved are elements of type uint8.
struct Command {
  Operation operation = Operation::barrier;
  std::uint8_t reduction = 0, datatype = 0;
  std::uint32_t communicator = 0;
  std::uint32_t sequence = 0;  ///< of the collective, its lower 32 bits
  std::uint16_t rank = 0, ranks = 0, root = 0;
  bool last_chunk = false;
  bool partial = false;        ///< by a leaf: the operand is what it has reduced of its ranks'
  std::uint64_t source = 0;    ///< offset in the pool; 0: this rank has no operand
  std::uint64_t elements = 0;  ///< of a segment
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

/// A packet's place: which ring, and the how many-th packet there, from 0. Part of its check, so
/// that what belongs elsewhere is not taken for it.
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

/// Whether the packet of this place has come, by its valid word: whole, if nobody else has written
/// there.
bool has_come(const Packet& packet, const Place& place);

/// Of a packet that has come. Errors: wrong_format, which says what is wrong: its check, its magic,
/// its version, a field that is no value, another communicator or rank.
Result<Command> read_command(const Packet& packet, const Place& place);
Result<Completion> read_completion(const Packet& packet, const Place& place);

}  // namespace penstock::offload

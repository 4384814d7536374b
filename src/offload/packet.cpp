#include "offload/packet.hpp"

#include <cstddef>
#include <cstring>

#include "base/checksum.hpp"
#include "base/format.hpp"

namespace penstock::offload {

namespace {

constexpr std::uint32_t command_magic = 0x464f5350;     // "PSOF"
constexpr std::uint32_t completion_magic = 0x53525350;  // "PSRS"
constexpr std::uint16_t last_chunk_flag = 1, partial_flag = 2;
constexpr unsigned inline_shift = 8;  ///< in the flags: bytes of the operand in the packet

struct RawCommand {
  std::uint32_t magic;
  std::uint8_t version, operation, reduction, datatype;
  std::uint32_t communicator, sequence;
  std::uint16_t rank, ranks, root, flags;
  std::uint64_t source, destination, elements;  ///< or the operand itself
  std::uint32_t chunk, check;
  std::uint64_t valid;
};
static_assert(sizeof(RawCommand) == 64 && offsetof(RawCommand, source) == 24 &&
              offsetof(RawCommand, chunk) == 48 && offsetof(RawCommand, valid) == 56);

struct RawCompletion {
  std::uint32_t magic;
  std::uint8_t version, operation, status, datatype;
  std::uint32_t communicator, sequence;
  std::uint16_t rank, culprit;
  std::uint32_t chunk;
  std::uint64_t result, elements;  ///< with the times; or the result itself
  std::uint32_t gather_ns, reduce_ns;
  std::uint16_t flags, reserved;
  std::uint32_t check;
  std::uint64_t valid;
};
static_assert(sizeof(RawCompletion) == 64 && offsetof(RawCompletion, result) == 24 &&
              offsetof(RawCompletion, check) == 52 && offsetof(RawCompletion, valid) == 56);
static_assert(offsetof(RawCommand, check) == offsetof(RawCompletion, check));

constexpr std::size_t payload_at = 24;
constexpr std::size_t checked_bytes = offsetof(RawCommand, check);

/// Never 0, which a ring holds at first.
std::uint64_t valid_word(const Place& place, std::uint32_t sequence) {
  const std::uint64_t lap = place.index / ring_lines + 1;
  return lap << 32 | sequence;
}

std::uint32_t checksum_of(const Packet& packet, const Place& place) {
  const std::uint64_t seed[] = {
      std::uint64_t{place.communicator} << 32 | static_cast<std::uint64_t>(place.ring), place.rank,
      place.index};
  return static_cast<std::uint32_t>(
      base::xxh64(packet.bytes.data(), checked_bytes, base::xxh64(seed, sizeof seed, 0)));
}

template <class Raw>
Packet sealed(const Raw& raw, const Inlined& inlined, const Place& place) {
  Packet packet;
  std::memcpy(packet.bytes.data(), &raw, sizeof raw);
  if (inlined.bytes != 0)
    std::memcpy(packet.bytes.data() + payload_at, inlined.data.data(), inline_bytes);
  const std::uint32_t check = checksum_of(packet, place);
  std::memcpy(packet.bytes.data() + offsetof(Raw, check), &check, sizeof check);
  const std::uint64_t valid = valid_word(place, raw.sequence);
  std::memcpy(packet.bytes.data() + offsetof(Raw, valid), &valid, sizeof valid);
  return packet;
}

template <class Raw>
Raw raw_of(const Packet& packet) {
  Raw raw;
  std::memcpy(&raw, packet.bytes.data(), sizeof raw);
  return raw;
}

template <class... Args>
tl::unexpected<Error> wrong(const Place& place, fmt::format_string<Args...> format,
                            Args&&... args) {
  return fail(ErrorCode::wrong_format, "packet {} in the {} of rank {}: {}", place.index,
              place.ring == Place::Ring::submissions ? "submissions" : "completions", place.rank,
              fmt::format(format, std::forward<Args>(args)...));
}

/// Checks that both kinds of packets share.
template <class Raw>
Result<Raw> checked(const Packet& packet, const Place& place, std::uint32_t magic) {
  const Raw raw = raw_of<Raw>(packet);
  if (raw.check != checksum_of(packet, place))
    return wrong(place, "its checksum does not match its bytes: it is torn or misplaced");
  if (raw.magic != magic) return wrong(place, "it begins with {:#x}", raw.magic);
  if (raw.version != protocol_version)
    return wrong(place, "it is of version {}; this Penstock knows version {}", raw.version,
                 protocol_version);
  if (raw.valid != valid_word(place, raw.sequence))
    return wrong(place, "its valid word {:#x} is not of collective {}", raw.valid, raw.sequence);
  if (raw.communicator != place.communicator || raw.rank != place.rank)
    return wrong(place, "it names rank {} of communicator {:#x}", raw.rank, raw.communicator);
  if (raw.operation == 0 || raw.operation > last_operation)
    return wrong(place, "there is no operation {}", raw.operation);
  if (raw.flags >> inline_shift > inline_bytes)
    return wrong(place, "{} bytes of operand do not fit it", raw.flags >> inline_shift);
  return raw;
}

Inlined inlined_of(const Packet& packet, std::uint16_t flags) {
  Inlined inlined;
  inlined.bytes = static_cast<std::uint8_t>(flags >> inline_shift);
  if (inlined.bytes != 0)
    std::memcpy(inlined.data.data(), packet.bytes.data() + payload_at, inline_bytes);
  return inlined;
}

}  // namespace

const char* name_of(Operation operation) {
  constexpr const char* names[] = {"?",         "reduce_scatter", "allreduce", "reduce",
                                   "broadcast", "allgather",      "barrier"};
  return names[static_cast<std::size_t>(operation)];
}

const char* name_of(Status status) {
  constexpr const char* names[] = {"ok",        "malformed",   "mismatch", "rank missing",
                                   "rank dead", "unsupported", "internal"};
  return names[static_cast<std::size_t>(status)];
}

Packet seal(const Command& c, const Place& place) {
  RawCommand raw{};
  raw.magic = command_magic;
  raw.version = protocol_version;
  raw.operation = static_cast<std::uint8_t>(c.operation);
  raw.reduction = c.reduction;
  raw.datatype = c.datatype;
  raw.communicator = c.communicator;
  raw.sequence = c.sequence;
  raw.rank = c.rank;
  raw.ranks = c.ranks;
  raw.root = c.root;
  raw.flags =
      static_cast<std::uint16_t>((c.last_chunk ? last_chunk_flag : 0) |
                                 (c.partial ? partial_flag : 0) | c.operand.bytes << inline_shift);
  raw.source = c.source;
  raw.elements = c.elements;
  raw.chunk = c.chunk;
  return sealed(raw, c.operand, place);
}

Packet seal(const Completion& c, const Place& place) {
  RawCompletion raw{};
  raw.magic = completion_magic;
  raw.version = protocol_version;
  raw.operation = static_cast<std::uint8_t>(c.operation);
  raw.status = static_cast<std::uint8_t>(c.status);
  raw.datatype = c.datatype;
  raw.communicator = c.communicator;
  raw.sequence = c.sequence;
  raw.rank = c.rank;
  raw.culprit = c.culprit;
  raw.chunk = c.chunk;
  raw.result = c.result;
  raw.elements = c.elements;
  raw.gather_ns = c.gather_ns;
  raw.reduce_ns = c.reduce_ns;
  raw.flags = static_cast<std::uint16_t>(c.inlined.bytes << inline_shift);
  return sealed(raw, c.inlined, place);
}

bool has_arrived(const Packet& packet, const Place& place) {
  const auto valid = raw_of<RawCommand>(packet).valid;
  return valid >> 32 == valid_word(place, 0) >> 32;
}

Result<Command> read_command(const Packet& packet, const Place& place) {
  const auto raw = PENSTOCK_TRY(checked<RawCommand>(packet, place, command_magic));
  if (raw.rank >= raw.ranks || raw.root >= raw.ranks)
    return wrong(place, "rank {} and root {} of {} ranks", raw.rank, raw.root, raw.ranks);
  Command command{.operation = static_cast<Operation>(raw.operation),
                  .reduction = raw.reduction,
                  .datatype = raw.datatype,
                  .communicator = raw.communicator,
                  .sequence = raw.sequence,
                  .rank = raw.rank,
                  .ranks = raw.ranks,
                  .root = raw.root,
                  .last_chunk = (raw.flags & last_chunk_flag) != 0,
                  .partial = (raw.flags & partial_flag) != 0,
                  .chunk = raw.chunk,
                  .operand = inlined_of(packet, raw.flags)};
  if (command.operand.bytes != 0) return command;
  command.source = raw.source;
  command.elements = raw.elements;
  return command;
}

Result<Completion> read_completion(const Packet& packet, const Place& place) {
  const auto raw = PENSTOCK_TRY(checked<RawCompletion>(packet, place, completion_magic));
  if (raw.status > last_status) return wrong(place, "there is no status {}", raw.status);
  Completion completion{.operation = static_cast<Operation>(raw.operation),
                        .status = static_cast<Status>(raw.status),
                        .datatype = raw.datatype,
                        .communicator = raw.communicator,
                        .sequence = raw.sequence,
                        .rank = raw.rank,
                        .culprit = raw.culprit,
                        .chunk = raw.chunk,
                        .inlined = inlined_of(packet, raw.flags)};
  if (completion.inlined.bytes != 0) return completion;
  completion.result = raw.result;
  completion.elements = raw.elements;
  completion.gather_ns = raw.gather_ns;
  completion.reduce_ns = raw.reduce_ns;
  return completion;
}

}  // namespace penstock::offload

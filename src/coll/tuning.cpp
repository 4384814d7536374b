// The table, its checks, and its encoding:
//
//   +0    header    | magic | version, | checksum of | 0 ... | origin, ended |      two lines
//                   |       | entries  | all else    |       | by a zero     |
//   +128  entries,  | collective, algorithm, | min, max | min, max, chunk | min, max | chunks,  |
//         one line  | variant, eager         | ranks,   | bytes           | ranks    | switch,  |
//         each      |                        | turns    |                 | per node | scratch, |
//                   |                        |          |                 |          | 0        |
#include "coll/tuning.hpp"

#include <algorithm>
#include <array>
#include <cstring>

#include "base/checksum.hpp"
#include "base/format.hpp"
#include "coherence/coherence.hpp"

namespace penstock::coll {

namespace {

constexpr std::uint64_t magic = 0x676e696e75745350;  // "PStuning"
constexpr std::uint32_t version = 2;
constexpr std::uint8_t all_collectives = 0xff;
constexpr std::uint32_t max_entry_chunks = 1 << 20;

struct Header {
  std::uint64_t magic;
  std::uint32_t version, entries;
  std::uint64_t checksum;  ///< of all bytes of the table, with 0 in this field
  std::uint64_t reserved;
  char origin[Tuning::max_origin_bytes + 1];
};
static_assert(sizeof(Header) == tuning_header_bytes);

struct Entry {
  std::uint8_t collective, algorithm, variant, eager;
  std::uint32_t min_ranks, max_ranks, turns;
  std::uint64_t min_bytes, max_bytes, chunk_bytes;
  std::uint32_t min_per_node, max_per_node, chunks;
  std::uint32_t in_switch, scratch_from;
  std::uint32_t more;  ///< must be 0
};
static_assert(sizeof(Entry) == tuning_entry_bytes);

std::uint64_t checksum_of(std::span<const std::byte> bytes) {
  std::vector<std::byte> all(bytes.begin(), bytes.end());
  std::memset(all.data() + offsetof(Header, checksum), 0, sizeof(Header::checksum));
  return base::xxh64(all.data(), all.size(), magic);
}

/// Empty, or the fault of the entry.
std::string fault_of(const TuningEntry& e) {
  constexpr std::uint64_t least = 1 << 10, most = 1 << 30;
  if (e.min_ranks < 1 || e.min_ranks > e.max_ranks || e.min_ranks == TuningEntry::any_ranks)
    return fmt::format("ranks {} to {}: the first must be 1 or more, and not above the second",
                       e.min_ranks, e.max_ranks);
  if (e.min_bytes > e.max_bytes)
    return fmt::format("bytes {} to {}: the first must not be above the second", e.min_bytes,
                       e.max_bytes);
  if (e.min_per_node < 1 || e.min_per_node > e.max_per_node ||
      e.min_per_node == TuningEntry::any_ranks)
    return fmt::format(
        "{} to {} ranks per node: the first must be 1 or more, and not above the "
        "second",
        e.min_per_node, e.max_per_node);
  const bool whole = e.chunk_bytes % coherence::line_bytes == 0;
  if (e.chunk_bytes != 0 && (!whole || e.chunk_bytes < least || e.chunk_bytes > most))
    return fmt::format("chunks of {} bytes: 1K to 1G are needed, a multiple of 64", e.chunk_bytes);
  const bool bare = e.algorithm == Algorithm::one_shot && e.variant == Variant::all;
  if (e.chunks > max_entry_chunks)
    return fmt::format("{} chunks: at most {}", e.chunks, max_entry_chunks);
  if (e.eager && (!bare || e.chunk_bytes != 0 || e.chunks != 0 || e.turns || e.scratch_from != 0))
    return "eager goes with no other algorithm than one_shot, no variant, chunk, chunks, turns or "
           "scratch";
  if (e.algorithm != Algorithm::one_shot && e.variant != Variant::all)
    return fmt::format("{} has the variant all only", name_of(e.algorithm));
  return "";
}

tl::unexpected<Error> damaged(const std::string& what) {
  return fail(ErrorCode::wrong_format, "{}", what);
}

Result<TuningEntry> entry_of(const Entry& raw, std::size_t number) {
  const bool known = (raw.collective < collective_count || raw.collective == all_collectives) &&
                     raw.algorithm < all_algorithms.size() && raw.variant < all_variants.size() &&
                     raw.eager <= 1 && raw.turns <= 1 && raw.in_switch <= 1 && raw.more == 0;
  if (!known)
    return damaged(fmt::format("its entry {} says what this version does not know", number));
  TuningEntry entry;
  if (raw.collective != all_collectives) entry.collective = static_cast<Collective>(raw.collective);
  entry.min_ranks = raw.min_ranks;
  entry.max_ranks = raw.max_ranks;
  entry.min_bytes = raw.min_bytes;
  entry.max_bytes = raw.max_bytes;
  entry.eager = raw.eager != 0;
  entry.algorithm = static_cast<Algorithm>(raw.algorithm);
  entry.variant = static_cast<Variant>(raw.variant);
  entry.chunk_bytes = raw.chunk_bytes;
  entry.min_per_node = raw.min_per_node;
  entry.max_per_node = raw.max_per_node;
  entry.chunks = raw.chunks;
  entry.turns = raw.turns != 0;
  entry.in_switch = raw.in_switch != 0;
  entry.scratch_from = raw.scratch_from;
  return entry;
}

Entry raw_of(const TuningEntry& entry) {
  Entry raw{};
  raw.collective =
      entry.collective ? static_cast<std::uint8_t>(*entry.collective) : all_collectives;
  raw.algorithm = static_cast<std::uint8_t>(entry.algorithm);
  raw.variant = static_cast<std::uint8_t>(entry.variant);
  raw.eager = entry.eager ? 1 : 0;
  raw.min_ranks = entry.min_ranks;
  raw.max_ranks = entry.max_ranks;
  raw.min_bytes = entry.min_bytes;
  raw.max_bytes = entry.max_bytes;
  raw.chunk_bytes = entry.chunk_bytes;
  raw.min_per_node = entry.min_per_node;
  raw.max_per_node = entry.max_per_node;
  raw.chunks = entry.chunks;
  raw.turns = entry.turns ? 1 : 0;
  raw.in_switch = entry.in_switch ? 1 : 0;
  raw.scratch_from = entry.scratch_from;
  return raw;
}

bool is_plain(std::string_view text) {
  return std::all_of(text.begin(), text.end(), [](char c) { return c >= ' ' && c <= '~'; });
}

Tuning make_default() {
  // Two ranks move as many bytes with either algorithm. Below that size, the second transfer costs
  // more than two_shot saves, which is half of the arithmetic.
  constexpr std::uint64_t two_ranks_from = 64 << 10;
  Tuning tuning;
  tuning.origin = "built in";
  // With more ranks, a tree barrier takes more steps, but no rank polls all others.
  constexpr std::uint32_t flat_barrier_up_to = 16;
  TuningEntry barrier, eager, many, two, rest;
  barrier.collective = Collective::barrier;
  barrier.algorithm = Algorithm::leaders;
  barrier.min_ranks = flat_barrier_up_to + 1;
  eager.eager = true;
  many.collective = two.collective = Collective::allreduce;
  many.algorithm = two.algorithm = Algorithm::two_shot;
  many.min_ranks = 3;
  two.max_ranks = 2;
  two.min_bytes = two_ranks_from;
  tuning.entries = {barrier, eager, many, two, rest};
  return tuning;
}

}  // namespace

const Tuning& default_tuning() {
  static const Tuning tuning = make_default();
  return tuning;
}

const Tuning& default_tuning_of_gpus() {
  static const Tuning tuning = [] {
    Tuning made = make_default();
    // A GPU's arithmetic costs it nothing beside the copies, and each hand-over some microseconds.
    std::erase_if(made.entries, [](const TuningEntry& entry) {
      return entry.algorithm == Algorithm::two_shot && entry.max_ranks == 2;
    });
    return made;
  }();
  return tuning;
}

Result<void> check(const Tuning& tuning) {
  if (tuning.entries.size() > Tuning::max_entries)
    return fail(ErrorCode::invalid_argument, "{} entries, and a table holds at most {}",
                tuning.entries.size(), Tuning::max_entries);
  if (tuning.origin.size() > Tuning::max_origin_bytes || !is_plain(tuning.origin))
    return fail(ErrorCode::invalid_argument,
                "the origin of a table has at most {} bytes, all printable ASCII",
                Tuning::max_origin_bytes);
  for (std::size_t i = 0; i < tuning.entries.size(); ++i) {
    const std::string fault = fault_of(tuning.entries[i]);
    if (!fault.empty()) return fail(ErrorCode::invalid_argument, "entry {}: {}", i + 1, fault);
  }
  return {};
}

std::vector<std::byte> encode(const Tuning& tuning) {
  const std::size_t count = tuning.entries.size();
  std::vector<std::byte> bytes(tuning_header_bytes + count * tuning_entry_bytes);
  Header header{};
  header.magic = magic;
  header.version = version;
  header.entries = static_cast<std::uint32_t>(count);
  std::memcpy(header.origin, tuning.origin.data(),
              std::min(tuning.origin.size(), Tuning::max_origin_bytes));
  for (std::size_t i = 0; i < count; ++i) {
    const Entry raw = raw_of(tuning.entries[i]);
    std::memcpy(bytes.data() + tuning_header_bytes + i * sizeof raw, &raw, sizeof raw);
  }
  std::memcpy(bytes.data(), &header, sizeof header);
  header.checksum = checksum_of(bytes);
  std::memcpy(bytes.data(), &header, sizeof header);
  return bytes;
}

Result<Tuning> decode(std::span<const std::byte> bytes) {
  Header header;
  if (bytes.size() < sizeof header || bytes.size() > max_tuning_bytes)
    return damaged(fmt::format("it has {} bytes; {} to {} are needed", bytes.size(), sizeof header,
                               max_tuning_bytes));
  std::memcpy(&header, bytes.data(), sizeof header);
  if (header.magic != magic) return damaged("it does not begin as a table does");
  if (header.checksum != checksum_of(bytes))
    return damaged("its checksum is not that of its bytes");
  if (header.version != version)
    return damaged(fmt::format("it is of version {}; this Penstock knows version {}",
                               header.version, version));
  if (header.entries != (bytes.size() - sizeof header) / tuning_entry_bytes ||
      bytes.size() != sizeof header + header.entries * tuning_entry_bytes)
    return damaged(fmt::format("{} entries in {} bytes", header.entries, bytes.size()));
  Tuning tuning;
  tuning.origin.assign(header.origin, ::strnlen(header.origin, sizeof header.origin));
  for (std::size_t i = 0; i < header.entries; ++i) {
    Entry raw;
    std::memcpy(&raw, bytes.data() + sizeof header + i * sizeof raw, sizeof raw);
    tuning.entries.push_back(PENSTOCK_TRY(entry_of(raw, i + 1)));
  }
  if (auto valid = check(tuning); !valid) return damaged(valid.error().message);
  return tuning;
}

}  // namespace penstock::coll

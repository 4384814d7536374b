// A tuning table: the plan of a collective, by its ranks and its size. `penstock bench tune`
// measures it and keeps it in the pool (tuning_store.hpp), or a user writes it (tuning_text.cpp).
// Explained in docs/protocols/collectives.md, "How a plan is chosen".
#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.hpp"
#include "schedule/problem.hpp"

namespace penstock::coll {

/// The calls that an entry is for, and their plan.
struct TuningEntry {
  static constexpr std::uint32_t any_ranks = std::numeric_limits<std::uint32_t>::max();
  static constexpr std::uint64_t any_bytes = std::numeric_limits<std::uint64_t>::max();

  std::optional<Collective> collective;  ///< nullopt: all of them
  std::uint32_t min_ranks = 1, max_ranks = any_ranks;
  /// Range of Problem::max_block_bytes. If some rank does not know it, only entries for all sizes
  /// match.
  std::uint64_t min_bytes = 0, max_bytes = any_bytes;
  /// Range of NodeMap::largest(). If the ranks do not know their nodes, only entries for all of
  /// them match.
  std::uint32_t min_per_node = 1, max_per_node = any_ranks;
  bool eager = false;
  Algorithm algorithm = Algorithm::one_shot;
  Variant variant = Variant::all;
  std::uint64_t chunk_bytes = 0;   ///< Plan::slot_bytes; 0: a whole slot
  std::uint32_t chunks = 0;        ///< Plan::chunks
  bool turns = false;              ///< Plan::turns
  bool in_switch = false;          ///< Plan::in_switch
  std::uint32_t scratch_from = 0;  ///< Plan::scratch_from; 0: the usual one

  bool covers_all_sizes() const { return min_bytes == 0 && max_bytes == any_bytes; }
  bool covers_all_nodes() const { return min_per_node == 1 && max_per_node == any_ranks; }
  bool operator==(const TuningEntry&) const = default;
};

/// A call gets the plan of the first entry that matches and is possible, or else that of
/// default_tuning(). So a table needs entries only for its changes.
struct Tuning {
  static constexpr std::size_t max_entries = 128;
  static constexpr std::size_t max_origin_bytes = 95;

  std::vector<TuningEntry> entries;
  std::string origin;  ///< a description of its source, on one line
  bool operator==(const Tuning&) const = default;
};

/// The built-in table.
const Tuning& default_tuning();
/// The same where GPUs move the data. Its chunks are those of chunks_for_gpus().
const Tuning& default_tuning_of_gpus();

/// Errors: invalid_argument, which names the entry (from 1) and what is needed.
Result<void> check(const Tuning& tuning);

// ---- encoded as bytes, the same on every host

inline constexpr std::size_t tuning_header_bytes = 128, tuning_entry_bytes = 64;
inline constexpr std::size_t max_tuning_bytes =
    tuning_header_bytes + Tuning::max_entries * tuning_entry_bytes;

/// Encodes `tuning`, which must pass check(), as whole lines.
std::vector<std::byte> encode(const Tuning& tuning);
/// Decodes a table. Checks the checksum and every field. Errors: wrong_format.
Result<Tuning> decode(std::span<const std::byte> bytes);

// ---- printed as text, one entry a line (tuning_text.cpp)

/// Prints "allreduce ranks=2-4 bytes=0-4144 eager\n...". parse_tuning() gives the same entries.
std::string print(const Tuning& tuning);
std::string print(const TuningEntry& entry);
/// Parses lines that end with a newline or `;`. Text after a # is a comment. Errors:
/// invalid_argument, which names the line, what was found and what is needed.
Result<Tuning> parse_tuning(std::string_view text);

}  // namespace penstock::coll

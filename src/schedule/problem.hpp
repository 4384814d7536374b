// A collective call as one rank knows it, and the plan to run it.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "base/status.hpp"
#include "schedule/collective.hpp"
#include "schedule/node_map.hpp"
#include "schedule/schedule.hpp"

namespace penstock::coll {

/// A part of a buffer that belongs to one rank.
struct Block {
  std::uint64_t offset = 0;
  std::uint64_t bytes = 0;
  bool operator==(const Block&) const = default;
};

/// Sizes are in bytes. A list of blocks has an entry for each rank, in rank order; collective_table
/// says how many blocks each list has.
struct Problem {
  Collective collective = Collective::barrier;
  std::uint32_t ranks = 1;
  std::uint32_t rank = 0;
  std::uint32_t root = 0;
  /// For reductions: bytes of an element; the same on all ranks. No chunk ends within an element.
  std::uint32_t element_bytes = 1;
  std::vector<Block> input, output;
  /// The longest block of any rank, if all ranks know it. Then the last chunks are not released.
  std::optional<std::uint64_t> max_block_bytes;
  /// Input and output are the same memory. For gather, scatter and allgather, the rank's own block
  /// is already at its place in the long buffer. Set on all ranks or, for gather, reduce and
  /// scatter, only on the root.
  bool in_place = false;
  bool operator==(const Problem&) const = default;
};

enum class Algorithm : std::uint8_t {
  one_shot,  ///< each rank reads all that it needs from the ranks that have it
  two_shot,  ///< reductions: each rank reduces its share, then the others read the result
  /// Ranks of a node read disjoint shares of other nodes' data, and forward them to each other. For
  /// allgather, broadcast, and (on the results of two_shot) allreduce.
  two_level,
  leaders,  ///< like two_level, but a node's first rank reads all for it; barrier: a tree
};
/// All algorithms, in the order of the enum, for tables and for tuning.
inline constexpr std::array all_algorithms{Algorithm::one_shot, Algorithm::two_shot,
                                           Algorithm::two_level, Algorithm::leaders};
const char* name_of(Algorithm algorithm);
/// Whether build() has the algorithm for the collective. `nodes`: the nodes of the ranks are known.
bool has_algorithm(Collective collective, Algorithm algorithm, bool nodes);

/// How far publishing and reading may overlap: CCCL's comparison (section 5, "variants").
enum class Variant : std::uint8_t {
  all,        ///< each chunk has a doorbell, and readers follow the writers
  aggregate,  ///< readers wait until all is published or all slots are full
  naive,      ///< like aggregate, with the chunks of all ranks on one device (placement.hpp)
};
/// Like all_algorithms.
inline constexpr std::array all_variants{Variant::all, Variant::aggregate, Variant::naive};
const char* name_of(Variant variant);

/// Plan::scratch_from, unless another is asked for.
inline constexpr std::uint64_t default_scratch_from = 256 << 10;

/// The same on all ranks.
struct Plan {
  Algorithm algorithm = Algorithm::one_shot;
  Variant variant = Variant::all;
  std::uint64_t slot_bytes = 1 << 18;  ///< room for a chunk in a slot
  std::uint32_t slots = 4;             ///< of each rank: at least 2 (one_shot) or 4
  /// The number of chunks of the longest block; more if a chunk would not fit a slot. 0: as few as
  /// fit. Must be 0 if some rank does not know the longest block.
  std::uint32_t chunks = 0;
  /// Devices over which chunks alternate (placement.hpp). The communicator chooses it.
  std::uint32_t devices = 1;
  /// For broadcast: readers take turns. The k-th rank after the root reads a chunk when the k-th
  /// chunk after it is announced, so no two ranks read the same chunk at once.
  bool turns = false;
  /// One chunk in tagged lines, which need no doorbell and no release. All blocks must fit one part
  /// of a slot.
  bool eager = false;
  /// A switch that computes runs the call, if the communicator has one and it can. The other fields
  /// describe the call through the plain pool.
  bool in_switch = false;
  /// Where a GPU reduces: chunks of at least so many bytes go by way of its scratch memory.
  std::uint64_t scratch_from = default_scratch_from;
  bool operator==(const Plan&) const = default;
};

/// Builds the steps of rank `problem.rank`. Every rank builds its own list from its own data.
///
///     Problem problem{.collective = Collective::allgather, .ranks = 2, .rank = 0, ...};
///     const auto schedule = build(problem, {});
///
/// Errors: invalid_argument, if the plan or the problem is impossible: too few slots, a slot
/// shorter than one element for each rank, an algorithm that the collective does not have, blocks
/// that do not fit the table, or a reduction's block that ends within an element.
/// `nodes`: the nodes of the ranks, the same on all ranks. two_level and leaders need it.
Result<Schedule> build(const Problem& problem, const Plan& plan, const NodeMap& nodes = {});

}  // namespace penstock::coll

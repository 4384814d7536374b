// A call of a collective, as one rank knows it, and how it is to be done.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "base/status.hpp"
#include "coll/node_map.hpp"
#include "coll/schedule.hpp"

namespace penstock::coll {

enum class Collective : std::uint8_t {
  barrier,
  broadcast,
  gather,
  scatter,
  allgather,
  alltoall,
  reduce,
  reduce_scatter,
  allreduce,
  scan,    ///< rank r gets the reduction of ranks 0 to r
  exscan,  ///< of ranks 0 to r - 1; rank 0 gets nothing
};
inline constexpr std::size_t collective_count = 11;
const char* name_of(Collective collective);

/// A part of a buffer that belongs to one rank.
struct Block {
  std::uint64_t offset = 0;
  std::uint64_t bytes = 0;
  bool operator==(const Block&) const = default;
};

/// Sizes are bytes. Where a list is asked for it has an entry for each rank, in rank order.
///
/// | collective | input | output |
/// |---|---|---|
/// | broadcast | root: one block | others: one block |
/// | gather | one block | root: a block of each rank |
/// | scatter | root: a block for each rank | one block |
/// | allgather | one block | a block of each rank |
/// | alltoall | a block for each rank | a block of each rank |
/// | reduce | one block | root: one block |
/// | reduce_scatter | a block for each rank | one block |
/// | allreduce, scan, exscan | one block | one block |
struct Problem {
  Collective collective = Collective::barrier;
  std::uint32_t ranks = 1;
  std::uint32_t rank = 0;
  std::uint32_t root = 0;
  /// Reductions: of an element; the same on all ranks. No chunk ends within one.
  std::uint32_t element_bytes = 1;
  std::vector<Block> input, output;
  /// The longest block of any rank, where all ranks know it. Then the last chunks are not released.
  std::optional<std::uint64_t> max_block_bytes;
  /// Input and output are the same memory. For gather, scatter and allgather: the rank's own block
  /// lies in its place in the long buffer already. All ranks (gather, reduce, scatter: the root).
  bool in_place = false;
  bool operator==(const Problem&) const = default;
};

enum class Algorithm : std::uint8_t {
  one_shot,  ///< each rank reads all that it needs from those who have it
  two_shot,  ///< reductions: each rank reduces its share, then the others read the result
  /// Ranks of a node read disjoint shares of what other nodes have, and hand them to each other.
  /// Allgather, broadcast; allreduce: of the results of two_shot.
  two_level,
  leaders,  ///< as two_level, but the first rank of a node reads all for it; barrier: by a tree
};
/// All of them, in the order of the enum: what can be named in a table, and what is tried.
inline constexpr std::array all_algorithms{Algorithm::one_shot, Algorithm::two_shot,
                                           Algorithm::two_level, Algorithm::leaders};
const char* name_of(Algorithm algorithm);
/// Whether build() knows the algorithm for the collective. `nodes`: those of the ranks are told.
bool has_algorithm(Collective collective, Algorithm algorithm, bool nodes);

/// When publication and reading may overlap, CCCL's comparison (section 5, "variants").
enum class Variant : std::uint8_t {
  all,        ///< chunks with a doorbell each; a reader follows the writers
  aggregate,  ///< nothing is read before all is published, as far as the slots reach
  naive,      ///< as aggregate, with the chunks of all ranks on one device (placement.hpp)
};
/// As all_algorithms.
inline constexpr std::array all_variants{Variant::all, Variant::aggregate, Variant::naive};
const char* name_of(Variant variant);

/// The same on all ranks.
struct Plan {
  Algorithm algorithm = Algorithm::one_shot;
  Variant variant = Variant::all;
  std::uint64_t slot_bytes = 1 << 18;  ///< of a slot: what a chunk may take
  std::uint32_t slots = 4;             ///< of each rank, at least 2 (one_shot) or 4
  /// Into how many chunks the longest block is cut, or more where a chunk must fit a slot. 0: as
  /// few as fit. Not where ranks do not know the longest block.
  std::uint32_t chunks = 0;
  /// That chunks go round (placement.hpp). A communicator chooses it.
  std::uint32_t devices = 1;
  /// Broadcast: readers take turns. The k-th behind the root takes a chunk when the k-th after it
  /// is announced, so that no two read the same one at once.
  bool turns = false;
  /// One chunk, in tagged lines, which prove themselves: no doorbell, no release. All blocks fit
  /// one part of a slot.
  bool eager = false;
  /// A switch that computes does it, where the communicator has one and it can; all else says how
  /// the plain pool does it otherwise.
  bool in_switch = false;
  bool operator==(const Plan&) const = default;
};

/// What `problem.rank` does. Every rank builds its own list from what it knows itself.
///
///     Problem problem{.collective = Collective::allgather, .ranks = 2, .rank = 0, ...};
///     const auto schedule = build(problem, {});
///
/// Errors: invalid_argument, where the plan or the problem cannot be: too few slots, a slot shorter
/// than an element for each rank, an algorithm that the collective does not have, blocks that do
/// not fit the table, a block that ends within an element of a reduction.
/// `nodes`: of the ranks; the same on all. two_level and leaders need it.
Result<Schedule> build(const Problem& problem, const Plan& plan, const NodeMap& nodes = {});

}  // namespace penstock::coll

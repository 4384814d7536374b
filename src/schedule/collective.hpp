// The collectives, one row of a table each: blocks, operands and names. Schedules, checks, the
// model and the plug-ins take them from here.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

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
  exscan,  ///< rank r gets the reduction of ranks 0 to r - 1; rank 0 gets nothing
};

/// How many blocks a buffer of a rank has. "Each": a block for each rank, in rank order.
enum class Blocks : std::uint8_t { none, one, each, root_one, root_each, others_one };

/// The ranks whose operands make up a rank's result.
enum class Operands : std::uint8_t {
  none,     ///< data is only moved
  of_all,   ///< all ranks
  at_root,  ///< at the root all ranks, elsewhere none
  up_to_own,
  before_own,
};

struct CollectiveRow {
  Collective collective;
  const char* name;
  Blocks input, output;
  Operands operands = Operands::none;
};

/// In the order of the enumeration. The numbers are also those of penstock_collective_t.
inline constexpr std::array collective_table = {
    CollectiveRow{Collective::barrier, "barrier", Blocks::none, Blocks::none},
    CollectiveRow{Collective::broadcast, "broadcast", Blocks::root_one, Blocks::others_one},
    CollectiveRow{Collective::gather, "gather", Blocks::one, Blocks::root_each},
    CollectiveRow{Collective::scatter, "scatter", Blocks::root_each, Blocks::one},
    CollectiveRow{Collective::allgather, "allgather", Blocks::one, Blocks::each},
    CollectiveRow{Collective::alltoall, "alltoall", Blocks::each, Blocks::each},
    CollectiveRow{Collective::reduce, "reduce", Blocks::one, Blocks::root_one, Operands::at_root},
    CollectiveRow{Collective::reduce_scatter, "reduce_scatter", Blocks::each, Blocks::one,
                  Operands::of_all},
    CollectiveRow{Collective::allreduce, "allreduce", Blocks::one, Blocks::one, Operands::of_all},
    CollectiveRow{Collective::scan, "scan", Blocks::one, Blocks::one, Operands::up_to_own},
    CollectiveRow{Collective::exscan, "exscan", Blocks::one, Blocks::one, Operands::before_own},
};
inline constexpr std::size_t collective_count = collective_table.size();

constexpr const CollectiveRow& row_of(Collective collective) {
  return collective_table[static_cast<std::size_t>(collective)];
}

static_assert(
    [] {
      for (std::size_t i = 0; i < collective_count; ++i)
        if (row_of(static_cast<Collective>(i)).collective != static_cast<Collective>(i))
          return false;
      return true;
    }(),
    "collective_table has a row for each Collective, in that order");

constexpr const char* name_of(Collective collective) {
  return row_of(collective).name;
}

constexpr bool is_reduction(Collective collective) {
  return row_of(collective).operands != Operands::none;
}

/// Whether the root alone has input.
constexpr bool begins_at_root(Collective collective) {
  const Blocks input = row_of(collective).input;
  return input == Blocks::root_one || input == Blocks::root_each;
}

/// Whether the root alone has output.
constexpr bool ends_at_root(Collective collective) {
  const Blocks output = row_of(collective).output;
  return output == Blocks::root_one || output == Blocks::root_each;
}

constexpr bool has_root(Collective collective) {
  return begins_at_root(collective) || ends_at_root(collective);
}

/// Whether a rank has a block for each other rank.
constexpr bool spreads(Collective collective) {
  const Blocks input = row_of(collective).input;
  return input == Blocks::each || input == Blocks::root_each;
}

/// Whether every rank has a block for each other rank.
constexpr bool all_spread(Collective collective) {
  return row_of(collective).input == Blocks::each;
}

/// Whether a rank gets a block from each other rank.
constexpr bool gathers(Collective collective) {
  const Blocks output = row_of(collective).output;
  return output == Blocks::each || output == Blocks::root_each;
}

constexpr std::uint32_t block_count(Blocks blocks, bool is_root, std::uint32_t ranks) {
  switch (blocks) {
    case Blocks::none:
      return 0;
    case Blocks::one:
      return 1;
    case Blocks::each:
      return ranks;
    case Blocks::root_one:
      return is_root ? 1 : 0;
    case Blocks::root_each:
      return is_root ? ranks : 0;
    case Blocks::others_one:
      return is_root ? 0 : 1;
  }
  return 0;
}

/// The operands of the result of `rank` are those of ranks 0 to this number - 1.
constexpr std::uint32_t operand_count(Collective collective, std::uint32_t rank, std::uint32_t root,
                                      std::uint32_t ranks) {
  switch (row_of(collective).operands) {
    case Operands::none:
      return 0;
    case Operands::of_all:
      return ranks;
    case Operands::at_root:
      return rank == root ? ranks : 0;
    case Operands::up_to_own:
      return rank + 1;
    case Operands::before_own:
      return rank;
  }
  return 0;
}

}  // namespace penstock::coll

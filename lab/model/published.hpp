// CCCL's schedules as the paper gives them, where the engine's differ: for comparison, and to
// reproduce its emulator. All of a buffer is in the pool at once, in as many chunks as asked for;
// one stream writes them and another reads them. Source: CCCL, sections 3 and 4, Listing 3, Figure
// 5. The paper does not print the order of reads for all collectives.
#pragma once

#include <vector>

#include "schedule/problem.hpp"

namespace penstock::model {

/// The order in which a rank reads the producers, if all ranks write and read.
enum class ReadOrder : std::uint8_t {
  after,  ///< rank + 1, rank + 2, ...: the order in which it writes; that of CCCL's emulator
  before  ///< rank - 1, rank - 2, ...: the order in which the writers reach its segment
};

/// The schedules of all ranks for allreduce (one shot), alltoall or broadcast (root 0; reader r
/// begins with chunk r - 1) of `bytes` a rank, with `chunks` chunks in each buffer or segment. They
/// need as many slots as a rank has chunks. Errors: invalid_argument for other collectives.
Result<std::vector<coll::Schedule>> published(coll::Collective collective, std::uint32_t ranks,
                                              std::uint64_t bytes, std::uint32_t chunks,
                                              ReadOrder order);

}  // namespace penstock::model

// CCCL's schedules as the paper has them, where the engine's are others: for comparison, and to
// reproduce its emulator. All of a buffer is in the pool at once, in as many chunks as asked for,
// which are written by one stream and read by another one. Source: CCCL, sections 3 and 4, Listing
// 3, Figure 5; the order of reads is not printed for all (papers/4-collectives.md, 4.4 and 4.9).
#pragma once

#include <vector>

#include "coll/problem.hpp"

namespace penstock::model {

/// Which producer a rank reads first, where all write and read.
enum class ReadOrder : std::uint8_t {
  after,  ///< rank + 1, rank + 2, ...: the order in which it writes; that of CCCL's emulator
  before  ///< rank - 1, rank - 2, ...: as the writers come to it
};

/// The schedules of all ranks for allreduce (one shot), alltoall or broadcast (root 0; reader r
/// begins with chunk r - 1) of `bytes` a rank, `chunks` of each buffer or segment. They need as
/// many slots as a rank has chunks. Errors: invalid_argument, for other collectives.
Result<std::vector<coll::Schedule>> published(coll::Collective collective, std::uint32_t ranks,
                                              std::uint64_t bytes, std::uint32_t chunks,
                                              ReadOrder order);

}  // namespace penstock::model

#include "deferred_reduction.hpp"

#include <algorithm>
#include <array>

namespace penstock::mpi {

using coll::Arithmetic;
using coll::Collective;
using coll::Problem;

namespace {

constexpr std::uint64_t room_bytes = 64 << 20;

/// The collective that delivers to each rank the operands of its result.
Collective movement_of(Collective reduction) {
  if (coll::spreads(reduction)) return Collective::alltoall;
  return coll::ends_at_root(reduction) ? Collective::gather : Collective::allgather;
}

}  // namespace

bool DeferredReduction::fits(const Problem& reduction) {
  return *reduction.max_block_bytes <= room_bytes / reduction.ranks;
}

DeferredReduction::DeferredReduction(const Problem& reduction)
    : movement_{.collective = movement_of(reduction.collective),
                .ranks = reduction.ranks,
                .rank = reduction.rank,
                .root = reduction.root,
                .input = reduction.input,
                .max_block_bytes = reduction.max_block_bytes},
      count_(coll::operand_count(reduction.collective, reduction.rank, reduction.root,
                                 reduction.ranks)) {
  if (reduction.output.empty()) return;
  result_ = reduction.output.front();
  operands_.resize(result_.bytes * reduction.ranks);
  for (std::uint32_t rank = 0; rank < reduction.ranks; ++rank)
    movement_.output.push_back({rank * result_.bytes, result_.bytes});
}

void DeferredReduction::reduce(const Arithmetic& arithmetic, std::byte* output) const {
  alignas(64) std::array<std::byte, coll::Reduction::accumulator_bytes> accumulator;
  const std::size_t piece = arithmetic.piece_bytes();
  for (std::uint64_t at = 0; count_ != 0 && at < result_.bytes; at += piece) {
    const std::size_t bytes = std::min<std::uint64_t>(piece, result_.bytes - at);
    arithmetic.first(accumulator.data(), operands_.data() + at, bytes);
    for (std::uint32_t rank = 1; rank < count_; ++rank)
      arithmetic.add(accumulator.data(), operands_.data() + rank * result_.bytes + at, bytes);
    arithmetic.finish(output + result_.offset + at, accumulator.data(), bytes);
  }
}

}  // namespace penstock::mpi

#include "capi/reading_calls.hpp"

#include <algorithm>
#include <cstring>
#include <iterator>
#include <utility>

#include "base/checked.hpp"
#include "base/checksum.hpp"
#include "base/format.hpp"

namespace penstock::capi {

namespace {

using coll::Collective;

constexpr std::pair<penstock_collective_t, Collective> numbers[] = {
    {PENSTOCK_BARRIER, Collective::barrier},
    {PENSTOCK_BROADCAST, Collective::broadcast},
    {PENSTOCK_GATHER, Collective::gather},
    {PENSTOCK_SCATTER, Collective::scatter},
    {PENSTOCK_ALLGATHER, Collective::allgather},
    {PENSTOCK_ALLTOALL, Collective::alltoall},
    {PENSTOCK_REDUCE, Collective::reduce},
    {PENSTOCK_REDUCE_SCATTER, Collective::reduce_scatter},
    {PENSTOCK_ALLREDUCE, Collective::allreduce},
    {PENSTOCK_SCAN, Collective::scan},
    {PENSTOCK_EXSCAN, Collective::exscan},
};
static_assert(std::size(numbers) == coll::collective_count &&
                  std::all_of(std::begin(numbers), std::end(numbers),
                              [](const auto& pair) {
                                return static_cast<int>(pair.first) ==
                                       static_cast<int>(pair.second);
                              }),
              "penstock_collective_t has the numbers of Collective");

Result<Collective> read_collective(std::int32_t number) {
  if (number >= 0 && static_cast<std::size_t>(number) < coll::collective_count)
    return static_cast<Collective>(number);
  return fail(
      ErrorCode::invalid_argument,
      "collective {} does not exist: those of penstock_collective_t do, 0 (PENSTOCK_BARRIER) "
      "to {}",
      number, coll::collective_count - 1);
}

Result<void> read_blocks(const penstock_block_t* blocks, std::uint32_t count, const char* side,
                         std::vector<coll::Block>& into) {
  if (blocks == nullptr && count != 0)
    return fail(ErrorCode::invalid_argument, "{} {} blocks, and no list of them", count, side);
  into.clear();
  for (std::uint32_t i = 0; i < count; ++i) {
    if (!base::range_inside(blocks[i].offset, blocks[i].bytes, std::uint64_t{1} << 62))
      return fail(ErrorCode::invalid_argument, "{} block {} has {} bytes at offset {}", side, i,
                  blocks[i].bytes, blocks[i].offset);
    into.push_back({blocks[i].offset, blocks[i].bytes});
  }
  return {};
}

}  // namespace

Result<coll::Reduction> read_reduction(const penstock_call_t& call, std::uint32_t ranks) {
  if (call.datatype < 0 || call.datatype >= static_cast<std::int32_t>(coll::datatype_count))
    return fail(ErrorCode::invalid_argument,
                "datatype {} does not exist: PENSTOCK_INT8 (0) to "
                "PENSTOCK_BOOLEAN (14) do",
                call.datatype);
  if (call.operation < 0 || call.operation >= static_cast<std::int32_t>(coll::operation_count))
    return fail(ErrorCode::invalid_argument,
                "operation {} does not exist: PENSTOCK_SUM (0) to "
                "PENSTOCK_LOGICAL_XOR (11) do",
                call.operation);
  return coll::Reduction::make(static_cast<coll::Datatype>(call.datatype),
                               static_cast<coll::Operation>(call.operation), ranks);
}

Result<void> read_problem(const penstock_call_t& call, const coll::Communicator& core,
                          coll::Problem& problem) {
  problem.collective = PENSTOCK_TRY(read_collective(call.collective));
  problem.ranks = core.ranks();
  problem.rank = core.self();
  if (call.root >= core.ranks())
    return fail(ErrorCode::invalid_argument, "root {} of {} ranks", call.root, core.ranks());
  problem.root = call.root;
  problem.element_bytes = 1;
  if (is_reduction(problem.collective))
    problem.element_bytes = coll::bytes_of(PENSTOCK_TRY(read_reduction(call, core.ranks())).type());
  problem.in_place = call.input == call.output && call.input != nullptr;
  problem.max_block_bytes.reset();
  if (call.max_is_known != 0) problem.max_block_bytes = call.max_block_bytes;
  PENSTOCK_TRY(read_blocks(call.input_blocks, call.input_count, "input", problem.input));
  return read_blocks(call.output_blocks, call.output_count, "output", problem.output);
}

std::uint64_t fingerprint_of(const coll::Problem& problem, const penstock_call_t& call) {
  if (!is_reduction(problem.collective)) return 0;
  const bool has_factor = call.operation == PENSTOCK_PREMULTIPLIED_SUM;
  return coll::reduction_word(static_cast<coll::Datatype>(call.datatype),
                              static_cast<coll::Operation>(call.operation),
                              has_factor ? base::xxh64(&call.factor, sizeof call.factor, 0) : 0);
}

}  // namespace penstock::capi

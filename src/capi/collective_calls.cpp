// penstock_comm_*: collectives between the processes of a pool.
#include <algorithm>
#include <cstring>
#include <variant>

#include "base/checked.hpp"
#include "base/checksum.hpp"
#include "base/format.hpp"
#include "capi/comm.hpp"
#include "capi/options.hpp"
#include "capi/outcome.hpp"

namespace penstock::capi {

namespace {

using coll::Collective;

using Arithmetic =
    std::variant<std::monostate, coll::PredefinedArithmetic, coll::PremultipliedArithmetic>;

bool is_reduction(Collective collective) {
  return collective >= Collective::reduce;
}

Result<Collective> read_collective(std::int32_t number) {
  if (number >= PENSTOCK_BARRIER && number <= PENSTOCK_EXSCAN)
    return static_cast<Collective>(number);
  return fail(ErrorCode::invalid_argument,
              "collective {} does not exist: PENSTOCK_BARRIER (0) to "
              "PENSTOCK_EXSCAN (10) do",
              number);
}

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

Result<Arithmetic> read_arithmetic(const penstock_call_t& call, std::uint32_t ranks) {
  const auto reduction = PENSTOCK_TRY(read_reduction(call, ranks));
  if (reduction.operation() != coll::Operation::premultiplied_sum)
    return Arithmetic(coll::PredefinedArithmetic(reduction));
  return Arithmetic(PENSTOCK_TRY(coll::PremultipliedArithmetic::make(reduction, call.factor)));
}

const coll::Arithmetic* pointer_to(const Arithmetic& arithmetic) {
  if (const auto* premultiplied = std::get_if<coll::PremultipliedArithmetic>(&arithmetic))
    return premultiplied;
  return std::get_if<coll::PredefinedArithmetic>(&arithmetic);
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

Result<void> fill_problem(const penstock_call_t& call, const coll::Communicator& core,
                          coll::Problem& problem) {
  problem.collective = PENSTOCK_TRY(read_collective(call.collective));
  problem.ranks = core.ranks();
  problem.rank = core.self();
  if (call.root >= core.ranks())
    return fail(ErrorCode::invalid_argument, "root {} of {} ranks", call.root, core.ranks());
  problem.root = call.root;
  problem.element_bytes = 1;
  problem.in_place = call.input == call.output && call.input != nullptr;
  problem.max_block_bytes.reset();
  if (call.max_is_known != 0) problem.max_block_bytes = call.max_block_bytes;
  PENSTOCK_TRY(read_blocks(call.input_blocks, call.input_count, "input", problem.input));
  return read_blocks(call.output_blocks, call.output_count, "output", problem.output);
}

/// Of what the ranks of a reduction must agree on, but for its size.
std::uint64_t fingerprint_of(const coll::Problem& problem, const penstock_call_t& call) {
  if (!is_reduction(problem.collective)) return 0;
  std::uint64_t factor = 0;
  std::memcpy(&factor, &call.factor, sizeof factor);
  const bool counts = call.operation == PENSTOCK_PREMULTIPLIED_SUM;
  const std::uint64_t parts[] = {static_cast<std::uint64_t>(call.datatype),
                                 static_cast<std::uint64_t>(call.operation), counts ? factor : 0};
  return base::xxh64(parts, sizeof parts, 0);
}

Result<void> run(penstock_comm& comm, const penstock_call_t& call) {
  PENSTOCK_TRY(fill_problem(call, *comm.core, comm.problem));
  Arithmetic arithmetic;
  if (is_reduction(comm.problem.collective)) {
    arithmetic = PENSTOCK_TRY(read_arithmetic(call, comm.core->ranks()));
    comm.problem.element_bytes = coll::bytes_of(static_cast<coll::Datatype>(call.datatype));
  }
  return comm.core->run(
      {.name = call.name != nullptr ? call.name : name_of(comm.problem.collective),
       .problem = &comm.problem,
       .plan = comm.core->plan(comm.problem),
       .input = static_cast<const std::byte*>(call.input),
       .output = static_cast<std::byte*>(call.output),
       .arithmetic = pointer_to(arithmetic),
       .fingerprint = fingerprint_of(comm.problem, call),
       .timeout_ns = call.timeout_ns,
       .cancelled = call.cancelled});
}

}  // namespace

}  // namespace penstock::capi

using namespace penstock;

extern "C" {

penstock_status_t penstock_comm_open(penstock_pool_t* pool, const penstock_comm_options_t* options,
                                     penstock_comm_t** comm) {
  return capi::guarded([&] {
    if (comm == nullptr)
      return capi::report(ErrorCode::invalid_argument, "no place for the handle");
    *comm = nullptr;
    if (pool == nullptr || options == nullptr)
      return capi::report(ErrorCode::invalid_argument, "the pool or the options are NULL");
    const auto given = capi::read_options(options);
    if (!given) return capi::report(given.error());
    auto opened = capi::open_comm(pool->attachment, *given);
    if (!opened) return capi::report(opened.error());
    *comm = opened->release();
    return PENSTOCK_OK;
  });
}

uint64_t penstock_comm_token(const penstock_comm_t* comm, uint32_t rank) {
  return comm != nullptr && rank < comm->tokens.size() ? comm->tokens[rank] : 0;
}

void penstock_comm_close(penstock_comm_t* comm) {
  capi::guarded([&] {
    if (comm != nullptr) capi::close_comm(std::unique_ptr<penstock_comm>(comm));
    return PENSTOCK_OK;
  });
}

penstock_status_t penstock_comm_run(penstock_comm_t* comm, const penstock_call_t* call) {
  return capi::guarded([&] {
    if (comm == nullptr || call == nullptr)
      return capi::report(ErrorCode::invalid_argument, "the communicator or the call is NULL");
    const auto given = capi::read_options(call);
    if (!given) return capi::report(given.error());
    return capi::report(capi::run(*comm, *given));
  });
}

}  // extern "C"

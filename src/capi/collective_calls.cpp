// penstock_comm_*: collectives between the processes of a pool.
#include <variant>

#include "capi/comm.hpp"
#include "capi/options.hpp"
#include "capi/outcome.hpp"
#include "capi/reading_calls.hpp"

namespace penstock::capi {

namespace {

using Arithmetic =
    std::variant<std::monostate, coll::PredefinedArithmetic, coll::PremultipliedArithmetic>;

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

Result<void> run(penstock_comm& comm, const penstock_call_t& call) {
  if (comm.gpu != nullptr) PENSTOCK_TRY(comm.gpu->drain());
  PENSTOCK_TRY(read_problem(call, *comm.core, comm.problem));
  Arithmetic arithmetic;
  if (is_reduction(comm.problem.collective))
    arithmetic = PENSTOCK_TRY(read_arithmetic(call, comm.core->ranks()));
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
  if (comm != nullptr) *comm = nullptr;
  return capi::use(pool, [&](const penstock_pool& handle) -> Result<void> {
    if (comm == nullptr || options == nullptr)
      return fail(ErrorCode::invalid_argument, "the options or the handle's place is NULL");
    const auto given = PENSTOCK_TRY(capi::read_options(options));
    *comm = PENSTOCK_TRY(capi::open_comm(handle.attachment, given)).release();
    return {};
  });
}

uint64_t penstock_comm_token(const penstock_comm_t* comm, uint32_t rank) {
  std::uint64_t token = 0;
  capi::use(comm, [&](const penstock_comm& handle) {
    if (rank < handle.tokens.size()) token = handle.tokens[rank];
    return PENSTOCK_OK;
  });
  return token;
}

void penstock_comm_close(penstock_comm_t* comm) {
  capi::Handle::close(comm);
}

penstock_status_t penstock_comm_run(penstock_comm_t* comm, const penstock_call_t* call) {
  return capi::use(comm, [&](penstock_comm& handle) -> Result<void> {
    if (call == nullptr) return fail(ErrorCode::invalid_argument, "the call is NULL");
    return capi::run(handle, PENSTOCK_TRY(capi::read_options(call)));
  });
}

}  // extern "C"

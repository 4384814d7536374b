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

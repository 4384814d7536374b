// Put, get and accumulate, also in their forms with a request or with large counts. An operation on
// one of our windows is complete when the call returns, so its request is complete too.
#include "atomic_order.hpp"
#include "export.hpp"
#include "rma_operations.hpp"

namespace {

using namespace penstock::mpi;

/// Stores a completed request: that of a message to MPI_PROC_NULL.
MpiResult<int> completed(const PoolWindow& window, const MpiResult<void>& done, void* request) {
  if (!done) return penstock::unexpected(done.error());
  const Constants& mpi = constants();
  return pmpi().Isend(nullptr, 0, mpi.byte, mpi.proc_null, 0, window.self, request);
}

/// Makes the Buffer of an origin, which is never written.
Buffer buffer(const void* at, Count count, Handle type) {
  return {const_cast<void*>(at), count, incoming(type)};  // NOLINT
}

Target aim(int rank, Aint disp, Count count, Handle type) {
  return {rank, disp, count, incoming(type)};
}

MpiResult<void> fetch(PoolWindow& window, const Buffer& origin, const Buffer& result,
                      const Target& target, Handle op) {
  return accumulate(window, origin, &result, target, op);
}

}  // namespace

/// Defines an atomic operation. Its result may tell this rank that new data are ready
/// (atomic_order.hpp).
#define ATOMIC_CALL_OR(name, parameters, arguments, pass, ...)                          \
  PENSTOCK_WINDOW_QUESTION_OR(name, parameters, arguments, pass, in_order([&] {         \
                                return finish_on(*window, [&] { return __VA_ARGS__; }); \
                              }))

// Argument lists of these calls; N is int or Count.
#define FROM(N) const void *origin, N origin_count, Handle origin_type
#define INTO(N) void *origin, N origin_count, Handle origin_type
#define RESULT(N) void *result, N result_count, Handle result_type
#define AT(N) int rank, Aint disp, N count, Handle type
#define ORIGIN origin, origin_count, origin_type
#define TARGET rank, disp, count, type
#define OLD result, result_count, result_type

#define PENSTOCK_DATA_CALLS(N, C, PASS)                                                            \
  PENSTOCK_WINDOW_CALL_OR(Put##C, (FROM(N), AT(N), Handle win), (ORIGIN, TARGET, win),             \
                          PASS(Put, (ORIGIN, TARGET, win), origin_count, count),                   \
                          put(*window, buffer(ORIGIN), aim(TARGET)));                              \
  PENSTOCK_WINDOW_CALL_OR(Get##C, (INTO(N), AT(N), Handle win), (ORIGIN, TARGET, win),             \
                          PASS(Get, (ORIGIN, TARGET, win), origin_count, count),                   \
                          get(*window, buffer(ORIGIN), aim(TARGET)));                              \
  PENSTOCK_WINDOW_CALL_OR(Rput##C, (FROM(N), AT(N), Handle win, void* request),                    \
                          (ORIGIN, TARGET, win, request),                                          \
                          PASS(Rput, (ORIGIN, TARGET, win, request), origin_count, count),         \
                          completed(*window, put(*window, buffer(ORIGIN), aim(TARGET)), request)); \
  PENSTOCK_WINDOW_CALL_OR(Rget##C, (INTO(N), AT(N), Handle win, void* request),                    \
                          (ORIGIN, TARGET, win, request),                                          \
                          PASS(Rget, (ORIGIN, TARGET, win, request), origin_count, count),         \
                          completed(*window, get(*window, buffer(ORIGIN), aim(TARGET)), request)); \
  PENSTOCK_WINDOW_CALL_OR(                                                                         \
      Accumulate##C, (FROM(N), AT(N), Handle op, Handle win), (ORIGIN, TARGET, op, win),           \
      PASS(Accumulate, (ORIGIN, TARGET, op, win), origin_count, count),                            \
      accumulate(*window, buffer(ORIGIN), nullptr, aim(TARGET), incoming(op)));                    \
  PENSTOCK_WINDOW_CALL_OR(                                                                         \
      Raccumulate##C, (FROM(N), AT(N), Handle op, Handle win, void* request),                      \
      (ORIGIN, TARGET, op, win, request),                                                          \
      PASS(Raccumulate, (ORIGIN, TARGET, op, win, request), origin_count, count),                  \
      completed(*window, accumulate(*window, buffer(ORIGIN), nullptr, aim(TARGET), incoming(op)),  \
                request));                                                                         \
  ATOMIC_CALL_OR(                                                                                  \
      Get_accumulate##C, (FROM(N), RESULT(N), AT(N), Handle op, Handle win),                       \
      (ORIGIN, OLD, TARGET, op, win),                                                              \
      PASS(Get_accumulate, (ORIGIN, OLD, TARGET, op, win), origin_count, result_count, count),     \
      fetch(*window, buffer(ORIGIN), buffer(OLD), aim(TARGET), incoming(op)));                     \
  ATOMIC_CALL_OR(                                                                                  \
      Rget_accumulate##C, (FROM(N), RESULT(N), AT(N), Handle op, Handle win, void* request),       \
      (ORIGIN, OLD, TARGET, op, win, request),                                                     \
      PASS(Rget_accumulate, (ORIGIN, OLD, TARGET, op, win, request), origin_count, result_count,   \
           count),                                                                                 \
      completed(*window, fetch(*window, buffer(ORIGIN), buffer(OLD), aim(TARGET), incoming(op)),   \
                request))

#define PASS_PLAIN(name, arguments, ...) PENSTOCK_PASS(name, arguments)
#define PASS_LARGE(name, arguments, ...) PENSTOCK_PASS_LARGE(name##_c, name, arguments, __VA_ARGS__)

PENSTOCK_DATA_CALLS(int, , PASS_PLAIN);
PENSTOCK_DATA_CALLS(Count, _c, PASS_LARGE);

ATOMIC_CALL_OR(Fetch_and_op,
               (const void* origin, void* result, Handle type, int rank, Aint disp, Handle op,
                Handle win),
               (origin, result, type, rank, disp, op, win),
               PENSTOCK_PASS(Fetch_and_op, (origin, result, type, rank, disp, op, win)),
               fetch_and_op(*window, buffer(origin, 1, type), buffer(result, 1, type),
                            aim(rank, disp, 1, type), incoming(op)));

ATOMIC_CALL_OR(Compare_and_swap,
               (const void* origin, const void* compare, void* result, Handle type, int rank,
                Aint disp, Handle win),
               (origin, compare, result, type, rank, disp, win),
               PENSTOCK_PASS(Compare_and_swap, (origin, compare, result, type, rank, disp, win)),
               compare_and_swap(*window, origin, compare, result, aim(rank, disp, 1, type)));

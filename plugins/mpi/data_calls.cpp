// Put, get and accumulate, with their forms that give a request and those with large counts. An
// operation on a window of ours is finished when the call returns, so requests are complete ones.
#include "export.hpp"
#include "transfer.hpp"

namespace {

using namespace penstock::mpi;

/// A request that is complete: of a message to nobody.
int completed(int status, void* request) {
  const Constants& mpi = constants();
  if (status != mpi.success) return status;
  return real().Isend(nullptr, 0, mpi.byte, mpi.proc_null, 0, mpi.comm_self, request);
}

/// Of an origin a Buffer is only read.
Buffer buffer(const void* at, Count count, Handle type) {
  return {const_cast<void*>(at), count, incoming(type)};  // NOLINT
}

Target aim(int rank, Aint disp, Count count, Handle type) {
  return {rank, disp, count, incoming(type)};
}

int fetch(PoolWindow& window, const Buffer& origin, const Buffer& result, const Target& target,
          Handle op) {
  return accumulate(window, origin, &result, target, op);
}

}  // namespace

// Their argument lists, with int or Count for N.
#define FROM(N) const void *origin, N origin_count, Handle origin_type
#define INTO(N) void *origin, N origin_count, Handle origin_type
#define RESULT(N) void *result, N result_count, Handle result_type
#define AT(N) int rank, Aint disp, N count, Handle type
#define ORIGIN origin, origin_count, origin_type
#define TARGET rank, disp, count, type
#define OLD result, result_count, result_type

#define PENSTOCK_DATA_CALLS(N, C)                                                                \
  PENSTOCK_WINDOW_CALL(Put##C, (FROM(N), AT(N), Handle win), (ORIGIN, TARGET, win),              \
                       put(*window, buffer(ORIGIN), aim(TARGET)));                               \
  PENSTOCK_WINDOW_CALL(Get##C, (INTO(N), AT(N), Handle win), (ORIGIN, TARGET, win),              \
                       get(*window, buffer(ORIGIN), aim(TARGET)));                               \
  PENSTOCK_WINDOW_CALL(Rput##C, (FROM(N), AT(N), Handle win, void* request),                     \
                       (ORIGIN, TARGET, win, request),                                           \
                       completed(put(*window, buffer(ORIGIN), aim(TARGET)), request));           \
  PENSTOCK_WINDOW_CALL(Rget##C, (INTO(N), AT(N), Handle win, void* request),                     \
                       (ORIGIN, TARGET, win, request),                                           \
                       completed(get(*window, buffer(ORIGIN), aim(TARGET)), request));           \
  PENSTOCK_WINDOW_CALL(Accumulate##C, (FROM(N), AT(N), Handle op, Handle win),                   \
                       (ORIGIN, TARGET, op, win),                                                \
                       accumulate(*window, buffer(ORIGIN), nullptr, aim(TARGET), incoming(op))); \
  PENSTOCK_WINDOW_CALL(                                                                          \
      Raccumulate##C, (FROM(N), AT(N), Handle op, Handle win, void* request),                    \
      (ORIGIN, TARGET, op, win, request),                                                        \
      completed(accumulate(*window, buffer(ORIGIN), nullptr, aim(TARGET), incoming(op)),         \
                request));                                                                       \
  PENSTOCK_WINDOW_CALL(Get_accumulate##C, (FROM(N), RESULT(N), AT(N), Handle op, Handle win),    \
                       (ORIGIN, OLD, TARGET, op, win),                                           \
                       fetch(*window, buffer(ORIGIN), buffer(OLD), aim(TARGET), incoming(op)));  \
  PENSTOCK_WINDOW_CALL(                                                                          \
      Rget_accumulate##C, (FROM(N), RESULT(N), AT(N), Handle op, Handle win, void* request),     \
      (ORIGIN, OLD, TARGET, op, win, request),                                                   \
      completed(fetch(*window, buffer(ORIGIN), buffer(OLD), aim(TARGET), incoming(op)), request))

PENSTOCK_DATA_CALLS(int, );
PENSTOCK_DATA_CALLS(Count, _c);

PENSTOCK_WINDOW_CALL(Fetch_and_op,
                     (const void* origin, void* result, Handle type, int rank, Aint disp, Handle op,
                      Handle win),
                     (origin, result, type, rank, disp, op, win),
                     fetch_and_op(*window, origin, result, aim(rank, disp, 1, type), incoming(op)));

PENSTOCK_WINDOW_CALL(Compare_and_swap,
                     (const void* origin, const void* compare, void* result, Handle type, int rank,
                      Aint disp, Handle win),
                     (origin, compare, result, type, rank, disp, win),
                     compare_and_swap(*window, origin, compare, result, aim(rank, disp, 1, type)));

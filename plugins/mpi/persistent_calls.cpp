// The calls that make persistent sends: passed on, with the true beginning of their data where the
// MPI would mistake it (persistent_sends.hpp).
#include "export.hpp"
#include "found.hpp"
#include "persistent_sends.hpp"

using penstock::mpi::Handle;

#define SEND_INIT(name)                                                                          \
  PENSTOCK_MPI(                                                                                  \
      name,                                                                                      \
      (const void* from, int count, Handle type, int rank, int tag, Handle comm, void* request), \
      (from, count, type, rank, tag, comm, request)) {                                           \
    using namespace penstock::mpi;                                                               \
    static constinit Found<int(const void*, int, Handle, int, int, Handle, void*)> found;        \
    auto* const function = found(#name, caller);                                                 \
    if (function == nullptr) return no_function;                                                 \
    TrueBeginnings beginnings;                                                                   \
    std::int64_t behind = 0;                                                                     \
    if (usable(caller) && persistent_sends_begin_early()) behind = beginnings.move(type);        \
    return function(static_cast<const char*>(from) + behind, count, type, rank, tag, comm,       \
                    request);                                                                    \
  }

SEND_INIT(Send_init)
SEND_INIT(Ssend_init)
SEND_INIT(Rsend_init)
SEND_INIT(Bsend_init)

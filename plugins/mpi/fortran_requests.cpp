// Entry points of Fortran for requests, where what they call is PMPI_*: Open MPI's in all
// spellings, and `use mpi_f08` of MPICH and Intel MPI. Without a request of the pool's collectives
// they go to the MPI.
#include "fortran_requests.hpp"

using namespace penstock::mpi;
using namespace penstock::mpi::fortran;

#define PENSTOCK_FORTRAN(name, NAME, call, parameters, arguments)             \
  PENSTOCK_ENTRY(mpi_##name##_, waits_by_mpif_h, call, parameters, arguments) \
  PENSTOCK_ALIAS(mpi_##name##__, mpi_##name##_)                               \
  PENSTOCK_ALIAS(MPI_##NAME, mpi_##name##_)                                   \
  PENSTOCK_ALIAS(ompi_##name##_f, mpi_##name##_)                              \
  PENSTOCK_ENTRY(mpi_##name##_f08_, waits_by_f08, call, parameters, arguments)
// Open MPI's mpi_f08 calls pmpi_test_.
#define PENSTOCK_LOGICAL(name, NAME, call, parameters, arguments)             \
  PENSTOCK_ENTRY(mpi_##name##_, waits_by_mpif_h, call, parameters, arguments) \
  PENSTOCK_ALIAS(mpi_##name##__, mpi_##name##_)                               \
  PENSTOCK_ALIAS(MPI_##NAME, mpi_##name##_)                                   \
  PENSTOCK_ALIAS(ompi_##name##_f, mpi_##name##_)                              \
  PENSTOCK_ENTRY(mpi_##name##_f08_, waits_by_f08_logical, call, parameters, arguments)
#include "fortran_request_table.inc"

#define PENSTOCK_FREE(name, NAME, kind, call)                                                \
  PENSTOCK_ENTRY(mpi_##name##_, frees_by_mpif_h, call(changed(handle)), (Out<kind> handle),  \
                 (handle))                                                                   \
  PENSTOCK_ALIAS(mpi_##name##__, mpi_##name##_)                                              \
  PENSTOCK_ALIAS(MPI_##NAME, mpi_##name##_)                                                  \
  PENSTOCK_ALIAS(ompi_##name##_f, mpi_##name##_)                                             \
  PENSTOCK_ENTRY(mpi_##name##_f08_, frees_by_f08, call(changed(handle)), (Out<kind> handle), \
                 (handle))
PENSTOCK_FREE(op_free, OP_FREE, Kind::op, MPI_Op_free)
PENSTOCK_FREE(type_free, TYPE_FREE, Kind::datatype, MPI_Type_free)

// MPI 4.1's, which Open MPI's Fortran has not.
PENSTOCK_ENTRY(mpi_request_get_status_all_f08_, waits_by_f08,
               MPI_Request_get_status_all(n, Requests(n, requests), made(flag), statuses(at)),
               (Int n, int* requests, Logical flag, void* at), (n, requests, flag, at))
PENSTOCK_ENTRY(mpi_request_get_status_any_f08_, waits_by_f08,
               MPI_Request_get_status_any(n, Requests(n, requests), Index(index), made(flag),
                                          status(at)),
               (Int n, int* requests, int* index, Logical flag, void* at),
               (n, requests, index, flag, at))
PENSTOCK_ENTRY(mpi_request_get_status_some_f08_, waits_by_f08,
               MPI_Request_get_status_some(n, Requests(n, requests), number,
                                           Indices(indices, number), statuses(at)),
               (Int n, int* requests, int* number, int* indices, void* at),
               (n, requests, number, indices, at))

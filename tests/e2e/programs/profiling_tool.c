/* A tool on MPI's profiling interface, which counts the calls that it sees and passes them on.
 * FORM says which functions it has, and HOW says how it finds the next ones: 0 by linking PMPI_*, 1
 * by asking for the next PMPI_*, 2 for the next MPI_*. Linked into a program, preloaded, or a
 * library of the program. Calls that poll are passed on uncounted. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <mpi.h>
#include <stdio.h>

static long seen = 0;

#if HOW == 0
#define NEXT(name) PMPI_##name
#elif HOW == 1
#define NEXT(name) ((__typeof__(&PMPI_##name))dlsym(RTLD_NEXT, "PMPI_" #name))
#else
#define NEXT(name) ((__typeof__(&PMPI_##name))dlsym(RTLD_NEXT, "MPI_" #name))
#endif
#define SEES(name, parameters, arguments) \
  int MPI_##name parameters {             \
    ++seen;                               \
    return NEXT(name) arguments;          \
  }
#define POLLS(name, parameters, arguments) \
  int MPI_##name parameters {              \
    return NEXT(name) arguments;           \
  }
#define HAS(form) (FORM == 0 || FORM == (form))

#if HAS(1)
SEES(Init, (int* c, char*** v), (c, v))
SEES(Init_thread, (int* c, char*** v, int r, int* p), (c, v, r, p))
#endif
#if HAS(2)
SEES(Wait, (MPI_Request * r, MPI_Status* s), (r, s))
SEES(Waitall, (int n, MPI_Request* r, MPI_Status* s), (n, r, s))
POLLS(Test, (MPI_Request * r, int* f, MPI_Status* s), (r, f, s))
POLLS(Testall, (int n, MPI_Request* r, int* f, MPI_Status* s), (n, r, f, s))
#endif
#if HAS(3)
SEES(Win_fence, (int a, MPI_Win w), (a, w))
SEES(Win_lock, (int t, int r, int a, MPI_Win w), (t, r, a, w))
SEES(Win_unlock, (int r, MPI_Win w), (r, w))
#endif
#if HAS(4)
SEES(Comm_dup, (MPI_Comm c, MPI_Comm* n), (c, n))
SEES(Comm_split, (MPI_Comm c, int k, int o, MPI_Comm* n), (c, k, o, n))
SEES(Comm_free, (MPI_Comm * c), (c))
#endif
#if HAS(5)
SEES(Barrier, (MPI_Comm c), (c))
SEES(Bcast, (void* b, int n, MPI_Datatype t, int r, MPI_Comm c), (b, n, t, r, c))
#endif
#if HAS(6)
SEES(Win_allocate, (MPI_Aint n, int u, MPI_Info i, MPI_Comm c, void* b, MPI_Win* w),
     (n, u, i, c, b, w))
SEES(Win_free, (MPI_Win * w), (w))
SEES(Alloc_mem, (MPI_Aint n, MPI_Info i, void* b), (n, i, b))
SEES(Free_mem, (void* b), (b))
#endif
#if HAS(7)
SEES(Put,
     (const void* b, int n, MPI_Datatype t, int r, MPI_Aint d, int m, MPI_Datatype u, MPI_Win w),
     (b, n, t, r, d, m, u, w))
SEES(Get, (void* b, int n, MPI_Datatype t, int r, MPI_Aint d, int m, MPI_Datatype u, MPI_Win w),
     (b, n, t, r, d, m, u, w))
#endif
#if HAS(8)
SEES(Iallreduce,
     (const void* a, void* b, int n, MPI_Datatype t, MPI_Op o, MPI_Comm c, MPI_Request* r),
     (a, b, n, t, o, c, r))
SEES(Ibcast, (void* b, int n, MPI_Datatype t, int k, MPI_Comm c, MPI_Request* r),
     (b, n, t, k, c, r))
#endif
#if HAS(9)
SEES(Request_free, (MPI_Request * r), (r))
SEES(Start, (MPI_Request * r), (r))
SEES(Startall, (int n, MPI_Request* r), (n, r))
#endif

int MPI_Finalize(void) {
  int rank;
  PMPI_Comm_rank(MPI_COMM_WORLD, &rank);
  printf("tool of rank %d: %ld calls\n", rank, seen);
  fflush(stdout);
  return NEXT(Finalize)();
}

/* Windows of MPI's sessions: no MPI_Init, no MPI_COMM_WORLD, no MPI_COMM_SELF. As
   many sessions, one after the other, as the argument says. */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

static void need(int holds, const char* what, int rank) {
  if (holds) return;
  fprintf(stderr, "sessions: rank %d: %s\n", rank, what);
  exit(1);
}

static void with_window(MPI_Comm comm, int shared) {
  int rank, size, *base, given, got = -1;
  MPI_Win win;
  MPI_Request request;
  MPI_Comm_rank(comm, &rank);
  MPI_Comm_size(comm, &size);
  if (shared)
    MPI_Win_allocate_shared(sizeof(int), sizeof(int), MPI_INFO_NULL, comm, &base, &win);
  else
    MPI_Win_allocate(sizeof(int), sizeof(int), MPI_INFO_NULL, comm, &base, &win);
  const int next = (rank + 1) % size, previous = (rank + size - 1) % size;
  MPI_Win_fence(0, win);
  MPI_Put(&rank, 1, MPI_INT, next, 0, 1, MPI_INT, win);
  MPI_Win_fence(0, win);
  need(*base == previous, "what was put in a fence is not there", rank);
  MPI_Barrier(comm);

  given = 100 + rank;
  MPI_Win_lock_all(0, win);
  MPI_Rput(&given, 1, MPI_INT, next, 0, 1, MPI_INT, win, &request);
  MPI_Wait(&request, MPI_STATUS_IGNORE);
  MPI_Win_flush(next, win);
  MPI_Rget(&got, 1, MPI_INT, next, 0, 1, MPI_INT, win, &request);
  MPI_Wait(&request, MPI_STATUS_IGNORE);
  MPI_Win_unlock_all(win);
  need(got == given, "what was put by request is not got", rank);
  MPI_Barrier(comm);
  need(*base == 100 + previous, "what was put by request is not there", rank);
  MPI_Win_free(&win);
}

int main(int argc, char** argv) {
  const int rounds = argc > 1 ? atoi(argv[1]) : 1;
  int rank = 0;
  for (int round = 0; round < rounds; ++round) {
    /* MPICH 5.0.2 must have ended a session on all ranks before the next one begins. */
    if (round > 0) sleep(1);
    MPI_Session session;
    MPI_Group group;
    MPI_Comm comm;
    MPI_Session_init(MPI_INFO_NULL, MPI_ERRORS_ARE_FATAL, &session);
    MPI_Group_from_session_pset(session, "mpi://WORLD", &group);
    MPI_Comm_create_from_group(group, "penstock", MPI_INFO_NULL, MPI_ERRORS_ARE_FATAL, &comm);
    MPI_Comm_rank(comm, &rank);
    with_window(comm, 0);
    with_window(comm, 1);
    MPI_Comm_free(&comm);
    MPI_Group_free(&group);
    MPI_Session_finalize(&session);
  }
  if (rank == 0) printf("sessions: ok\n");
  return 0;
}

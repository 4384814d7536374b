/* A window of a session, used after MPI_Init and MPI_Finalize. */
#include <mpi.h>
#include <stdio.h>

int main(void) {
  MPI_Session session;
  MPI_Group group;
  MPI_Comm comm;
  MPI_Win win;
  int rank, size, *base;
  MPI_Session_init(MPI_INFO_NULL, MPI_ERRORS_ARE_FATAL, &session);
  MPI_Group_from_session_pset(session, "mpi://WORLD", &group);
  MPI_Comm_create_from_group(group, "penstock", MPI_INFO_NULL, MPI_ERRORS_ARE_FATAL, &comm);
  MPI_Comm_rank(comm, &rank);
  MPI_Comm_size(comm, &size);
  MPI_Win_allocate(sizeof(int), sizeof(int), MPI_INFO_NULL, comm, &base, &win);
  MPI_Init(NULL, NULL);
  MPI_Finalize();
  *base = -1;
  MPI_Win_fence(0, win);
  MPI_Put(&rank, 1, MPI_INT, (rank + 1) % size, 0, 1, MPI_INT, win);
  MPI_Win_fence(0, win);
  const int right = *base == (rank + size - 1) % size;
  MPI_Win_free(&win);
  MPI_Comm_free(&comm);
  MPI_Group_free(&group);
  MPI_Session_finalize(&session);
  if (rank == 0 && right) printf("session and world: ok\n");
  return right ? 0 : 1;
}

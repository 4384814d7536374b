// Ends MPI in an exit handler, a window still alive: the library's own handler runs before it.
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>

static void end(void) {
  MPI_Barrier(MPI_COMM_WORLD);
  MPI_Finalize();
  puts("exit_handler: ok");
}

int main(int argc, char** argv) {
  MPI_Init(&argc, &argv);
  atexit(end);
  int rank;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  long *base, one = 1;
  MPI_Win win;
  MPI_Win_allocate(65536, 1, MPI_INFO_NULL, MPI_COMM_WORLD, &base, &win);
  MPI_Win_lock_all(0, win);
  MPI_Put(&one, 1, MPI_LONG, 1 - rank, 0, 1, MPI_LONG, win);
  MPI_Win_unlock_all(win);
  MPI_Barrier(MPI_COMM_WORLD);
  exit(0);
}

/* Rank 2 fails in the way that the argument names, while the others wait for it. */
#include <mpi.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static void fail(const char* how) {
  if (strcmp(how, "abort") == 0) MPI_Abort(MPI_COMM_WORLD, 7);
  if (strcmp(how, "segfault") == 0) *(volatile int*)0 = 1;
  if (strcmp(how, "exit") == 0) exit(5);
  if (strcmp(how, "error") == 0) MPI_Send(how, 1, MPI_CHAR, 99, 0, MPI_COMM_WORLD);
  if (strcmp(how, "truncated") == 0) {
    char text[10];
    MPI_Recv(text, 1, MPI_CHAR, 0, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
  }
  if (strcmp(how, "returned") == 0) {
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    if (MPI_Send(how, 1, MPI_CHAR, 99, 0, MPI_COMM_WORLD) != MPI_SUCCESS) exit(6);
  }
  if (strcmp(how, "finalize") == 0) {
    MPI_Finalize();
    exit(9);
  }
}

int main(int argc, char** argv) {
  int rank;
  MPI_Init(&argc, &argv);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  if (strcmp(argv[1], "early") == 0 && rank == 2) abort(); /* others may still be starting */
  MPI_Barrier(MPI_COMM_WORLD);
  if (strcmp(argv[1], "killed") == 0) { /* while the others finalize */
    if (rank == 2) {
      sleep(1);
      kill(getpid(), SIGKILL);
    }
    MPI_Finalize();
    return 0;
  }
  if (strcmp(argv[1], "truncated") == 0 && rank == 0)
    MPI_Send(argv[1], 9, MPI_CHAR, 2, 0, MPI_COMM_WORLD);
  if (rank == 2) fail(argv[1]);
  MPI_Barrier(MPI_COMM_WORLD);
  MPI_Barrier(MPI_COMM_WORLD);
  if (strcmp(argv[1], "unfinalized") == 0) return 0; /* all is done */
  MPI_Finalize();
}

/* A window filled round the ring, by a pointer to it that MPI keeps: what a preload must not
 * change. */
#include <mpi.h>
#include <stdio.h>

int main(int argc, char** argv) {
  int rank, size, *memory, value, sum = 0, provided;
  MPI_Win window;
  MPI_Init_thread(&argc, &argv, MPI_THREAD_SINGLE, &provided);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  MPI_Win_allocate(sizeof *memory, sizeof *memory, MPI_INFO_NULL, MPI_COMM_WORLD, &memory, &window);
  *memory = -1;
  value = rank;
  MPI_Win_fence(0, window);
  MPI_Put(&value, 1, MPI_INT, (rank + 1) % size, 0, 1, MPI_INT, window);
  MPI_Win_fence(0, window);
  const int good = *memory == (rank + size - 1) % size;
  MPI_Allreduce(&good, &sum, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
  MPI_Win_free(&window);
  if (rank == 0) printf("epoch: %s: %d ranks\n", sum == size ? "ok" : "wrong", size);
  MPI_Finalize();
  return sum != size;
}

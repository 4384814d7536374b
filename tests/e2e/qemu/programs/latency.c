/* Half a round trip of 8 bytes between ranks 0 and 1: median and least, in microseconds. */
#include <mpi.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

enum { warm_up = 50, trips = 400 };

static int by_size(const void* a, const void* b) {
  const double left = *(const double*)a, right = *(const double*)b;
  return (left > right) - (left < right);
}

static double round_trip(int rank, uint64_t number) {
  uint64_t back = 0;
  const double start = MPI_Wtime();
  if (rank == 0) {
    MPI_Send(&number, 8, MPI_BYTE, 1, 0, MPI_COMM_WORLD);
    MPI_Recv(&back, 8, MPI_BYTE, 1, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    if (back != number + 1) MPI_Abort(MPI_COMM_WORLD, 1);
  } else {
    MPI_Recv(&back, 8, MPI_BYTE, 0, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    ++back;
    MPI_Send(&back, 8, MPI_BYTE, 0, 0, MPI_COMM_WORLD);
  }
  return MPI_Wtime() - start;
}

int main(int argc, char** argv) {
  double took[trips];
  int rank;
  MPI_Init(&argc, &argv);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  for (int i = 0; i < warm_up; ++i) round_trip(rank, (uint64_t)i);
  for (int i = 0; i < trips; ++i) took[i] = round_trip(rank, (uint64_t)i);
  qsort(took, trips, sizeof *took, by_size);
  if (rank == 0) {
    printf("latency: 8 bytes: median %.1f us, least %.1f us\n", took[trips / 2] * 5e5,
           took[0] * 5e5);
  }
  MPI_Finalize();
  return 0;
}

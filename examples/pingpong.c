/* Latency and bandwidth between two ranks, for the given sizes (bytes). An ordinary MPI program.
 *
 *   mpicc -O2 examples/pingpong.c -o pingpong
 *   penstock run -n 2 --bind -- ./pingpong 8 4096 65536 1048576
 *
 * Prints one line for each size: bytes, one-way latency in microseconds, bandwidth in MB/s (10^6).
 */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { window = 64, max_bytes_per_size = 192 << 20 };

static int round_trips(long bytes) {
  if (bytes <= 1024) return 10000;
  if (bytes <= 16384) return 4000;
  if (bytes <= 131072) return 1000;
  return 100;
}

static void check(const char* buffer, long bytes, char expected) {
  if (buffer[0] == expected && buffer[bytes / 2] == expected && buffer[bytes - 1] == expected)
    return;
  fprintf(stderr, "pingpong: wrong contents in a message of %ld bytes\n", bytes);
  MPI_Abort(MPI_COMM_WORLD, 1);
}

static double latency_us(int rank, long bytes, char* out, char* in) {
  const int trips = round_trips(bytes), warmup = trips / 10 + 1;
  double start = 0;
  memset(out, rank == 0 ? 'a' : 'b', bytes);
  for (int i = -warmup; i < trips; ++i) {
    if (i == 0) start = MPI_Wtime();
    if (rank == 0) {
      MPI_Send(out, bytes, MPI_CHAR, 1, 1, MPI_COMM_WORLD);
      MPI_Recv(in, bytes, MPI_CHAR, 1, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    } else {
      MPI_Recv(in, bytes, MPI_CHAR, 0, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
      MPI_Send(out, bytes, MPI_CHAR, 0, 1, MPI_COMM_WORLD);
    }
  }
  const double seconds = MPI_Wtime() - start;
  check(in, bytes, rank == 0 ? 'b' : 'a');
  return seconds * 1e6 / (2.0 * trips);
}

static double bandwidth_mbs(int rank, long bytes, char* out, char* in) {
  MPI_Request requests[window];
  long windows = max_bytes_per_size / (bytes * window);
  if (windows > 200) windows = 200;
  if (windows < 3) windows = 3;
  double start = 0;
  char token = 0;
  for (long i = -1; i < windows; ++i) {
    if (i == 0) start = MPI_Wtime();
    for (int k = 0; k < window; ++k) {
      if (rank == 0) {
        MPI_Isend(out, bytes, MPI_CHAR, 1, 2, MPI_COMM_WORLD, &requests[k]);
      } else {
        MPI_Irecv(in, bytes, MPI_CHAR, 0, 2, MPI_COMM_WORLD, &requests[k]);
      }
    }
    MPI_Waitall(window, requests, MPI_STATUSES_IGNORE);
    if (rank == 0) {
      MPI_Recv(&token, 1, MPI_CHAR, 1, 3, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    } else {
      MPI_Send(&token, 1, MPI_CHAR, 0, 3, MPI_COMM_WORLD);
    }
  }
  return (double)bytes * window * windows / (MPI_Wtime() - start) / 1e6;
}

int main(int argc, char** argv) {
  int rank, size;
  MPI_Init(&argc, &argv);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  if (size != 2 || argc < 2) {
    if (rank == 0) fprintf(stderr, "pingpong: needs 2 ranks and sizes in bytes\n");
    MPI_Abort(MPI_COMM_WORLD, 2);
  }
  for (int i = 1; i < argc; ++i) {
    const long bytes = atol(argv[i]);
    char *out = NULL, *in = NULL;
    if (bytes < 1 || posix_memalign((void**)&out, 4096, bytes) ||
        posix_memalign((void**)&in, 4096, bytes)) {
      fprintf(stderr, "pingpong: cannot use the size '%s'\n", argv[i]);
      MPI_Abort(MPI_COMM_WORLD, 2);
    }
    memset(in, 0, bytes);
    const double latency = latency_us(rank, bytes, out, in);
    MPI_Barrier(MPI_COMM_WORLD);
    const double bandwidth = bandwidth_mbs(rank, bytes, out, in);
    if (rank == 0) printf("%ld %.3f %.1f\n", bytes, latency, bandwidth);
    free(out);
    free(in);
  }
  MPI_Finalize();
  return 0;
}

/* Each rank passes a block that grows from nothing to 1 MiB round the ring, and all sum up: every
 * byte is checked. */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>

static unsigned char expected(int rank, int bytes, int at) {
  return (unsigned char)(rank * 31 + bytes * 7 + at);
}

int main(int argc, char** argv) {
  int rank, size, sum = 0;
  MPI_Init(&argc, &argv);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  const int next = (rank + 1) % size, before = (rank + size - 1) % size, most = 1 << 20;
  unsigned char* out = malloc((size_t)most);
  unsigned char* in = malloc((size_t)most);
  for (int bytes = 0; bytes <= most; bytes = bytes == 0 ? 1 : bytes * 4) {
    for (int i = 0; i < bytes; ++i) out[i] = expected(rank, bytes, i);
    MPI_Status status;
    int count = -1;
    const int tag = bytes % 1000;
    MPI_Sendrecv(out, bytes, MPI_BYTE, next, tag, in, most, MPI_BYTE, before, tag, MPI_COMM_WORLD,
                 &status);
    MPI_Get_count(&status, MPI_BYTE, &count);
    int wrong = count != bytes;
    for (int i = 0; i < bytes && !wrong; ++i) wrong = in[i] != expected(before, bytes, i);
    if (wrong) {
      fprintf(stderr, "ring: rank %d: %d bytes from %d arrived wrong\n", rank, bytes, before);
      MPI_Abort(MPI_COMM_WORLD, 1);
    }
  }
  MPI_Allreduce(&rank, &sum, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
  if (sum != size * (size - 1) / 2) MPI_Abort(MPI_COMM_WORLD, 1);
  if (rank == 0) printf("ring: ok: %d ranks\n", size);
  free(out);
  free(in);
  MPI_Finalize();
  return 0;
}

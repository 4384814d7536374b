/* An MPI program whose ranks lie on several hosts: job [forever]
 *
 * Says which rank runs where, then checks the contents of messages between all pairs and of
 * collectives. `forever` goes on with messages until something ends it. */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { block = 3000, tag = 7 };

static int rank, ranks;

static void check(int good, const char* what) {
  if (good) return;
  fprintf(stderr, "job: rank %d: %s: wrong contents\n", rank, what);
  MPI_Abort(MPI_COMM_WORLD, 1);
}

static int value(int from, int to, int index) {
  return (from * 31 + to * 17) * 100003 + index;
}

static void fill(int* numbers, int from, int to) {
  for (int i = 0; i < block; ++i) numbers[i] = value(from, to, i);
}

static int right(const int* numbers, int from, int to) {
  for (int i = 0; i < block; ++i) {
    if (numbers[i] != value(from, to, i)) return 0;
  }
  return 1;
}

static void say_where(void) {
  char host[MPI_MAX_PROCESSOR_NAME] = "";
  int length;
  MPI_Get_processor_name(host, &length);
  printf("job: rank %d of %d is on %s\n", rank, ranks, host);
  fflush(stdout);
}

/* A message to each rank, and one from each. */
static void messages(void) {
  int *out = malloc(block * sizeof(int)), *in = malloc(block * sizeof(int));
  for (int step = 1; step < ranks; ++step) {
    const int to = (rank + step) % ranks, from = (rank + ranks - step) % ranks;
    fill(out, rank, to);
    MPI_Sendrecv(out, block, MPI_INT, to, tag, in, block, MPI_INT, from, tag, MPI_COMM_WORLD,
                 MPI_STATUS_IGNORE);
    check(right(in, from, rank), "message");
  }
  free(out);
  free(in);
}

static void broadcasts(void) {
  int* numbers = malloc(block * sizeof(int));
  for (int root = 0; root < ranks; ++root) {
    memset(numbers, 0, block * sizeof(int));
    if (rank == root) fill(numbers, root, root);
    MPI_Bcast(numbers, block, MPI_INT, root, MPI_COMM_WORLD);
    check(right(numbers, root, root), "MPI_Bcast");
  }
  free(numbers);
}

static void sums(void) {
  long *mine = malloc(block * sizeof(long)), *all = malloc(block * sizeof(long));
  for (int i = 0; i < block; ++i) mine[i] = (long)(rank + 1) * (i + 1);
  MPI_Allreduce(mine, all, block, MPI_LONG, MPI_SUM, MPI_COMM_WORLD);
  for (int i = 0; i < block; ++i) {
    check(all[i] == (long)ranks * (ranks + 1) / 2 * (i + 1), "MPI_Allreduce");
  }
  free(mine);
  free(all);
}

static void exchanges(void) {
  const size_t bytes = (size_t)ranks * block * sizeof(int);
  int *out = malloc(bytes), *in = calloc(1, bytes);
  for (int to = 0; to < ranks; ++to) fill(out + to * block, rank, to);
  MPI_Alltoall(out, block, MPI_INT, in, block, MPI_INT, MPI_COMM_WORLD);
  for (int from = 0; from < ranks; ++from) {
    check(right(in + from * block, from, rank), "MPI_Alltoall");
  }
  free(out);
  free(in);
}

int main(int argc, char** argv) {
  MPI_Init(&argc, &argv);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &ranks);
  say_where();
  messages();
  broadcasts();
  sums();
  exchanges();
  MPI_Barrier(MPI_COMM_WORLD);
  if (rank == 0) {
    printf("job: messages and collectives: ok on %d ranks\n", ranks);
    fflush(stdout);
  }
  while (argc > 1 && strcmp(argv[1], "forever") == 0) messages();
  MPI_Finalize();
  return 0;
}

/* Four processes add numbers through a pool: penstock_comm_open and penstock_comm_run.
 *
 *     cc allreduce.c -o allreduce $(pkg-config --cflags --libs penstock) && ./allreduce
 *
 * The ranks are forked here; in a job a launcher starts them, and `exchange` is its key-value
 * store, MPI_Allgather, or another way by which they meet. Here it uses pipes: rank 0 collects.
 */
#include <penstock/collectives.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

enum { RANKS = 4, NUMBERS = 1000 };

static int to_first[RANKS][2], from_first[RANKS][2], own_rank;

static int all(ssize_t done, uint64_t wanted) {
  return done == (ssize_t)wanted ? 0 : 1;
}

/* Returns 0 once every rank has the contributions of all. */
static int exchange(void* user, const void* mine, void* everyone, uint64_t bytes) {
  int failed = 0, rank;
  (void)user;
  if (own_rank != 0) {
    failed |= all(write(to_first[own_rank][1], mine, bytes), bytes);
    return failed | all(read(from_first[own_rank][0], everyone, RANKS * bytes), RANKS * bytes);
  }
  memcpy(everyone, mine, bytes);
  for (rank = 1; rank < RANKS; ++rank)
    failed |= all(read(to_first[rank][0], (char*)everyone + rank * bytes, bytes), bytes);
  for (rank = 1; rank < RANKS; ++rank)
    failed |= all(write(from_first[rank][1], everyone, RANKS * bytes), RANKS * bytes);
  return failed;
}

static int fail(const char* what) {
  fprintf(stderr, "rank %d: %s: %s\n", own_rank, what, penstock_last_error());
  return 1;
}

static int work(const char* spec) {
  penstock_pool_t* pool = NULL;
  penstock_comm_t* comm = NULL;
  penstock_comm_options_t options = {sizeof options};
  penstock_call_t call = {sizeof call};
  penstock_block_t whole = {0, NUMBERS * sizeof(float)};
  float numbers[NUMBERS];
  int i, wrong = 0;

  if (penstock_pool_attach(spec, NULL, &pool) != PENSTOCK_OK) return fail("attach");
  options.rank = (uint32_t)own_rank;
  options.ranks = RANKS;
  options.exchange = exchange;
  if (penstock_comm_open(pool, &options, &comm) != PENSTOCK_OK) return fail("open");

  for (i = 0; i < NUMBERS; ++i) numbers[i] = (float)(i * (own_rank + 1));
  call.collective = PENSTOCK_ALLREDUCE;
  call.datatype = PENSTOCK_FLOAT32;
  call.operation = PENSTOCK_SUM;
  call.input = call.output = numbers;
  call.input_blocks = call.output_blocks = &whole;
  call.input_count = call.output_count = 1;
  call.max_block_bytes = whole.bytes;
  call.max_is_known = 1;
  if (penstock_comm_run(comm, &call) != PENSTOCK_OK) return fail("allreduce");
  for (i = 0; i < NUMBERS; ++i) wrong += numbers[i] != (float)(i * (RANKS * (RANKS + 1) / 2));

  penstock_comm_close(comm);
  penstock_pool_detach(pool);
  if (wrong != 0) fprintf(stderr, "rank %d: %d of %d sums are wrong\n", own_rank, wrong, NUMBERS);
  return wrong != 0;
}

int main(void) {
  char spec[64];
  penstock_pool_options_t options = {sizeof options};
  int rank, failed = 0, status;

  snprintf(spec, sizeof spec, "shm:allreduce-%ld", (long)getpid());
  options.bytes = 64 << 20;
  if (penstock_pool_create(spec, &options) != PENSTOCK_OK) return fail("create");
  for (rank = 1; rank < RANKS; ++rank)
    if (pipe(to_first[rank]) != 0 || pipe(from_first[rank]) != 0) return 1;
  for (rank = 1; rank < RANKS; ++rank) {
    if (fork() == 0) {
      own_rank = rank;
      return work(spec);
    }
  }
  failed = work(spec);
  while (wait(&status) > 0) failed |= status != 0;
  penstock_pool_remove(spec, 1);
  if (!failed) printf("allreduce: %d ranks, %d sums: ok\n", RANKS, NUMBERS);
  return failed;
}

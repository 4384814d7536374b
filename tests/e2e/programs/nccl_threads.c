/* Two threads of each rank use one communicator at once, which NCCL forbids: nothing is damaged.
 * Their calls are alike, so that it does not matter which comes first.
 *
 *   nccl_threads RANK 2 FOLDER collectives|messages     FOLDER passes the unique id
 *
 * GPU=1: buffers are memory of the GPU that libcuda.so.1 finds. */
#define _GNU_SOURCE
#include "nccl_gpu.h"
#include "nccl_meet.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { rounds = 300, count = 1000 };

struct part {
  ncclComm_t comm;
  int rank;
  int sends, receives; /* messages of a thread; neither: it reduces */
};

static void round_of(const struct part* mine, struct buffer* b, void* stream) {
  int* const values = (int*)b->host;
  const int reduces = !mine->sends && !mine->receives;
  for (int i = 0; i < count; ++i) values[i] = mine->receives ? 0 : mine->rank + 1;
  put(b, stream);
  if (reduces)
    CHECK(ncclAllReduce(b->device, b->device, count, ncclInt32, ncclSum, mine->comm, stream));
  if (mine->sends) CHECK(ncclSend(b->device, count, ncclInt32, 1 - mine->rank, mine->comm, stream));
  if (mine->receives)
    CHECK(ncclRecv(b->device, count, ncclInt32, 1 - mine->rank, mine->comm, stream));
  get(b, stream);
  const int wanted = reduces ? 3 : mine->sends ? mine->rank + 1 : 2 - mine->rank;
  for (int i = 0; i < count; ++i)
    if (values[i] != wanted) {
      fprintf(stderr, "rank %d: element %d is %d, not %d\n", mine->rank, i, values[i], wanted);
      exit(1);
    }
}

static void* run(void* part) {
  void* const stream = new_stream();
  struct buffer b = new_buffer(sizeof(int) * count);
  for (int i = 0; i < rounds; ++i) round_of(part, &b, stream);
  free_buffer(&b);
  return NULL;
}

int main(int argc, char** argv) {
  if (argc != 5) return 2;
  open_gpu();
  const int rank = atoi(argv[1]), messages = strcmp(argv[4], "messages") == 0;
  const ncclUniqueId id = meet(rank, argv[3]);
  ncclComm_t comm;
  CHECK(ncclCommInitRank(&comm, 2, id, rank));
  struct part parts[2] = {{comm, rank, messages, 0}, {comm, rank, 0, messages}};
  pthread_t threads[2];
  for (int i = 0; i < 2; ++i) pthread_create(&threads[i], NULL, run, &parts[i]);
  for (int i = 0; i < 2; ++i) pthread_join(threads[i], NULL);
  CHECK(ncclCommDestroy(comm));
  printf("ok\n");
  return 0;
}

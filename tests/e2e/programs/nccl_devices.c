/* Several GPUs in one process, one for each rank, all driven by this thread:
 *
 *   nccl_devices RANKS WHAT
 *
 * WHAT: group (ncclCommInitRank in a group, after cudaSetDevice), all (ncclCommInitAll without a
 * list), list (with one, in descending order), streams (calls on streams of other devices are
 * refused), refused (lists that name what does not exist). */
#define _GNU_SOURCE
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "nccl_gpu.h"
#include "nccl_meet.h"

#define MAX_RANKS 8

static struct rank {
  int device;
  ncclComm_t comm;
  void* stream;
  struct buffer in, out;
} ranks_of[MAX_RANKS];

static const char* step;
static void expect(int rank, const struct buffer* b, size_t at, int value) {
  int found;
  memcpy(&found, b->host + 4 * at, sizeof found);
  if (found == value) return;
  fprintf(stderr, "rank %d: %s: element %zu is %d, not %d\n", rank, step, at, found, value);
  exit(1);
}

static void make_in_group(int ranks) {
  ncclUniqueId id;
  CHECK(ncclGetUniqueId(&id));
  CHECK(ncclGroupStart());
  for (int r = 0; r < ranks; ++r) {
    set_device(r);
    CHECK(ncclCommInitRank(&ranks_of[r].comm, ranks, id, r));
  }
  CHECK(ncclGroupEnd());
}

static void make_all(int ranks, const int* list) {
  ncclComm_t comms[MAX_RANKS];
  CHECK(ncclCommInitAll(comms, ranks, list));
  for (int r = 0; r < ranks; ++r) ranks_of[r].comm = comms[r];
}

/* Every rank brings rank + i, on a stream of its own device. */
static void prepare(int ranks, size_t count) {
  for (int r = 0; r < ranks; ++r) {
    struct rank* const me = &ranks_of[r];
    int device = -1;
    CHECK(ncclCommCuDevice(me->comm, &device));
    if (device != me->device)
      fprintf(stderr, "rank %d is on device %d, not %d\n", r, device, me->device), exit(1);
    set_device(me->device);
    me->stream = new_stream();
    me->in = new_buffer(4 * count);
    me->out = new_buffer(4 * count);
    for (size_t i = 0; i < count; ++i) {
      const int value = r + (int)i;
      memcpy(me->in.host + 4 * i, &value, sizeof value);
    }
    put(&me->in, me->stream);
  }
  set_device(0); /* the calls below are made on any device */
}

static void sum(int ranks, size_t count) {
  step = "AllReduce";
  for (int turn = 0; turn < 3; ++turn) {
    CHECK(ncclGroupStart());
    for (int r = 0; r < ranks; ++r)
      CHECK(ncclAllReduce(ranks_of[r].in.device, ranks_of[r].out.device, count, ncclInt32, ncclSum,
                          ranks_of[r].comm, ranks_of[r].stream));
    CHECK(ncclGroupEnd());
  }
  for (int r = 0; r < ranks; ++r) {
    set_device(ranks_of[r].device);
    get(&ranks_of[r].out, ranks_of[r].stream);
    for (size_t i = 0; i < count; ++i)
      expect(r, &ranks_of[r].out, i, ranks * (ranks - 1) / 2 + ranks * (int)i);
  }
}

static void pass_on(int ranks, size_t count) {
  step = "Send and Recv";
  CHECK(ncclGroupStart());
  for (int r = 0; r < ranks; ++r) {
    const struct rank* const me = &ranks_of[r];
    CHECK(ncclSend(me->in.device, count, ncclInt32, (r + 1) % ranks, me->comm, me->stream));
    CHECK(
        ncclRecv(me->out.device, count, ncclInt32, (r + ranks - 1) % ranks, me->comm, me->stream));
  }
  CHECK(ncclGroupEnd());
  for (int r = 0; r < ranks; ++r) {
    set_device(ranks_of[r].device);
    get(&ranks_of[r].out, ranks_of[r].stream);
    for (size_t i = 0; i < count; ++i)
      expect(r, &ranks_of[r].out, i, (r + ranks - 1) % ranks + (int)i);
  }
}

/* A split has the GPU of its parent, whichever is current. */
static void split(int ranks) {
  ncclComm_t parts[MAX_RANKS];
  CHECK(ncclGroupStart());
  for (int r = 0; r < ranks; ++r) CHECK(ncclCommSplit(ranks_of[r].comm, 0, -r, &parts[r], NULL));
  CHECK(ncclGroupEnd());
  for (int r = 0; r < ranks; ++r) {
    int device = -1;
    CHECK(ncclCommCuDevice(parts[r], &device));
    if (device != ranks_of[r].device) fprintf(stderr, "a split is on device %d\n", device), exit(1);
    CHECK(ncclCommDestroy(parts[r]));
  }
}

/* A call needs a stream of the communicator's device; it may be made while another one is current.
 */
static void take_streams(int ranks) {
  set_device(0);
  const struct rank* const last = &ranks_of[ranks - 1];
  if (ncclAllReduce(last->in.device, last->out.device, 1, ncclInt32, ncclSum, last->comm,
                    ranks_of[0].stream) != ncclInvalidUsage)
    exit(1);
  printf("%s\n", ncclGetLastError(NULL));
  if (ncclSend(last->in.device, 1, ncclInt32, 0, last->comm, ranks_of[0].stream) !=
      ncclInvalidUsage)
    exit(1);
  printf("%s\n", ncclGetLastError(NULL));
  for (int r = 0; r < ranks; ++r) ranks_of[r].stream = NULL; /* the default one of each device */
}

static void refused(int ranks) {
  ncclComm_t comms[MAX_RANKS + 1];
  int list[MAX_RANKS + 1] = {0};
  if (ncclCommInitAll(comms, ranks + 1, NULL) != ncclInvalidArgument) exit(1);
  printf("%s\n", ncclGetLastError(NULL));
  list[1] = ranks;
  if (ncclCommInitAll(comms, 2, list) != ncclInvalidArgument) exit(1);
  printf("%s\n", ncclGetLastError(NULL));
}

int main(int argc, char** argv) {
  if (argc != 3) return 2;
  open_gpu();
  const int ranks = atoi(argv[1]);
  const size_t count = 300000;
  int list[MAX_RANKS];
  for (int r = 0; r < ranks; ++r) {
    list[r] = ranks - 1 - r;
    ranks_of[r].device = strcmp(argv[2], "list") == 0 ? list[r] : r;
  }
  if (strcmp(argv[2], "refused") == 0) {
    refused(ranks);
    return 0;
  }
  if (strcmp(argv[2], "group") == 0)
    make_in_group(ranks);
  else
    make_all(ranks, strcmp(argv[2], "list") == 0 ? list : NULL);
  prepare(ranks, count);
  for (int r = 0; r < ranks; ++r) wait_for(ranks_of[r].stream);
  if (strcmp(argv[2], "streams") == 0) take_streams(ranks);
  sum(ranks, count);
  pass_on(ranks, count);
  split(ranks);
  for (int r = 0; r < ranks; ++r) {
    CHECK(ncclCommDestroy(ranks_of[r].comm));
    free_buffer(&ranks_of[r].in);
    free_buffer(&ranks_of[r].out);
  }
  printf("ok\n");
  return 0;
}

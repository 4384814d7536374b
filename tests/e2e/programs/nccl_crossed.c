/* Two ranks, two communicators, and a group with a call of each, which the ranks make in opposite
 * order:
 *
 *   nccl_crossed RANK 2 FOLDER WHAT     FOLDER passes the unique id
 *
 * WHAT: messages (BYTES bytes from rank 0, each on a stream of its own), one_stream (the same, on
 * one stream), both_ways (each rank sends by one communicator and receives by the other, on one
 * stream), collectives (sums, on one stream).
 *
 * GPU=1: buffers are memory of the GPU that libcuda.so.1 finds. */
#define _GNU_SOURCE
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "nccl_gpu.h"
#include "nccl_meet.h"

static int rank, ranks;
static ncclComm_t comms[2];
static void* streams[2];
static struct buffer in[2], out[2];

static void expect(int which, unsigned char wanted) {
  get(&out[which], streams[which]);
  for (size_t i = 0; i < out[which].bytes; ++i)
    if (out[which].host[i] != wanted)
      fprintf(stderr, "byte %zu of message %d is wrong\n", i, which), exit(1);
  ncclResult_t found = ncclSuccess;
  CHECK(ncclCommGetAsyncError(comms[which], &found));
  if (found != ncclSuccess) fprintf(stderr, "%s\n", ncclGetLastError(comms[which])), exit(1);
}

static void call(const char* what, int which) {
  const size_t bytes = in[which].bytes;
  if (strcmp(what, "collectives") == 0)
    ncclAllReduce(in[which].device, out[which].device, bytes, ncclUint8, ncclSum, comms[which],
                  streams[which]);
  else if (strcmp(what, "both_ways") == 0 ? rank == which : rank == 0)
    ncclSend(in[which].device, bytes, ncclInt8, 1 - rank, comms[which], streams[which]);
  else
    ncclRecv(out[which].device, bytes, ncclInt8, 1 - rank, comms[which], streams[which]);
}

int main(int argc, char** argv) {
  if (argc != 5) return 2;
  const char* const what = argv[4];
  const size_t bytes = (size_t)atol(getenv("BYTES"));
  open_gpu();
  rank = atoi(argv[1]), ranks = atoi(argv[2]);
  const ncclUniqueId id = meet(rank, argv[3]);
  CHECK(ncclCommInitRank(&comms[0], ranks, id, rank));
  CHECK(ncclCommSplit(comms[0], 0, rank, &comms[1], NULL));
  for (int i = 0; i < 2; ++i) {
    streams[i] = i == 0 || strcmp(what, "messages") == 0 ? new_stream() : streams[0];
    in[i] = new_buffer(bytes), out[i] = new_buffer(bytes);
    memset(in[i].host, 3 + i, bytes);
    put(&in[i], streams[i]);
  }
  for (int turn = 0; turn < 2; ++turn) {
    CHECK(ncclGroupStart());
    for (int i = 0; i < 2; ++i) call(what, rank == turn ? i : 1 - i);
    CHECK(ncclGroupEnd());
  }
  for (int i = 0; i < 2; ++i) {
    wait_for(streams[i]);
    if (strcmp(what, "collectives") == 0)
      expect(i, (unsigned char)(2 * (3 + i)));
    else if (strcmp(what, "both_ways") == 0 ? rank != i : rank == 1)
      expect(i, (unsigned char)(3 + i));
  }
  for (int i = 1; i >= 0; --i) CHECK(ncclCommDestroy(comms[i]));
  printf("ok\n");
  return 0;
}

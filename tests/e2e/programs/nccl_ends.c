/* Ranks of NCCL that end while others still need what they have done:
 *
 *   nccl_ends RANK RANKS FOLDER WHAT     FOLDER passes the unique id; WHAT: init, nocolor, shrink,
 * gone or fork
 *
 * ALONE=1: each rank first makes a communicator of its own, so that no two have the same first one.
 * LONG=1: rank 1 first sends a long message to rank 0.
 * GPU=1: buffers are memory of the GPU that libcuda.so.1 finds. */
#define _GNU_SOURCE
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "nccl_gpu.h"
#include "nccl_meet.h"

/* The last rank has no color, comes last to the split, and ends while the others make theirs. */
static void split(ncclComm_t comm, int rank, int ranks) {
  const int last = rank == ranks - 1;
  ncclComm_t part = NULL;
  if (last) usleep(100000);
  CHECK(ncclCommSplit(comm, last ? -1 : 0, rank, &part, NULL));
  if (!last) CHECK(ncclCommDestroy(part));
}

/* A communicator can be split after others have shrunk it without its last rank. */
static void split_after_shrink(ncclComm_t comm, int rank, int ranks) {
  int last = ranks - 1;
  for (int turn = 0; turn < 2; ++turn) {
    ncclComm_t part = NULL;
    if (rank != last) CHECK(ncclCommShrink(comm, &last, 1, &part, NULL, 0));
    if (rank != last) CHECK(ncclCommDestroy(part));
    CHECK(ncclCommSplit(comm, 0, rank, &part, NULL));
    int count = 0;
    CHECK(ncclCommCount(part, &count));
    if (count != ranks) exit(1);
    CHECK(ncclCommDestroy(part));
  }
}

/* Makes the file when this process has ended. */
static void mark_the_end(const char* file) {
  const pid_t parent = getpid();
  if (fork() != 0) return;
  while (getppid() == parent) usleep(1000);
  fclose(fopen(file, "w"));
  _exit(0);
}

/* By slots of the sender's, which the receiver's GPU has registered from then on. */
static void pass_a_long_message(ncclComm_t comm, int rank) {
  void* const stream = new_stream();
  struct buffer b = new_buffer(1 << 20);
  CHECK(rank == 1 ? ncclSend(b.device, b.bytes, ncclInt8, 0, comm, stream)
                  : ncclRecv(b.device, b.bytes, ncclInt8, 1, comm, stream));
  wait_for(stream);
  free_buffer(&b);
}

/* Rank 1 has sent, destroyed its communicator and ended when rank 0 receives, once there is a file
 * "go". */
static void pass_messages(ncclComm_t comm, int rank, const char* folder) {
  const size_t count = 250;
  const int messages = 5;
  void* const stream = new_stream();
  struct buffer b = new_buffer(4 * count);
  char file[4096];
  snprintf(file, sizeof file, "%s/%s", folder, rank == 0 ? "go" : "ended");
  while (rank == 0 && access(file, F_OK) != 0) usleep(1000);
  for (int number = 1; number <= messages; ++number) {
    if (rank == 1) {
      memset(b.host, number, b.bytes);
      put(&b, stream);
      CHECK(ncclSend(b.device, count, ncclInt32, 0, comm, stream));
      wait_for(stream);
      continue;
    }
    CHECK(ncclRecv(b.device, count, ncclInt32, 1, comm, stream));
    get(&b, stream);
    if (b.host[0] != number || b.host[b.bytes - 1] != number) {
      ncclResult_t error = ncclSuccess;
      CHECK(ncclCommGetAsyncError(comm, &error));
      fprintf(stderr, "message %d: %s\n", number,
              error == ncclSuccess ? "" : ncclGetLastError(comm));
      exit(1);
    }
  }
  free_buffer(&b);
  if (rank == 1) mark_the_end(file);
}

static void must_refuse(ncclResult_t found) {
  if (found == ncclInvalidUsage && strstr(ncclGetLastError(NULL), "forked from") != NULL) return;
  fprintf(stderr, "a child's call: %d, %s\n", found, ncclGetLastError(NULL));
  _exit(1);
}

/* A child has none of the threads and streams of its parent, whose communicator stays usable. */
static void fork_a_child(ncclComm_t comm) {
  void* const stream = new_stream();
  struct buffer b = new_buffer(4);
  const pid_t child = fork();
  if (child == 0) {
    must_refuse(ncclAllReduce(b.device, b.device, 1, ncclInt32, ncclSum, comm, stream));
    must_refuse(ncclSend(b.device, 1, ncclInt32, 0, comm, stream));
    must_refuse(ncclCommDestroy(comm));
    must_refuse(ncclCommAbort(comm));
    _exit(0);
  }
  int status = -1;
  if (waitpid(child, &status, 0) != child || status != 0) exit(1);
  CHECK(ncclAllReduce(b.device, b.device, 1, ncclInt32, ncclSum, comm, stream));
  get(&b, stream);
  free_buffer(&b);
}

int main(int argc, char** argv) {
  if (argc != 5) return 2;
  open_gpu();
  const int rank = atoi(argv[1]), ranks = atoi(argv[2]);
  ncclComm_t alone = NULL;
  if (getenv("ALONE") != NULL) {
    ncclUniqueId own;
    CHECK(ncclGetUniqueId(&own));
    CHECK(ncclCommInitRank(&alone, 1, own, 0));
  }
  const ncclUniqueId id = meet(rank, argv[3]);
  ncclComm_t comm = NULL;
  CHECK(ncclCommInitRank(&comm, ranks, id, rank));
  if (strcmp(argv[4], "nocolor") == 0) split(comm, rank, ranks);
  if (strcmp(argv[4], "shrink") == 0) split_after_shrink(comm, rank, ranks);
  if (strcmp(argv[4], "fork") == 0) fork_a_child(comm);
  if (getenv("LONG") != NULL) pass_a_long_message(comm, rank);
  if (strcmp(argv[4], "gone") == 0) pass_messages(comm, rank, argv[3]);
  CHECK(ncclCommDestroy(comm));
  if (alone != NULL) CHECK(ncclCommDestroy(alone));
  printf("ok\n");
  return 0;
}

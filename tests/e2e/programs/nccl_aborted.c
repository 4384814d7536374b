/* Calls of a thread while another one aborts their communicators:
 *
 *   nccl_aborted RANK 2 FOLDER WHAT     FOLDER passes the unique id
 *
 * WHAT: group (a sum of two communicators each; one of them is aborted while the first sum waits
 * for rank 1, which then makes the other one), full (so many groups of four communicators, without
 * an answer, that the program's own stream is full, and the call waits in the driver), behind (a
 * call of one communicator stands behind that of another one in the program's stream; the later
 * one is aborted first), given (a call stands behind a slow operation of the program when it is
 * aborted; its buffer is used again as soon as the abort returns), shrink
 * (which rank 1 does not join), streams (as many streams of the program in a group as a stream has
 * room for operations; nobody aborts), failed (no memory of the GPU: the communicator is destroyed
 * all the same).
 *
 * GPU=1: buffers are memory of the GPU that libcuda.so.1 finds. */
#define _GNU_SOURCE
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "nccl_gpu.h"
#include "nccl_meet.h"

enum { most = 4 };
static int rank, ranks;
static ncclComm_t comms[most];
static void* stream;
static char told[4096];

static void make(int count) {
  for (int i = 1; i < count; ++i) CHECK(ncclCommSplit(comms[0], 0, rank, &comms[i], NULL));
}

/* A thread that aborts some of the communicators after a while. */
struct aborting {
  int first, count;
};
static pthread_mutex_t handles = PTHREAD_MUTEX_INITIALIZER;
static int end;                  /* no handle may be used any more */
static volatile int groups = -1; /* that have ended; less than 0: they are not counted */

/* Until a call waits. */
static void await_rest(void) {
  usleep(300000);
  for (int found = -1; groups >= 0 && (groups < 30 || groups != found);) {
    found = groups;
    usleep(1000000);
  }
}
static void* abort_some(void* argument) {
  const struct aborting* const some = argument;
  await_rest();
  if (groups >= 200) fprintf(stderr, "no call has waited\n"), exit(1);
  pthread_mutex_lock(&handles);
  end = 1;
  pthread_mutex_unlock(&handles);
  for (int i = some->first; i < some->first + some->count; ++i) CHECK(ncclCommAbort(comms[i]));
  fclose(fopen(told, "w"));
  return NULL;
}
static void await_told(void) {
  while (access(told, F_OK) != 0) usleep(1000);
}

/* The stream does nothing more until `function` has returned. */
static void call_on(void* on, void (*function)(void*)) {
  void* const library = dlopen("libcuda.so.1", RTLD_NOW);
  int (*launch_host_function)(void*, void (*)(void*), void*) =
      (int (*)(void*, void (*)(void*), void*))symbol(library, "cuLaunchHostFunc");
  CHECK(launch_host_function(on, function, NULL));
}

static void expect(const char* what, ncclResult_t result, const char* words) {
  if (result == ncclSuccess || strstr(ncclGetLastError(NULL), words) == NULL)
    fprintf(stderr, "%s: %d, %s\n", what, result, ncclGetLastError(NULL)), exit(1);
}

static void abort_one_of_a_group(void) {
  const size_t bytes = 3 << 20; /* more chunks of 4 KB than a stream takes */
  const int aborted = atoi(getenv("ABORTED"));
  struct buffer in[2], out[2];
  make(2);
  for (int i = 0; i < 2; ++i) {
    in[i] = new_buffer(bytes), out[i] = new_buffer(bytes);
    memset(in[i].host, 3 + i, bytes);
    put(&in[i], stream);
  }
  pthread_t thread;
  struct aborting some = {aborted, 1};
  if (rank == 0) pthread_create(&thread, NULL, abort_some, &some);
  if (rank == 1) await_told();
  CHECK(ncclGroupStart());
  for (int i = 0; i < 2; ++i)
    if (rank == 0 || i != aborted)
      ncclAllReduce(in[i].device, out[i].device, bytes, ncclUint8, ncclSum, comms[i], stream);
  const ncclResult_t result = ncclGroupEnd();
  if (rank == 0) expect("the group", result, "the communicator was aborted");
  if (rank == 0) pthread_join(thread, NULL);
  const int other = 1 - aborted;
  get(&out[other], stream);
  for (size_t i = 0; i < bytes; ++i)
    if (out[other].host[i] != 2 * (3 + other)) fprintf(stderr, "byte %zu is wrong\n", i), exit(1);
  if (rank == 1) CHECK(ncclCommAbort(comms[aborted]));
  CHECK(ncclCommDestroy(comms[other]));
  printf("ok\n");
}

static void fill_own_stream(void) {
  make(most);
  if (rank == 1) {
    await_told();
    for (int i = 0; i < most; ++i) CHECK(ncclCommAbort(comms[i]));
    printf("ok\n");
    return;
  }
  pthread_t thread;
  struct aborting all = {0, most};
  struct buffer b = new_buffer(64);
  pthread_create(&thread, NULL, abort_some, &all);
  ncclResult_t result = ncclSuccess;
  for (groups = 0; groups < 200 && result == ncclSuccess; ++groups) {
    CHECK(ncclGroupStart());
    pthread_mutex_lock(&handles);
    for (int i = 0; i < most && !end; ++i) {
      ncclSend(b.device, 16, ncclInt8, 1, comms[i], stream);
      ncclRecv((char*)b.device + 32, 16, ncclInt8, 1, comms[i], stream);
    }
    pthread_mutex_unlock(&handles);
    result = ncclGroupEnd();
  }
  pthread_join(thread, NULL);
  if (result != ncclSuccess) expect("a group", result, "the communicator was aborted");
  wait_for(stream);
  printf("ok\n");
}

static void abort_behind_another(void) {
  struct buffer b = new_buffer(1 << 20);
  make(2);
  for (int i = 1; i >= 0 && rank == 0; --i)
    CHECK(getenv("MESSAGE") != NULL
              ? ncclRecv(b.device, b.bytes, ncclInt8, 1, comms[i], stream)
              : ncclAllReduce(b.device, b.device, b.bytes, ncclUint8, ncclSum, comms[i], stream));
  if (rank == 1) await_told(); /* its abort would end the waits of rank 0, too */
  usleep(100000);
  for (int i = 0; i < 2; ++i) CHECK(ncclCommAbort(comms[i]));
  wait_for(stream);
  if (rank == 0) fclose(fopen(told, "w"));
  printf("ok\n");
}

static volatile int may_go_on;
static void hold(void* unused) {
  (void)unused;
  while (!may_go_on) usleep(1000);
}
static void* go_on_later(void* unused) {
  usleep(1000000);
  may_go_on = 1;
  return unused;
}

static void give_buffer_away(void) {
  if (rank == 1) {
    await_told();
    CHECK(ncclCommAbort(comms[0]));
    printf("ok\n");
    return;
  }
  struct buffer b = new_buffer((size_t)atol(getenv("BYTES")));
  void* const other = new_stream();
  pthread_t thread;
  call_on(stream, hold);
  CHECK(getenv("MESSAGE") != NULL
            ? ncclRecv(b.device, b.bytes, ncclInt8, 1, comms[0], stream)
            : ncclBroadcast(b.device, b.device, b.bytes, ncclInt8, 1, comms[0], stream));
  pthread_create(&thread, NULL, go_on_later, NULL);
  CHECK(ncclCommAbort(comms[0]));
  memset(b.host, 0x5a, b.bytes);
  put(&b, other);
  pthread_join(thread, NULL);
  wait_for(stream);
  get(&b, other);
  for (size_t i = 0; i < b.bytes; ++i)
    if (b.host[i] != 0x5a) fprintf(stderr, "byte %zu was written\n", i), exit(1);
  fclose(fopen(told, "w"));
  printf("ok\n");
}

static void shrink_alone(void) {
  int excluded = 1; /* of three */
  ncclComm_t made = NULL;
  if (rank == 2) {
    await_told();
    CHECK(ncclCommAbort(comms[0]));
    printf("ok\n");
    return;
  }
  if (rank == 1) {
    CHECK(ncclCommAbort(comms[0]));
    printf("ok\n");
    return;
  }
  pthread_t thread;
  struct aborting some = {0, 1};
  pthread_create(&thread, NULL, abort_some, &some);
  expect("ncclCommShrink", ncclCommShrink(comms[0], &excluded, 1, &made, NULL, 0),
         "the communicator was aborted");
  pthread_join(thread, NULL);
  printf("ok\n");
}

static void use_many_streams(void) {
  enum { count = 700 };
  void* own[count];
  struct buffer in = new_buffer(count), out = new_buffer(count);
  for (int i = 0; i < count; ++i) in.host[i] = (unsigned char)(i + rank), own[i] = new_stream();
  put(&in, stream);
  wait_for(stream);
  CHECK(ncclGroupStart());
  for (int i = 0; i < count; ++i) {
    ncclSend((char*)in.device + i, 1, ncclInt8, 1 - rank, comms[0], own[i]);
    ncclRecv((char*)out.device + i, 1, ncclInt8, 1 - rank, comms[0], own[i]);
  }
  CHECK(ncclGroupEnd());
  for (int i = 0; i < count; ++i) wait_for(own[i]);
  get(&out, stream);
  for (int i = 0; i < count; ++i)
    if (out.host[i] != (unsigned char)(i + 1 - rank))
      fprintf(stderr, "message %d is wrong\n", i), exit(1);
  CHECK(ncclCommDestroy(comms[0]));
  printf("ok\n");
}

static void rest(void* unused) {
  (void)unused;
  usleep(1000000);
}

static void destroy_after_failure(void) {
  unsigned char* const nowhere = (unsigned char*)16;
  if (rank == 0) call_on(stream, rest);
  if (rank == 0) CHECK(ncclSend(nowhere, 1 << 20, ncclInt8, 1, comms[0], stream));
  if (rank == 0) (void)ncclCommFinalize(comms[0]);
  if (rank == 0) fclose(fopen(told, "w"));
  if (rank == 1) await_told();
  CHECK(ncclCommDestroy(comms[0]));
  printf("ok\n");
}

int main(int argc, char** argv) {
  if (argc != 5) return 2;
  open_gpu();
  rank = atoi(argv[1]), ranks = atoi(argv[2]);
  snprintf(told, sizeof told, "%s/told", argv[3]);
  const ncclUniqueId id = meet(rank, argv[3]);
  CHECK(ncclCommInitRank(&comms[0], ranks, id, rank));
  stream = new_stream();
  if (strcmp(argv[4], "group") == 0) abort_one_of_a_group();
  if (strcmp(argv[4], "full") == 0) fill_own_stream();
  if (strcmp(argv[4], "behind") == 0) abort_behind_another();
  if (strcmp(argv[4], "given") == 0) give_buffer_away();
  if (strcmp(argv[4], "shrink") == 0) shrink_alone();
  if (strcmp(argv[4], "streams") == 0) use_many_streams();
  if (strcmp(argv[4], "failed") == 0) destroy_after_failure();
  return 0;
}

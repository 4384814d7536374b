/* One rank whose process cannot start threads for a while: its calls fail, and later ones succeed.
 *
 *   nccl_no_threads
 *
 * Buffers are host memory. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "nccl_meet.h"

static int left = 1 << 30; /* threads that can be started */

/* The library finds it before that of the C library. */
int pthread_create(pthread_t* thread, const pthread_attr_t* attributes, void* (*body)(void*),
                   void* argument) {
  int (*create)(pthread_t*, const pthread_attr_t*, void* (*)(void*), void*) = NULL;
  *(void**)&create = dlsym(RTLD_NEXT, "pthread_create");
  if (left == 0) return EAGAIN;
  --left;
  return create(thread, attributes, body, argument);
}

static void expect(ncclResult_t result, const char* words) {
  if (result != ncclSuccess && strstr(ncclGetLastError(NULL), words) != NULL) return;
  fprintf(stderr, "%d: %s; wanted: %s\n", result, ncclGetLastError(NULL), words);
  exit(1);
}

int main(void) {
  enum { count = 4 };
  ncclUniqueId id;
  ncclComm_t comms[count], waits = NULL;
  int values[count];
  CHECK(ncclGetUniqueId(&id));
  CHECK(ncclCommInitRank(&comms[0], 1, id, 0));
  for (int i = 1; i < count; ++i) CHECK(ncclCommSplit(comms[0], 0, 0, &comms[i], NULL));
  for (int turn = 0; turn < 2; ++turn) {
    CHECK(ncclGroupStart());
    for (int i = 0; i < count; ++i) {
      values[i] = i;
      ncclAllReduce(&values[i], &values[i], 1, ncclInt32, ncclSum, comms[i], NULL);
    }
    if (turn == 0) left = 2;
    if (turn == 0) expect(ncclGroupEnd(), "2 threads can be started, and 4 are needed");
    if (turn == 1) CHECK(ncclGroupEnd());
    left = 1 << 30;
  }
  ncclConfig_t config = {sizeof config, 0xcafebeef, 23203, 0, {0}};
  left = 0;
  expect(ncclCommInitRankConfig(&waits, 1, id, 0, &config), "Resource temporarily unavailable");
  left = 1 << 30;
  CHECK(ncclCommAbort(waits));
  for (int i = count - 1; i >= 0; --i) CHECK(ncclCommDestroy(comms[i]));
  printf("ok\n");
  return 0;
}

/* Latency and bus bandwidth of NCCL's collectives, whichever libnccl.so.2 is loaded, and the
 * ceiling: copies between the GPU and pinned memory of the host. One rank; all ranks of a job run
 * it.
 *
 *   nccl_perf RANK RANKS FOLDER OPERATIONS MIN_BYTES MAX_BYTES
 *
 * FOLDER passes the unique id. OPERATIONS: names joined by commas. Rank 0 prints a JSON line for
 * each operation and size: seconds of a call (median of batches), algorithm and bus bandwidth as
 * nccl-tests define them, results checked. Values are floats. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "programs/nccl_meet.h"

typedef unsigned long long pointer;
static int (*cu_alloc)(pointer*, size_t);
static int (*cu_to_device)(pointer, const void*, size_t, void*);
static int (*cu_to_host)(void*, pointer, size_t, void*);
static int (*cu_synchronize)(void*);
static int (*cu_stream)(void**, unsigned);
static int (*cu_register)(void*, size_t, unsigned);

static void* symbol(void* library, const char* name) {
  void* const found = dlsym(library, name);
  if (found == NULL) fprintf(stderr, "no %s\n", name), exit(1);
  return found;
}

static void open_gpu(void) {
  void* const library = dlopen("libcuda.so.1", RTLD_NOW);
  if (library == NULL) fprintf(stderr, "%s\n", dlerror()), exit(1);
  int (*init)(unsigned) = (int (*)(unsigned))symbol(library, "cuInit");
  int (*retain)(void**, int) = (int (*)(void**, int))symbol(library, "cuDevicePrimaryCtxRetain");
  int (*push)(void*) = (int (*)(void*))symbol(library, "cuCtxPushCurrent_v2");
  cu_alloc = (int (*)(pointer*, size_t))symbol(library, "cuMemAlloc_v2");
  cu_to_device =
      (int (*)(pointer, const void*, size_t, void*))symbol(library, "cuMemcpyHtoDAsync_v2");
  cu_to_host = (int (*)(void*, pointer, size_t, void*))symbol(library, "cuMemcpyDtoHAsync_v2");
  cu_synchronize = (int (*)(void*))symbol(library, "cuStreamSynchronize");
  cu_stream = (int (*)(void**, unsigned))symbol(library, "cuStreamCreate");
  cu_register = (int (*)(void*, size_t, unsigned))symbol(library, "cuMemHostRegister_v2");
  void* context = NULL;
  CHECK(init(0));
  CHECK(retain(&context, 0));
  CHECK(push(context));
}

static double now(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

struct job {
  int rank, ranks;
  ncclComm_t comm;
  void* stream;
  pointer in, out;
  float* host;
};

/* `bytes`: of what nccl-tests call the size of the operation. */
static int call(const struct job* j, const char* what, size_t bytes) {
  const size_t n = bytes / 4, each = n / (size_t)j->ranks;
  const void* const in = (const void*)j->in;
  void* const out = (void*)j->out;
  if (strcmp(what, "all_reduce") == 0)
    return ncclAllReduce(in, out, n, ncclFloat32, ncclSum, j->comm, j->stream);
  if (strcmp(what, "reduce_scatter") == 0)
    return ncclReduceScatter(in, out, each, ncclFloat32, ncclSum, j->comm, j->stream);
  if (strcmp(what, "all_gather") == 0)
    return ncclAllGather(in, out, each, ncclFloat32, j->comm, j->stream);
  if (strcmp(what, "broadcast") == 0)
    return ncclBroadcast(in, out, n, ncclFloat32, 0, j->comm, j->stream);
  if (strcmp(what, "reduce") == 0)
    return ncclReduce(in, out, n, ncclFloat32, ncclSum, 0, j->comm, j->stream);
  if (strcmp(what, "alltoall") != 0) fprintf(stderr, "no operation %s\n", what), exit(2);
  int result = ncclGroupStart();
  for (int r = 0; r < j->ranks; ++r) {
    if (result == 0)
      result = ncclSend((const char*)in + 4 * each * (size_t)r, each, ncclFloat32, r, j->comm,
                        j->stream);
    if (result == 0)
      result =
          ncclRecv((char*)out + 4 * each * (size_t)r, each, ncclFloat32, r, j->comm, j->stream);
  }
  const int ended = ncclGroupEnd();
  return result != 0 ? result : ended;
}

/* What moves over a rank's link, over what the size says: docs/PERFORMANCE.md of nccl-tests. */
static double bus_factor(const char* what, int ranks) {
  if (strcmp(what, "all_reduce") == 0) return 2.0 * (ranks - 1) / ranks;
  return strcmp(what, "broadcast") == 0 || strcmp(what, "reduce") == 0
             ? 1.0
             : (double)(ranks - 1) / ranks;
}

static int by_size(const void* a, const void* b) {
  const double left = *(const double*)a, right = *(const double*)b;
  return left < right ? -1 : left > right;
}

static void check(const struct job* j, const char* what, size_t bytes) {
  const int gets = strcmp(what, "reduce") != 0 || j->rank == 0;
  const float reduced = (float)(j->ranks * (j->ranks + 1) / 2), first = 1;
  if (!gets) return;
  CHECK(cu_to_host(j->host, j->out, 4, j->stream));
  CHECK(cu_synchronize(j->stream));
  const int reduces = strstr(what, "reduce") != NULL;
  if (bytes >= 4 * (size_t)j->ranks && j->host[0] != (reduces ? reduced : first))
    fprintf(stderr, "%s of %zu bytes: %f\n", what, bytes, (double)j->host[0]), exit(1);
}

static void measure(const struct job* j, const char* what, size_t bytes) {
  enum { batches = 7 };
  double seconds[batches];
  const int calls = bytes <= 65536 ? 50 : bytes <= 4 << 20 ? 10 : 2;
  for (int batch = -1; batch < batches; ++batch) { /* the first one warms up */
    CHECK(ncclAllReduce((void*)j->out, (void*)j->out, 1, ncclFloat32, ncclSum, j->comm, j->stream));
    CHECK(cu_synchronize(j->stream));
    const double begin = now();
    for (int i = 0; i < calls; ++i) CHECK(call(j, what, bytes));
    CHECK(cu_synchronize(j->stream));
    if (batch >= 0) seconds[batch] = (now() - begin) / calls;
  }
  int failed = 0;
  CHECK(ncclCommGetAsyncError(j->comm, &failed));
  CHECK(failed);
  check(j, what, bytes);
  qsort(seconds, batches, sizeof seconds[0], by_size);
  const double median = seconds[batches / 2], rate = (double)bytes / median / 1e9;
  if (j->rank == 0)
    printf(
        "{\"operation\": \"%s\", \"ranks\": %d, \"bytes\": %zu, \"seconds\": %.9f, "
        "\"algorithm_GBps\": %.4f, \"bus_GBps\": %.4f}\n",
        what, j->ranks, bytes, median, rate, rate * bus_factor(what, j->ranks));
  fflush(stdout);
}

/* Copies each way, of pinned memory: what no collective through the host can be faster than. */
static void ceiling(const struct job* j, size_t bytes) {
  void* const pinned = aligned_alloc(4096, bytes);
  memset(pinned, 1, bytes);
  CHECK(cu_register(pinned, bytes, 0));
  for (int to_device = 0; to_device < 2; ++to_device) {
    double best = 1e9;
    for (int turn = 0; turn < 5; ++turn) {
      const double begin = now();
      CHECK(to_device ? cu_to_device(j->in, pinned, bytes, j->stream)
                      : cu_to_host(pinned, j->in, bytes, j->stream));
      CHECK(cu_synchronize(j->stream));
      if (now() - begin < best) best = now() - begin;
    }
    if (j->rank == 0)
      printf(
          "{\"operation\": \"pinned copy to the %s\", \"ranks\": %d, \"bytes\": %zu, \"seconds\": "
          "%.9f, \"algorithm_GBps\": %.4f}\n",
          to_device ? "GPU" : "host", j->ranks, bytes, best, (double)bytes / best / 1e9);
  }
}

int main(int argc, char** argv) {
  if (argc != 7) return 2;
  struct job j = {.rank = atoi(argv[1]), .ranks = atoi(argv[2])};
  const size_t least = strtoull(argv[5], NULL, 10), most = strtoull(argv[6], NULL, 10);
  open_gpu();
  CHECK(cu_stream(&j.stream, 1));
  CHECK(cu_alloc(&j.in, most + 64));
  CHECK(cu_alloc(&j.out, most + 64));
  j.host = malloc(most + 64);
  for (size_t i = 0; i < most / 4; ++i) j.host[i] = (float)(j.rank + 1);
  CHECK(cu_to_device(j.in, j.host, most, j.stream));
  CHECK(cu_synchronize(j.stream));
  CHECK(ncclCommInitRank(&j.comm, j.ranks, meet(j.rank, argv[3]), j.rank));
  char* list = strdup(argv[4]);
  for (char* what = strtok(list, ","); what != NULL; what = strtok(NULL, ","))
    for (size_t bytes = least; bytes <= most; bytes *= 4) measure(&j, what, bytes);
  ceiling(&j, most);
  CHECK(ncclCommDestroy(j.comm));
  return 0;
}

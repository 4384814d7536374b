/* Latency and bus bandwidth of NCCL's collectives, whichever libnccl.so.2 is loaded, and their
 * ceiling: copies between the GPU and pinned memory of the host. Runs one rank; all ranks of a job
 * run this program.
 *
 *   nccl_perf RANK RANKS FOLDER OPERATIONS MIN_BYTES MAX_BYTES [CALLS]
 *
 * RANK "-": all ranks are threads of this process, whose kernels run side by side on the GPU.
 * FOLDER passes the unique id. OPERATIONS: names joined by commas. Rank 0 prints a JSON line for
 * each operation and size: seconds of a call (median of batches), algorithm and bus bandwidth as
 * nccl-tests define them, seconds of CPU that rank 0 spent on a call (mean); results are checked.
 * Values are floats. CALLS: the most in a batch. */
#define _GNU_SOURCE
#include <pthread.h>
#include <stdint.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include "gpu_driver.h"
#include "programs/nccl_meet.h"

/* CPU time of this process: of all its threads, NCCL's proxies included. */
static double cpu_seconds(void) {
  struct rusage used;
  getrusage(RUSAGE_SELF, &used);
  return (double)(used.ru_utime.tv_sec + used.ru_stime.tv_sec) +
         1e-6 * (double)(used.ru_utime.tv_usec + used.ru_stime.tv_usec);
}

struct job {
  int rank, ranks, max_calls;
  ncclComm_t comm;
  void* stream;
  device_pointer in, out;
  float* host;
};

/* `bytes`: the size of the operation as nccl-tests define it. */
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

/* Bytes over a rank's link, divided by the size: docs/PERFORMANCE.md of nccl-tests. */
static double bus_factor(const char* what, int ranks) {
  if (strcmp(what, "all_reduce") == 0) return 2.0 * (ranks - 1) / ranks;
  return strcmp(what, "broadcast") == 0 || strcmp(what, "reduce") == 0
             ? 1.0
             : (double)(ranks - 1) / ranks;
}

static void check(const struct job* j, const char* what, size_t bytes) {
  const int gets = strcmp(what, "reduce") != 0 || j->rank == 0;
  const float reduced = (float)(j->ranks * (j->ranks + 1) / 2), first = 1;
  if (!gets) return;
  CU(cu.to_host(j->host, j->out, 4, j->stream));
  CU(cu.synchronize(j->stream));
  const int reduces = strstr(what, "reduce") != NULL;
  if (bytes >= 4 * (size_t)j->ranks && j->host[0] != (reduces ? reduced : first))
    fprintf(stderr, "%s of %zu bytes: %f\n", what, bytes, (double)j->host[0]), exit(1);
}

static void measure(const struct job* j, const char* what, size_t bytes) {
  enum { batches = 7 };
  double seconds[batches], cpu = 0;
  const int wished = bytes <= 65536 ? 50 : bytes <= 4 << 20 ? 10 : 2;
  const int calls = wished < j->max_calls ? wished : j->max_calls;
  for (int batch = -1; batch < batches; ++batch) { /* the first one warms up */
    CHECK(ncclAllReduce((void*)j->out, (void*)j->out, 1, ncclFloat32, ncclSum, j->comm, j->stream));
    CU(cu.synchronize(j->stream));
    const double begin = now(), cpu_begin = cpu_seconds();
    for (int i = 0; i < calls; ++i) CHECK(call(j, what, bytes));
    CU(cu.synchronize(j->stream));
    if (batch < 0) continue;
    seconds[batch] = (now() - begin) / calls;
    cpu += (cpu_seconds() - cpu_begin) / calls / batches;
  }
  int failed = 0;
  CHECK(ncclCommGetAsyncError(j->comm, &failed));
  CHECK(failed);
  check(j, what, bytes);
  const double middle = median(seconds, batches), rate = (double)bytes / middle / 1e9;
  if (j->rank == 0)
    printf(
        "{\"operation\": \"%s\", \"ranks\": %d, \"bytes\": %zu, \"seconds\": %.9f, "
        "\"algorithm_GBps\": %.4f, \"bus_GBps\": %.4f, \"cpu_seconds\": %.9f}\n",
        what, j->ranks, bytes, middle, rate, rate * bus_factor(what, j->ranks), cpu);
  fflush(stdout);
}

/* Copies of pinned memory, each way: no collective through the host can be faster. */
static void ceiling(const struct job* j, size_t bytes) {
  void* const pinned = aligned_alloc(4096, bytes);
  memset(pinned, 1, bytes);
  CU(cu.register_host(pinned, bytes, 0));
  for (int to_device = 0; to_device < 2; ++to_device) {
    double best = 1e9;
    for (int turn = 0; turn < 5; ++turn) {
      const double begin = now();
      CU(to_device ? cu.to_device(j->in, pinned, bytes, j->stream)
                   : cu.to_host(pinned, j->in, bytes, j->stream));
      CU(cu.synchronize(j->stream));
      if (now() - begin < best) best = now() - begin;
    }
    if (j->rank == 0)
      printf(
          "{\"operation\": \"pinned copy to the %s\", \"ranks\": %d, \"bytes\": %zu, \"seconds\": "
          "%.9f, \"algorithm_GBps\": %.4f}\n",
          to_device ? "GPU" : "host", j->ranks, bytes, best, (double)bytes / best / 1e9);
  }
}

struct wish {
  int rank, ranks, max_calls;
  const char *folder, *operations;
  size_t least, most;
};

static void* run(void* given) {
  const struct wish* const w = given;
  struct job j = {.rank = w->rank, .ranks = w->ranks, .max_calls = w->max_calls};
  open_gpu();
  CU(cu.stream(&j.stream, 1));
  CU(cu.alloc(&j.in, w->most + 64));
  CU(cu.alloc(&j.out, w->most + 64));
  j.host = malloc(w->most + 64);
  for (size_t i = 0; i < w->most / 4; ++i) j.host[i] = (float)(j.rank + 1);
  CU(cu.to_device(j.in, j.host, w->most, j.stream));
  CU(cu.synchronize(j.stream));
  CHECK(ncclCommInitRank(&j.comm, j.ranks, meet(j.rank, w->folder), j.rank));
  char *list = strdup(w->operations), *rest = NULL;
  for (char* what = strtok_r(list, ",", &rest); what != NULL; what = strtok_r(NULL, ",", &rest))
    for (size_t bytes = w->least; bytes <= w->most; bytes *= 4) measure(&j, what, bytes);
  ceiling(&j, w->most);
  CHECK(ncclCommDestroy(j.comm));
  return NULL;
}

int main(int argc, char** argv) {
  if (argc != 7 && argc != 8) return 2;
  struct wish wish = {.rank = atoi(argv[1]),
                      .ranks = atoi(argv[2]),
                      .max_calls = argc == 8 ? atoi(argv[7]) : 1000,
                      .folder = argv[3],
                      .operations = argv[4],
                      .least = strtoull(argv[5], NULL, 10),
                      .most = strtoull(argv[6], NULL, 10)};
  if (strcmp(argv[1], "-") != 0) return run(&wish) != NULL;
  enum { max_threads = 16 };
  if (wish.ranks > max_threads) return 2;
  pthread_t threads[max_threads];
  struct wish wishes[max_threads];
  open_gpu(); /* fills the table of functions before threads start */
  for (int r = 0; r < wish.ranks; ++r) {
    wishes[r] = wish;
    wishes[r].rank = r;
    if (pthread_create(&threads[r], NULL, run, &wishes[r]) != 0) return 1;
  }
  for (int r = 0; r < wish.ranks; ++r) pthread_join(threads[r], NULL);
  return 0;
}

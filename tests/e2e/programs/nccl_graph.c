/* Collectives in a CUDA graph, which is captured once and launched many times, with calls outside
 * of it in between; each turn has other numbers, and what each rank gets is compared.
 *
 *   nccl_graph RANK RANKS FOLDER graph|refused|killed
 *
 * refused: the capture is refused in words, and calls outside of it work. killed: rank 1 is killed
 * between two launches. */
#define _GNU_SOURCE
#include <signal.h>

#include "nccl_gpu.h"
#include "nccl_meet.h"

enum { COUNT = 3000, TURNS = 30, DIES = 10, RELAXED = 2 };

static ncclComm_t comm;
static void* stream;
static int rank, ranks;
static struct buffer in, sum, all, shares;

static void take(int status, const char* what) {
  if (status != 0) fprintf(stderr, "%s: %d\n", what, status), exit(1);
}

static int32_t brought(int by, int turn, int i) {
  return 1000 * turn + 10 * by + i;
}
static void bring(int turn) {
  for (int i = 0; i < COUNT; ++i) ((int32_t*)in.host)[i] = brought(rank, turn, i);
  put(&in, stream);
}

static ncclResult_t sum_up(void) {
  return ncclAllReduce(in.device, sum.device, COUNT, ncclInt32, ncclSum, comm, stream);
}
/* The calls of the graph: one after the other, and the last one takes what the first one gave. */
static void calls(void) {
  CHECK(sum_up());
  CHECK(ncclAllGather(in.device, all.device, COUNT, ncclInt32, comm, stream));
  CHECK(ncclReduceScatter(sum.device, shares.device, (size_t)(COUNT / ranks), ncclInt32, ncclSum,
                          comm, stream));
}

static int32_t sum_of(int turn, int i) {
  int32_t wanted = 0;
  for (int r = 0; r < ranks; ++r) wanted += brought(r, turn, i);
  return wanted;
}
static void expect(const struct buffer* b, int at, int32_t wanted, const char* what, int turn) {
  const int32_t found = ((const int32_t*)b->host)[at];
  if (found == wanted) return;
  fprintf(stderr, "rank %d: %s, turn %d: element %d is %d, not %d\n", rank, what, turn, at, found,
          wanted);
  exit(1);
}
static void expect_sum(int turn, const char* what) {
  get(&sum, stream);
  for (int i = 0; i < COUNT; ++i) expect(&sum, i, sum_of(turn, i), what, turn);
}
static void expect_calls(int turn) {
  get(&all, stream);
  for (int i = 0; i < ranks * COUNT; ++i)
    expect(&all, i, brought(i / COUNT, turn, i % COUNT), "AllGather in a graph", turn);
  get(&shares, stream);
  const int share = COUNT / ranks;
  for (int i = 0; i < share; ++i)
    expect(&shares, i, ranks * sum_of(turn, rank * share + i), "ReduceScatter in a graph", turn);
}

static void* capture(void) {
  void *graph = NULL, *executable = NULL;
  take(begin_capture(stream, RELAXED), "begin of the capture");
  calls();
  take(end_capture(stream, &graph), "end of the capture");
  take(instantiate(&executable, graph, 0), "the graph");
  take(destroy_graph(graph), "the captured graph");
  return executable;
}

static void many_launches(void) {
  bring(1);
  CHECK(sum_up());
  expect_sum(1, "before the graph");
  void* const graph = capture();
  for (int turn = 2; turn < TURNS; ++turn) {
    bring(turn);
    take(launch(graph, stream), "a launch");
    if (turn % 5 == 0) take(launch(graph, stream), "a launch right behind another");
    expect_sum(turn, "AllReduce in a graph");
    expect_calls(turn);
    if (turn % 3 != 0) continue;
    bring(100 + turn);
    CHECK(sum_up());
    expect_sum(100 + turn, "between two launches");
  }
  take(destroy_executable(graph), "the graph");
  CHECK(ncclCommDestroy(comm));
  printf("ok\n");
}

/* The others' streams go on, and an error names who has died. */
static void launches_without_rank_1(void) {
  void* const graph = capture();
  ncclResult_t found = ncclSuccess;
  for (int turn = 1; found == ncclSuccess; ++turn) {
    if (rank == 1 && turn == DIES) kill(getpid(), SIGKILL);
    bring(turn);
    take(launch(graph, stream), "a launch");
    get(&sum, stream);
    CHECK(ncclCommGetAsyncError(comm, &found));
    if (found == ncclSuccess) expect_sum(turn, "AllReduce in a graph");
  }
  printf("%s: %s\n", ncclGetErrorString(found), ncclGetLastError(comm));
  CHECK(ncclCommAbort(comm));
}

static void refused(void) {
  void* graph = NULL;
  bring(1);
  CHECK(sum_up());
  take(begin_capture(stream, RELAXED), "begin of the capture");
  const ncclResult_t result = sum_up();
  printf("%s: %s\n", ncclGetErrorString(result), ncclGetLastError(comm));
  take(end_capture(stream, &graph), "end of the capture");
  take(destroy_graph(graph), "the captured graph");
  bring(2);
  CHECK(sum_up());
  expect_sum(2, "after a capture that was refused");
  CHECK(ncclCommDestroy(comm));
}

int main(int argc, char** argv) {
  if (argc != 5) return 2;
  rank = atoi(argv[1]), ranks = atoi(argv[2]);
  open_gpu();
  stream = new_stream();
  const ncclUniqueId id = meet(rank, argv[3]);
  CHECK(ncclCommInitRank(&comm, ranks, id, rank));
  in = new_buffer(4 * COUNT), sum = new_buffer(4 * COUNT);
  all = new_buffer((size_t)(4 * COUNT * ranks)), shares = new_buffer((size_t)(4 * COUNT / ranks));
  if (strcmp(argv[4], "graph") == 0) many_launches();
  if (strcmp(argv[4], "killed") == 0) launches_without_rank_1();
  if (strcmp(argv[4], "refused") == 0) refused();
  free_buffer(&in), free_buffer(&sum), free_buffer(&all), free_buffer(&shares);
  return 0;
}

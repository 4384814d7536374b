/* How ranks come together, and memory of ncclMemAlloc: one rank.
 *
 *   nccl_meetings RANK RANKS FOLDER WHAT
 *
 * FOLDER passes the unique id, and files by which ranks say how far they are; with NCCL_COMM_ID
 * every rank makes the id by itself. Buffers are memory of the host. */
#define _GNU_SOURCE
#include "nccl_meet.h"

#include <string.h>
#include <sys/wait.h>

#define STEPS 600 /* of 100 ms */
#define NEED(condition)                                                                        \
  do {                                                                                         \
    if (!(condition)) fprintf(stderr, "line %d: not so: %s\n", __LINE__, #condition), exit(1); \
  } while (0)

static char path_[512];
static const char* path(const char* folder, const char* name) {
  snprintf(path_, sizeof path_, "%s/%s", folder, name);
  return path_;
}
static void say(const char* folder, const char* name) {
  FILE* const file = fopen(path(folder, name), "w");
  if (file == NULL || fclose(file) != 0) exit(1);
}
static void await(const char* folder, const char* name) {
  for (int i = 0; access(path(folder, name), F_OK) != 0; ++i) {
    if (i == STEPS) fprintf(stderr, "no %s\n", name), exit(1);
    usleep(100000);
  }
}

static ncclComm_t comm;
static void print_failure(ncclResult_t result) {
  printf("%s: %s\n", ncclGetErrorString(result),
         result == ncclSuccess ? "" : ncclGetLastError(NULL));
  fflush(stdout);
}

static void sum_of_ranks(int rank, int ranks) {
  int32_t value = rank + 1;
  CHECK(ncclAllReduce(&value, &value, 1, ncclInt32, ncclSum, comm, NULL));
  if (value != ranks * (ranks + 1) / 2) fprintf(stderr, "sum %d\n", value), exit(1);
}

/* Rank 1 dies while the others are not all there; rank 0 is told, and rank 2, who comes afterwards,
 * is told at once. */
static void late(int rank, int ranks, const char* folder) {
  const ncclUniqueId id = meet(rank, folder);
  if (rank == 1) alarm(4); /* it has come by then, on a busy machine too: else nobody knows of it */
  if (rank == 2) await(folder, "given_up");
  print_failure(ncclCommInitRank(&comm, ranks, id, rank));
  if (rank == 0) say(folder, "given_up");
  if (rank == 0) await(folder, "told");
  if (rank == 2) say(folder, "told");
}

/* Rank 0 ends before the others have asked it. */
static void without_root(int rank, int ranks, const char* folder) {
  const ncclUniqueId id = meet(rank, folder);
  if (rank == 0) exit(0); /* its parent makes the file "ended" */
  await(folder, "ended");
  print_failure(ncclCommInitRank(&comm, ranks, id, rank));
}

/* Says what the call gives, when it does. */
static void come(int rank, int ranks, const char* folder, int is_gated) {
  const ncclUniqueId id = meet(rank, folder);
  if (is_gated && rank != 1) await(folder, "go");
  const ncclResult_t result = ncclCommInitRank(&comm, ranks, id, rank);
  if (result == ncclSuccess) sum_of_ranks(rank, ranks);
  print_failure(result);
}

/* Rank 1 gives up before its first call, and lives on. */
static void give_up(int rank, int ranks, const char* folder) {
  const ncclUniqueId id = meet(rank, folder);
  CHECK(ncclCommInitRank(&comm, ranks, id, rank));
  if (rank == 1) {
    CHECK(ncclCommAbort(comm));
    await(folder, "told");
    return;
  }
  int32_t value = 1;
  print_failure(ncclAllReduce(&value, &value, 1, ncclInt32, ncclSum, comm, NULL));
  say(folder, "told");
}

/* Children are the ranks; what their parent has listens on, and its pool stays, when they end. */
static void forked(int ranks) {
  for (int turn = 0; turn < 2; ++turn) {
    ncclUniqueId id;
    CHECK(ncclGetUniqueId(&id));
    for (int rank = 0; rank < ranks; ++rank) {
      if (fork() != 0) continue;
      CHECK(ncclCommInitRank(&comm, ranks, id, rank));
      sum_of_ranks(rank, ranks);
      exit(0);
    }
    for (int rank = 0; rank < ranks; ++rank) {
      int status = -1;
      if (wait(&status) < 0 || status != 0) exit(1);
    }
  }
  print_failure(ncclSuccess);
}

#define REFUSED(call, words)                                                                     \
  do {                                                                                           \
    const ncclResult_t found_ = (call);                                                          \
    if (found_ == ncclSuccess || strstr(ncclGetLastError(NULL), words) == NULL)                  \
      fprintf(stderr, "line %d: %s: %d, %s\n", __LINE__, #call, found_, ncclGetLastError(NULL)), \
          exit(1);                                                                               \
  } while (0)

/* Memory in the pool is memory: it is written and read, registered and sent from, where it lies. */
static void memory(int rank, int ranks, const char* folder) {
  enum { count = 1 << 20 };
  int32_t *in = NULL, *out = NULL;
  void *window = NULL, *handle = NULL, *data = NULL;
  ncclComm_t half = NULL;
  for (size_t less = 0; less < 3; ++less)
    REFUSED(ncclMemAlloc(&data, SIZE_MAX - 2048 * less), "ncclMemAlloc");
  if (getenv("PENSTOCK_POOL") == NULL)
    REFUSED(ncclMemAlloc((void**)&in, 1), "knows no pool yet: set PENSTOCK_POOL");
  const ncclUniqueId id = meet(rank, folder);
  CHECK(ncclCommInitRank(&comm, ranks, id, rank));
  CHECK(ncclMemAlloc((void**)&in, 4 * count));
  CHECK(ncclMemAlloc((void**)&out, 4 * count));
  NEED((uintptr_t)in % 4096 == 0);
  CHECK(ncclCommWindowRegister(comm, in, 4 * count, &window, 1));
  CHECK(ncclCommRegister(comm, out, 4 * count, &handle));
  CHECK(ncclWinGetUserPtr(comm, window, &data));
  NEED(data == in);
  REFUSED(ncclCommWindowRegister(comm, in, 4 * count + 1, &data, 0), "more than ncclMemAlloc");
  REFUSED(ncclCommRegister(comm, NULL, 4, &data), "ncclCommRegister");
  CHECK(ncclCommSplit(comm, 0, rank, &half, NULL));
  REFUSED(ncclCommWindowDeregister(half, window), "not registered with this communicator");
  for (int turn = 0; turn < 3; ++turn) {
    for (int i = 0; i < count; ++i) in[i] = rank + i + turn, out[i] = -1;
    CHECK(ncclAllReduce(in, out, count, ncclInt32, ncclSum, comm, NULL));
    for (int i = 0; i < count; ++i) NEED(out[i] == ranks * (ranks - 1) / 2 + ranks * (i + turn));
    const int next = (rank + 1) % ranks, before = (rank + ranks - 1) % ranks;
    CHECK(ncclGroupStart());
    CHECK(ncclSend(in, count, ncclInt32, next, comm, NULL));
    CHECK(ncclRecv(out, count, ncclInt32, before, comm, NULL));
    CHECK(ncclGroupEnd());
    for (int i = 0; i < count; ++i) NEED(out[i] == before + i + turn);
  }
  CHECK(ncclCommWindowDeregister(comm, window));
  REFUSED(ncclCommWindowDeregister(comm, window), "not registered");
  CHECK(ncclCommDestroy(half));
  CHECK(ncclCommDestroy(comm)); /* `handle` goes with it */
  CHECK(ncclMemFree(in));
  CHECK(ncclMemFree(out));
  print_failure(ncclSuccess);
}

/* The state of a call that may still be in progress. */
static void begin(ncclResult_t result) {
  if (result != ncclInProgress) CHECK(result);
}
static ncclResult_t state_of(ncclComm_t of) {
  ncclResult_t state = -1;
  CHECK(ncclCommGetAsyncError(of, &state));
  return state;
}
static void finish(ncclComm_t of) {
  ncclResult_t state;
  while ((state = state_of(of)) == ncclInProgress) usleep(1000);
  CHECK(state);
}

/* A message around the ring and a sum, in one group of a communicator that does not block. */
static void exchange(ncclComm_t of, int rank, int ranks) {
  int32_t mine = rank + 1, sum = 0, come = 0;
  begin(ncclGroupStart());
  begin(ncclSend(&mine, 1, ncclInt32, (rank + 1) % ranks, of, NULL));
  begin(ncclRecv(&come, 1, ncclInt32, (rank + ranks - 1) % ranks, of, NULL));
  begin(ncclAllReduce(&mine, &sum, 1, ncclInt32, ncclSum, of, NULL));
  begin(ncclGroupEnd());
  finish(of);
  NEED(come == (rank + ranks - 1) % ranks + 1 && sum == ranks * (ranks + 1) / 2);
}

/* Calls that wait for ranks that do not come are in progress until they are aborted: the making of
 * a communicator, a collective, a message, a split, each begun by rank 0 alone. */
static void abort_what_waits(ncclConfig_t* config, int rank, int ranks) {
  ncclComm_t one = NULL, part = NULL;
  if (rank == 0) {
    ncclUniqueId alone;
    int count = 0;
    CHECK(ncclGetUniqueId(&alone));
    NEED(ncclCommInitRankConfig(&one, ranks, alone, 0, config) == ncclInProgress);
    NEED(one != NULL && state_of(one) == ncclInProgress);
    REFUSED(ncclCommCount(one, &count), "is not made yet");
    REFUSED(ncclCommDestroy(one), "call ncclCommAbort");
    usleep(100000);
    NEED(state_of(one) == ncclInProgress);
    CHECK(ncclCommAbort(one));
  }
  for (int what = 0; what < 4; ++what) {
    int32_t value = 1;
    begin(ncclCommSplit(comm, 0, rank, &one, NULL)); /* as its parent */
    finish(comm);
    finish(one);
    if (rank == 0) {
      if (what == 0) begin(ncclAllReduce(&value, &value, 1, ncclInt32, ncclSum, one, NULL));
      if (what == 1) begin(ncclRecv(&value, 1, ncclInt32, 1, one, NULL));
      if (what >= 2) begin(ncclCommSplit(one, 0, rank, &part, NULL));
      if (what == 3) { /* before its thread has started */
        CHECK(ncclCommAbort(part));
        part = NULL;
      }
      usleep(20000);
      NEED(what == 3 || state_of(one) == ncclInProgress);
      if (part != NULL) NEED(state_of(part) == ncclInProgress);
      if (part != NULL) CHECK(ncclCommAbort(part));
      CHECK(ncclCommAbort(one));
    }
    exchange(comm, rank, ranks);
    if (rank != 0) CHECK(ncclCommDestroy(one));
  }
}

static void without_blocking(int rank, int ranks, const char* folder) {
  ncclConfig_t config = {offsetof(ncclConfig_t, others), 0xcafebeef, 22700, 2, {0}};
  const ncclUniqueId id = meet(rank, folder);
  REFUSED(ncclCommInitRankConfig(&comm, ranks, id, rank, &config), "\"blocking\" is 2");
  config.blocking = 0;
  CHECK(ncclGroupStart());
  begin(ncclCommInitRankConfig(&comm, ranks, id, rank, &config));
  begin(ncclGroupEnd());
  finish(comm);
  exchange(comm, rank, ranks);
  ncclComm_t part = NULL;
  begin(ncclCommSplit(comm, rank == 0 ? -1 : 7, rank, &part, &config));
  finish(comm);
  NEED((part == NULL) == (rank == 0));
  if (part != NULL) {
    finish(part);
    exchange(part, rank - 1, ranks - 1);
    begin(ncclCommFinalize(part));
    finish(part);
    CHECK(ncclCommDestroy(part));
  }
  abort_what_waits(&config, rank, ranks);
  begin(ncclCommFinalize(comm));
  finish(comm);
  CHECK(ncclCommDestroy(comm));
  print_failure(ncclSuccess);
}

/* One thread ends the ranks of its process one after the other. */
static void ends(int ranks) {
  enum { most = 8 };
  ncclComm_t all[most];
  int32_t out[most], in[most];
  CHECK(ncclCommInitAll(all, ranks, NULL));
  CHECK(ncclGroupStart());
  for (int i = 0; i < ranks; ++i) {
    out[i] = i;
    CHECK(ncclSend(&out[i], 1, ncclInt32, (i + 1) % ranks, all[i], NULL));
    CHECK(ncclRecv(&in[i], 1, ncclInt32, (i + ranks - 1) % ranks, all[i], NULL));
  }
  CHECK(ncclGroupEnd());
  for (int i = 0; i < ranks; ++i) NEED(in[i] == (i + ranks - 1) % ranks);
  for (int i = 0; i < ranks; ++i) CHECK(ncclCommDestroy(all[i]));
  print_failure(ncclSuccess);
}

int main(int argc, char** argv) {
  if (argc != 5) return 2;
  const int rank = atoi(argv[1]), ranks = atoi(argv[2]);
  if (strcmp(argv[4], "late") == 0)
    late(rank, ranks, argv[3]);
  else if (strcmp(argv[4], "without_root") == 0)
    without_root(rank, ranks, argv[3]);
  else if (strcmp(argv[4], "forked") == 0)
    forked(ranks);
  else if (strcmp(argv[4], "give_up") == 0)
    give_up(rank, ranks, argv[3]);
  else if (strcmp(argv[4], "without_blocking") == 0)
    without_blocking(rank, ranks, argv[3]);
  else if (strcmp(argv[4], "ends") == 0)
    ends(ranks);
  else if (strcmp(argv[4], "memory") == 0)
    memory(rank, ranks, argv[3]);
  else
    come(rank, ranks, argv[3], strcmp(argv[4], "gated") == 0);
  return 0;
}

/* Groups drawn at random, alike on all ranks, of several communicators that each rank names in an
 * order of its own: messages of lengths around those of chunks, also to the rank itself and of no
 * bytes, and sums.
 *
 *   nccl_random RANK RANKS FOLDER WHAT     FOLDER passes the unique id
 *
 * SEED: of all that is drawn. ROUNDS: groups of each thread. THREADS: each has its communicators.
 * NONBLOCKING=1: they do not block. WHAT: all (every byte is checked), killed (rank 1 is killed at
 * a moment drawn at random), abort (a thread of rank 1 aborts its communicators then).
 *
 * GPU=1: buffers are memory of the GPU that libcuda.so.1 finds. */
#define _GNU_SOURCE
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "nccl_gpu.h"
#include "nccl_meet.h"

enum { comms = 4, streams = 3, max_items = 14, max_ranks = 8, max_groups = 4, max_threads = 2 };
static const size_t room = 24 << 20; /* bytes of the groups that are not checked yet */
static const size_t lengths[] = {0,
                                 1,
                                 16,
                                 17,
                                 1000,
                                 (64 << 10) - 1,
                                 64 << 10,
                                 (64 << 10) + 1,
                                 131072,
                                 131073,
                                 (1 << 20) - 1,
                                 1 << 20,
                                 (1 << 20) + 1,
                                 3000000};

static int rank, ranks;
static long seed;

struct item {
  int comm, sums; /* a sum, or a message */
  int from, to;   /* ranks of all */
  size_t bytes, at;
  int sends_on, receives_on; /* streams */
  int done;
};

/* What a thread of the program has. */
struct part {
  int number;
  ncclComm_t comm[comms];
  int members[comms][max_ranks], size[comms]; /* ranks of all, in the communicator's order */
  void* stream[streams];
  struct buffer in, out;
  unsigned long drawn, own; /* states of two generators: alike on all ranks, and of this one */
  struct item items[max_groups][max_items];
  int count[max_groups], groups;
  size_t used;
};

/* The handles may be used: another thread has not aborted them. */
static pthread_mutex_t handles = PTHREAD_MUTEX_INITIALIZER;
static int ended;

static unsigned draw(unsigned long* state, unsigned below) {
  *state = *state * 6364136223846793005ul + 1442695040888963407ul;
  return (unsigned)(*state >> 33) % below;
}

static int place_of(const struct part* p, int comm, int who) {
  for (int i = 0; i < p->size[comm]; ++i)
    if (p->members[comm][i] == who) return i;
  return -1;
}

static unsigned char byte_of(const struct part* p, const struct item* item, size_t i) {
  return (unsigned char)(i * 7 + i / 4096 + item->at * 31 + (size_t)item->from + 3u * p->used);
}
static int number_of(const struct item* item, int who, size_t i) {
  return (int)(i % 1000) + 3 * who + item->comm;
}

static void fill(struct part* p) {
  for (int g = 0; g < p->groups; ++g)
    for (int i = 0; i < p->count[g]; ++i) {
      const struct item* const item = &p->items[g][i];
      if (item->sums && place_of(p, item->comm, rank) >= 0)
        for (size_t k = 0; k < item->bytes / 4; ++k)
          ((int*)(void*)(p->in.host + item->at))[k] = number_of(item, rank, k);
      if (!item->sums && item->from == rank)
        for (size_t k = 0; k < item->bytes; ++k) p->in.host[item->at + k] = byte_of(p, item, k);
    }
  memset(p->out.host, 0xee, p->out.bytes);
  put(&p->in, p->stream[0]);
  put(&p->out, p->stream[0]);
  for (int s = 0; s < streams; ++s) wait_for(p->stream[s]);
}

static void wrong(const struct part* p, int g, const struct item* item, size_t at) {
  fprintf(stderr,
          "rank %d, thread %d: byte %zu of the %s of %zu bytes from rank %d to %d in group %d "
          "is wrong\n",
          rank, p->number, at, item->sums ? "sum" : "message", item->bytes, item->from, item->to,
          g);
  exit(1);
}

static void check(struct part* p) {
  get(&p->out, p->stream[0]);
  for (int g = 0; g < p->groups; ++g)
    for (int i = 0; i < p->count[g]; ++i) {
      const struct item* const item = &p->items[g][i];
      const unsigned char* const found = p->out.host + item->at;
      const int takes_part = item->sums ? place_of(p, item->comm, rank) >= 0 : item->to == rank;
      for (size_t k = 0; takes_part && item->sums && k < item->bytes / 4; ++k) {
        int sum = 0;
        for (int m = 0; m < p->size[item->comm]; ++m)
          sum += number_of(item, p->members[item->comm][m], k);
        if (((const int*)(const void*)found)[k] != sum) wrong(p, g, item, 4 * k);
      }
      for (size_t k = 0; takes_part && !item->sums && k < item->bytes; ++k)
        if (found[k] != byte_of(p, item, k)) wrong(p, g, item, k);
      if (!takes_part && item->bytes != 0 && found[0] != 0xee) wrong(p, g, item, 0);
      if (found[item->bytes] != 0xee) wrong(p, g, item, item->bytes);
    }
}

/* A communicator without this rank is drawn all the same. */
static void draw_group(struct part* p) {
  const int g = p->groups++;
  const int wanted = 1 + (int)draw(&p->drawn, max_items);
  p->count[g] = 0;
  for (int i = 0; i < wanted; ++i) {
    struct item item = {0};
    item.comm = (int)draw(&p->drawn, comms);
    const unsigned half = (unsigned)draw(&p->drawn, 2); /* of communicator 2 */
    item.sums = draw(&p->drawn, 5) == 0;
    item.bytes = lengths[draw(&p->drawn, sizeof lengths / sizeof *lengths)];
    const unsigned a = draw(&p->drawn, 1000), b = draw(&p->drawn, 1000);
    item.sends_on = (int)draw(&p->drawn, streams), item.receives_on = (int)draw(&p->drawn, streams);
    if (item.comm == 2) {
      item.sums = 0; /* both halves would need one */
      const unsigned size = ((unsigned)ranks - half + 1) / 2;
      if (size == 0) continue;
      item.from = (int)(2 * (a % size) + half), item.to = (int)(2 * (b % size) + half);
    } else {
      item.from = (int)a % ranks, item.to = (int)b % ranks;
    }
    if (item.sums) item.bytes = item.bytes / 4 * 4;
    item.at = (p->used + 3) / 4 * 4 + (item.sums ? 0 : (size_t)i % 4);
    if (item.at + item.bytes + 1 > room) continue;
    p->used = item.at + item.bytes + 1;
    p->items[g][p->count[g]++] = item;
  }
}

static int is_next(const struct part* p, int g, int i) {
  const struct item* const items = p->items[g];
  for (int earlier = 0; earlier < i; ++earlier)
    if (!items[earlier].done && items[earlier].comm == items[i].comm &&
        items[earlier].sums == items[i].sums &&
        (items[i].sums ||
         (items[earlier].from == items[i].from && items[earlier].to == items[i].to)))
      return 0;
  return 1;
}

static void call(struct part* p, const struct item* item) {
  const ncclComm_t comm = p->comm[item->comm];
  char *const from = (char*)p->in.device + item->at, *const to = (char*)p->out.device + item->at;
  if (item->sums && place_of(p, item->comm, rank) >= 0)
    ncclAllReduce(from, to, item->bytes / 4, ncclInt32, ncclSum, comm, p->stream[item->sends_on]);
  if (!item->sums && item->from == rank)
    ncclSend(from, item->bytes, ncclInt8, place_of(p, item->comm, item->to), comm,
             p->stream[item->sends_on]);
  if (!item->sums && item->to == rank)
    ncclRecv(to, item->bytes, ncclInt8, place_of(p, item->comm, item->from), comm,
             p->stream[item->receives_on]);
}

static ncclResult_t state_of(struct part* p, int c) {
  ncclResult_t found = ncclRemoteError;
  pthread_mutex_lock(&handles);
  if (!ended) CHECK(ncclCommGetAsyncError(p->comm[c], &found));
  pthread_mutex_unlock(&handles);
  return found;
}

static ncclResult_t state(struct part* p) {
  for (int c = 0; c < comms; ++c) {
    ncclResult_t found;
    while ((found = state_of(p, c)) == ncclInProgress) usleep(100);
    if (found != ncclSuccess) return found;
  }
  return ncclSuccess;
}

/* Its calls, in an order of this rank's own. The group ends while the handles may be aborted. */
static ncclResult_t begin(struct part* p, int g) {
  CHECK(ncclGroupStart());
  pthread_mutex_lock(&handles);
  for (int left = ended ? 0 : p->count[g]; left > 0;) {
    const int i = (int)draw(&p->own, (unsigned)p->count[g]);
    struct item* const item = &p->items[g][i];
    if (item->done || !is_next(p, g, i)) continue;
    call(p, item);
    item->done = 1;
    --left;
  }
  pthread_mutex_unlock(&handles);
  const ncclResult_t result = ncclGroupEnd();
  return result == ncclInProgress ? state(p) : result;
}

static ncclResult_t batch(struct part* p) {
  ncclResult_t result = ncclSuccess;
  p->groups = 0, p->used = 0;
  for (unsigned more = 1 + draw(&p->drawn, max_groups); more > 0; --more) draw_group(p);
  fill(p);
  for (int g = 0; g < p->groups && result == ncclSuccess; ++g) result = begin(p, g);
  for (int s = 0; s < streams; ++s) wait_for(p->stream[s]);
  if (result == ncclSuccess) result = state(p);
  if (result == ncclSuccess) check(p);
  return result;
}

static struct part parts[max_threads];
static int threads = 1;

static void* run(void* argument) {
  struct part* const p = argument;
  const int rounds = atoi(getenv("ROUNDS"));
  ncclResult_t result = ncclSuccess;
  void* context = NULL;
  if (gpu && p->number > 0 && (retain_context(&context, 0) != 0 || push_context(context) != 0))
    exit(1);
  for (int done = 0; done < rounds && result == ncclSuccess; done += p->groups) result = batch(p);
  if (result == ncclSuccess) return NULL;
  static char words[max_threads][1000];
  snprintf(words[p->number], sizeof words[0], "%s: %s", ncclGetErrorString(result),
           ncclGetLastError(NULL));
  return words[p->number];
}

static void make(struct part* p, ncclComm_t all, ncclConfig_t* config) {
  for (int c = 0; c < comms; ++c) {
    const int color = c == 2 ? rank % 2 : 0, key = c == 1 ? -rank : rank;
    ncclResult_t made = ncclCommSplit(all, color, key, &p->comm[c], config), found = ncclInProgress;
    if (made != ncclSuccess && made != ncclInProgress) CHECK(made);
    while (found == ncclInProgress) CHECK(ncclCommGetAsyncError(p->comm[c], &found));
    CHECK(found);
    for (int r = 0; r < ranks; ++r)
      if (c != 2 || r % 2 == rank % 2) p->members[c][p->size[c]++] = c == 1 ? ranks - 1 - r : r;
  }
  for (int s = 0; s < streams; ++s) p->stream[s] = new_stream();
  p->in = new_buffer(room), p->out = new_buffer(room);
}

static void* end_at_random(void* what) {
  unsigned long own = (unsigned long)seed * 31 + 7;
  usleep(draw(&own, 400000));
  if (strcmp(what, "killed") == 0) kill(getpid(), SIGKILL);
  pthread_mutex_lock(&handles);
  ended = 1;
  pthread_mutex_unlock(&handles);
  for (int t = 0; t < threads; ++t)
    for (int c = 0; c < comms; ++c) CHECK(ncclCommAbort(parts[t].comm[c]));
  return NULL;
}

int main(int argc, char** argv) {
  if (argc != 5) return 2;
  open_gpu();
  rank = atoi(argv[1]), ranks = atoi(argv[2]);
  seed = atol(getenv("SEED"));
  if (getenv("THREADS") != NULL) threads = atoi(getenv("THREADS"));
  const int ends_early = strcmp(argv[4], "all") != 0;
  ncclConfig_t config = {
      sizeof config, 0xcafebeef, 23203, getenv("NONBLOCKING") != NULL ? 0 : 1, {0}};
  const int unset = -2147483647 - 1;
  for (size_t i = 0; i < 2; ++i) memcpy(config.others + 4 * i, &unset, sizeof unset);
  const ncclUniqueId id = meet(rank, argv[3]);
  ncclComm_t all;
  CHECK(ncclCommInitRank(&all, ranks, id, rank));
  for (int t = 0; t < threads; ++t) {
    parts[t].number = t;
    parts[t].drawn = (unsigned long)seed * 1000003 + (unsigned long)t;
    parts[t].own = (unsigned long)(seed + 1000 * (rank + 1));
    make(&parts[t], all, &config);
  }
  pthread_t running[max_threads], ending;
  if (ends_early && rank == 1) pthread_create(&ending, NULL, end_at_random, argv[4]);
  void* words = NULL;
  for (int t = 1; t < threads; ++t) pthread_create(&running[t], NULL, run, &parts[t]);
  words = run(&parts[0]);
  for (int t = 1; t < threads; ++t) {
    void* its = NULL;
    pthread_join(running[t], &its);
    if (words == NULL) words = its;
  }
  if (ends_early && rank == 1) pthread_join(ending, NULL);
  for (int t = 0; t < threads && !(ends_early && rank == 1); ++t)
    for (int c = 0; c < comms; ++c)
      CHECK(words == NULL ? ncclCommDestroy(parts[t].comm[c]) : ncclCommAbort(parts[t].comm[c]));
  CHECK(words == NULL ? ncclCommDestroy(all) : ncclCommAbort(all));
  printf("%s\n", words == NULL ? "ok" : (char*)words);
  return 0;
}

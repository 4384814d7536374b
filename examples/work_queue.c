/* A few processes share work by the three means of synchronization: they meet at a barrier, take
 * pieces of work from one counter under a lock, and the last one rings a doorbell. Hosts
 * communicate only by loads and stores to the pool.
 *
 *   penstock pool create shm:demo --size 64M
 *   PENSTOCK_POOL=shm:demo ./work_queue
 *
 * Without PENSTOCK_POOL it makes a small pool of its own and removes it at the end.
 */
#include <inttypes.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "penstock/penstock.h"

enum { workers = 3, pieces = 30, line = 64 };

/* Where things lie in the object. Each line has one writer at a time. */
enum { queue_at = 0, bell_at = line, lock_at = 2 * line };

/* Line 0, only touched under the lock. */
typedef struct {
  uint64_t next;
  uint64_t sum;
} queue_t;

typedef struct {
  penstock_pool_t* pool;
  penstock_object_t* object;
  penstock_lock_t* lock;
  penstock_barrier_t* barrier;
  penstock_doorbell_t* bell;
} worker_t;

static int failed(const char* what) {
  fprintf(stderr, "%s: %s\n", what, penstock_last_error());
  return 1;
}

static uint64_t barrier_at(void) {
  return lock_at + penstock_lock_bytes(workers);
}

static penstock_status_t open_object(worker_t* w, const char* name) {
  penstock_object_options_t options;
  penstock_status_t status;
  memset(&options, 0, sizeof options);
  options.struct_bytes = sizeof options;
  options.open_existing = 1; /* the first of the processes creates it */
  if ((status = penstock_pool_attach(NULL, NULL, &w->pool)) != PENSTOCK_OK) return status;
  status = penstock_arena_create(w->pool, name, barrier_at() + penstock_barrier_bytes(workers),
                                 &options, &w->object);
  if (status != PENSTOCK_OK) return status;
  return penstock_doorbell_open(w->object, bell_at, &w->bell);
}

/* The lock and the barrier have a line for each participant, which only that one opens. */
static penstock_status_t join(worker_t* w, uint32_t self) {
  const penstock_status_t status = penstock_lock_open(w->object, lock_at, workers, self, &w->lock);
  if (status != PENSTOCK_OK) return status;
  return penstock_barrier_open(w->object, barrier_at(), workers, self, &w->barrier);
}

static void close_all(worker_t* w) {
  penstock_doorbell_close(w->bell);
  penstock_barrier_close(w->barrier);
  penstock_lock_close(w->lock);
  penstock_arena_close(w->object);
  penstock_pool_detach(w->pool);
}

/* Takes one piece and does it: adds its square to the sum. Returns 0 when none is left. */
static int take_piece(worker_t* w) {
  queue_t* queue = penstock_object_data(w->object);
  uint64_t piece;
  if (penstock_lock_acquire(w->lock, 0) != PENSTOCK_OK) return 0;
  penstock_observe(w->pool, queue, sizeof *queue);
  piece = queue->next;
  if (piece < pieces) {
    queue->next = piece + 1;
    queue->sum += piece * piece;
    penstock_publish(w->pool, queue, sizeof *queue);
  }
  penstock_lock_release(w->lock);
  return piece < pieces;
}

static int work(const char* name, uint32_t self) {
  worker_t w;
  int taken = 0;
  memset(&w, 0, sizeof w);
  if (open_object(&w, name) != PENSTOCK_OK) return failed("open");
  if (join(&w, self) != PENSTOCK_OK) return failed("join");
  if (penstock_barrier_wait(w.barrier, 0) != PENSTOCK_OK) return failed("first barrier");
  while (take_piece(&w)) ++taken;
  if (penstock_barrier_wait(w.barrier, 0) != PENSTOCK_OK) return failed("second barrier");
  if (self == 0) penstock_doorbell_ring(w.bell, pieces); /* all work is done */
  printf("worker %" PRIu32 ": %d pieces\n", self, taken);
  close_all(&w);
  return 0;
}

/* Waits for the bell, then reads the sum without the lock. */
static int check(const char* name) {
  worker_t w;
  queue_t queue;
  const uint64_t expected = (uint64_t)(pieces - 1) * pieces * (2 * pieces - 1) / 6;
  memset(&w, 0, sizeof w);
  if (open_object(&w, name) != PENSTOCK_OK) return failed("open");
  if (penstock_doorbell_wait(w.bell, pieces, 0, 0) != PENSTOCK_OK) return failed("doorbell");
  penstock_read(w.pool, &queue, penstock_object_data(w.object), sizeof queue);
  printf("sum %" PRIu64 ", expected %" PRIu64 "\n", queue.sum, expected);
  close_all(&w);
  return queue.sum == expected ? 0 : 1;
}

static int make_own_pool(char* spec, size_t size) {
  penstock_pool_options_t options;
  memset(&options, 0, sizeof options);
  options.struct_bytes = sizeof options;
  options.bytes = 16u << 20;
  snprintf(spec, size, "shm:penstock-example-%ld", (long)getpid());
  if (penstock_pool_create(spec, &options) != PENSTOCK_OK) return -failed("penstock_pool_create");
  return setenv("PENSTOCK_POOL", spec, 1);
}

/* Each process must attach by itself, so fork first. */
static pid_t start(const char* name, uint32_t self) {
  const pid_t pid = fork();
  if (pid == 0) {
    const int status = work(name, self);
    fflush(stdout);
    _exit(status);
  }
  return pid;
}

int main(void) {
  char spec[64] = "", name[64];
  pid_t started[workers];
  uint32_t self;
  int good;
  if (getenv("PENSTOCK_POOL") == NULL && make_own_pool(spec, sizeof spec) != 0) return 1;
  snprintf(name, sizeof name, "work.%ld", (long)getpid());
  for (self = 0; self < workers; ++self) started[self] = start(name, self);
  good = check(name) == 0;
  for (self = 0; self < workers; ++self) {
    int status = 1;
    good = waitpid(started[self], &status, 0) == started[self] && status == 0 && good;
  }
  if (spec[0] != '\0') penstock_pool_remove(spec, 1);
  return good ? 0 : 1;
}

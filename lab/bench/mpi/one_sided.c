/* One-sided operations between pairs of ranks: rank i of the first half is an origin, rank i + n/2
 * its target. An ordinary MPI program on any even number of ranks.
 *
 *   one_sided latency|bandwidth [--op put,get,accumulate,fetch_and_op,raw]
 *             [--sync pscw,fence,lock,exclusive,lock_all]
 *             [--window win_allocate|win_create|alloc_mem]
 *             [--window-bytes N] [--sizes 8,4096] [--iterations N] [--validate] [--peers COMMAND]
 *
 * Prints a line for each measurement: operation, synchronization, bytes; for `latency`
 * microseconds, the mean over the pairs, for `bandwidth` MB/s (10^6) and operations a second of all
 * pairs together, with 64 operations between two synchronizations; last, for an operation:
 * microseconds of CPU of both ranks of a pair, bytes by TCP sockets, and, with --peers, messages
 * through the pool and their bytes.
 *
 * As in OSU's: latency by pscw and fence goes both ways in turn, and is half of the round trip; by
 * locks the origin acts alone. lock and lock_all are shared locks; lock is taken for each
 * synchronization, lock_all once, and a flush completes the operations. Each measurement has its
 * own window and does not depend on earlier ones. The window has --window-bytes, else the bytes
 * that the operations access, at most the largest size; its memory comes from MPI_Win_allocate,
 * malloc (win_create), or MPI_Alloc_mem.
 *
 * raw copies past the cache into the origin's own part of the window: no put can be faster. */
#include <getopt.h>
#include <stdint.h>

#include "common.h"
#include "peers.h"
#include "raw_copy.h"
#include "usage.h"

enum op { put, get, accumulate, fetch_and_op, raw, op_count };
enum sync { pscw, fence, lock, exclusive, lock_all, sync_count };
enum kind { win_allocate, win_create, alloc_mem, kind_count };

static const char* const op_names[] = {"put", "get", "accumulate", "fetch_and_op", "raw"};
static const char* const sync_names[] = {"pscw", "fence", "lock", "exclusive", "lock_all"};
static const char* const kind_names[] = {"win_allocate", "win_create", "alloc_mem"};

struct list {
  int count, items[max_items];
};

struct options {
  int bandwidth, validate;
  struct list ops, syncs;
  enum kind kind;
  long window_bytes, iterations; /* 0: by size */
  const char* peers;             /* command that counts messages; NULL: do not count */
  struct sizes sizes;
};

struct job {
  int rank, pairs, partner, origin;
  MPI_Win win;
  MPI_Group group; /* the partner */
  char* window;    /* this rank's part */
  char* local;     /* of the same size: origin of puts, or target of gets */
  int64_t fetched[window_ops];
  double used[used_count]; /* by this rank for an iteration of the last measurement */
  struct peers sent;       /* by all ranks, in all its iterations; on rank 0 */
};

struct measure {
  enum op op;
  enum sync sync;
  long bytes, iterations, window_bytes;
  int ops;       /* in a row, before a synchronization */
  int both_ways; /* in turn */
  int validate;
};

static const char* sync_name(enum op op, enum sync sync) {
  return op == raw ? "none" : sync_names[sync];
}

static int passive(const struct measure* m) {
  return m->sync != pscw && m->sync != fence;
}

/* Consecutive slots, from the window's start, wrapping around: operations on a slot are equal. */
static long offset_of(const struct measure* m, int op) {
  const long slots = m->window_bytes / m->bytes;
  return m->op == fetch_and_op ? 0 : op % slots * m->bytes;
}

static void issue(struct job* job, const struct measure* m) {
  static const int64_t one = 1;
  for (int i = 0; i < m->ops; ++i) {
    const long at = offset_of(m, i);
    char* local = job->local + at;
    const int bytes = (int)m->bytes, words = bytes / 8;
    if (m->op == put) {
      MPI_Put(local, bytes, MPI_BYTE, job->partner, at, bytes, MPI_BYTE, job->win);
    } else if (m->op == get) {
      MPI_Get(local, bytes, MPI_BYTE, job->partner, at, bytes, MPI_BYTE, job->win);
    } else if (m->op == accumulate) {
      MPI_Accumulate(local, words, MPI_INT64_T, job->partner, at, words, MPI_INT64_T, MPI_SUM,
                     job->win);
    } else {
      MPI_Fetch_and_op(&one, &job->fetched[i], MPI_INT64_T, job->partner, at, MPI_SUM, job->win);
    }
  }
}

static void access_by_pscw(struct job* job, const struct measure* m) {
  MPI_Win_start(job->group, 0, job->win);
  issue(job, m);
  MPI_Win_complete(job->win);
}

static void expose_by_pscw(struct job* job) {
  MPI_Win_post(job->group, 0, job->win);
  MPI_Win_wait(job->win);
}

static void by_pscw(struct job* job, const struct measure* m) {
  if (job->origin) access_by_pscw(job, m);
  if (!job->origin || m->both_ways) expose_by_pscw(job);
  if (!job->origin && m->both_ways) access_by_pscw(job, m);
}

static void by_fence(struct job* job, const struct measure* m) {
  MPI_Win_fence(0, job->win);
  if (job->origin) issue(job, m);
  MPI_Win_fence(0, job->win);
  if (!m->both_ways) return;
  if (!job->origin) issue(job, m);
  MPI_Win_fence(0, job->win);
}

static void by_lock(struct job* job, const struct measure* m) {
  if (!job->origin) return;
  if (m->sync != lock_all) {
    const int type = m->sync == exclusive ? MPI_LOCK_EXCLUSIVE : MPI_LOCK_SHARED;
    MPI_Win_lock(type, job->partner, 0, job->win);
  }
  issue(job, m);
  if (m->sync == lock_all) {
    MPI_Win_flush(job->partner, job->win);
  } else {
    MPI_Win_unlock(job->partner, job->win);
  }
}

/* Copies into its own part, under a lock without contention. */
static void by_copy(struct job* job, const struct measure* m) {
  if (!job->origin) return;
  for (int i = 0; i < m->ops; ++i) {
    const long at = offset_of(m, i);
    raw_copy(job->window + at, job->local + at, (size_t)m->bytes);
  }
  raw_order();
}

static void once(struct job* job, const struct measure* m) {
  if (m->op == raw) {
    by_copy(job, m);
  } else if (m->sync == pscw) {
    by_pscw(job, m);
  } else if (m->sync == fence) {
    by_fence(job, m);
  } else {
    by_lock(job, m);
  }
}

/* Takes the locks that are held for the whole measurement. */
static void begin(struct job* job, const struct measure* m) {
  if (!job->origin) return;
  if (m->op == raw) {
    MPI_Win_lock(MPI_LOCK_EXCLUSIVE, job->rank, 0, job->win);
  } else if (m->sync == lock_all) {
    MPI_Win_lock_all(0, job->win);
  }
}

static void end(struct job* job, const struct measure* m) {
  if (job->origin && m->op == raw) {
    MPI_Win_unlock(job->rank, job->win);
  } else if (m->sync == fence && m->op != raw) {
    MPI_Win_fence(MPI_MODE_NOSUCCEED, job->win);
  } else if (job->origin && m->sync == lock_all && m->op != raw) {
    MPI_Win_unlock_all(job->win);
  }
}

/* The contents that a rank puts, or exposes, in the n-th iteration. */
static unsigned seed_of(int rank, long n) {
  return (unsigned)(rank * 101 + n + 1);
}

static int64_t summand(int rank, long word) {
  return rank * 1000 + word % 997 + 1;
}

/* Bytes from the start of a window that the operations access. */
static long reach_of(const struct measure* m) {
  const long slots = m->window_bytes / m->bytes;
  return m->op == fetch_and_op ? m->bytes : (m->ops < slots ? m->ops : slots) * m->bytes;
}

static void reset(struct job* job, const struct measure* m) {
  MPI_Win_lock(MPI_LOCK_EXCLUSIVE, job->rank, 0, job->win);
  if (m->op == get) {
    fill(job->window, m->window_bytes, seed_of(job->rank, 0));
  } else {
    memset(job->window, 0, (size_t)m->window_bytes);
  }
  MPI_Win_unlock(job->rank, job->win);
  fill(job->local, m->window_bytes, seed_of(job->rank, 0));
  for (long i = 0; m->op == accumulate && i < m->window_bytes / 8; ++i) {
    ((int64_t*)(void*)job->local)[i] = summand(job->rank, i);
  }
  MPI_Barrier(MPI_COMM_WORLD);
}

static void prepare(struct job* job, const struct measure* m, long n) {
  if (m->op == put || m->op == raw) fill(job->local, reach_of(m), seed_of(job->rank, n));
  if (m->op == get) memset(job->local, 0, (size_t)reach_of(m));
}

static void expect(const struct job* job, const struct measure* m, int holds, long at) {
  if (holds) return;
  fail("one_sided: rank %d: %s of %ld bytes by %s: byte %ld is wrong", job->rank, op_names[m->op],
       m->bytes, sync_name(m->op, m->sync), at);
}

static void check_contents(const struct job* job, const struct measure* m, const char* from,
                           long bytes, unsigned seed) {
  const long wrong = first_wrong(from, bytes, seed);
  expect(job, m, wrong < 0, wrong);
}

/* Checks the result of the partner's n-th iteration, and that all bytes after it are unchanged. */
static void check_window(const struct job* job, const struct measure* m, long n) {
  const long reach = reach_of(m), slots = m->window_bytes / m->bytes;
  const int64_t* words = (const int64_t*)(const void*)job->window;
  if (m->op == put) {
    check_contents(job, m, job->window, reach, seed_of(job->partner, n));
  } else if (m->op == fetch_and_op) {
    expect(job, m, words[0] == (n + 1) * m->ops, 0);
  } else {
    for (long i = 0; i < reach / 8; ++i) {
      const long slot = i * 8 / m->bytes, hits = (m->ops - slot + slots - 1) / slots;
      expect(job, m, words[i] == (n + 1) * hits * summand(job->partner, i), i * 8);
    }
  }
  for (long i = reach; i < m->window_bytes; ++i) expect(job, m, job->window[i] == 0, i);
}

/* Checks the results that this rank fetched in its n-th iteration. */
static void check_local(const struct job* job, const struct measure* m, long n) {
  if (m->op == get) {
    check_contents(job, m, job->local, reach_of(m), seed_of(job->partner, 0));
  } else if (m->op == raw) {
    check_contents(job, m, job->window, reach_of(m), seed_of(job->rank, n));
  }
  for (int i = 0; m->op == fetch_and_op && i < m->ops; ++i) {
    expect(job, m, job->fetched[i] == n * m->ops + i, 8 * i);
  }
}

/* Checks between barriers: the next iteration must not change a window during the check. */
static void check(const struct job* job, const struct measure* m, long n) {
  MPI_Barrier(MPI_COMM_WORLD);
  if (job->origin || m->both_ways) check_local(job, m, n);
  if ((!job->origin || m->both_ways) && m->op != get && m->op != raw) {
    if (passive(m)) MPI_Win_lock(MPI_LOCK_SHARED, job->rank, 0, job->win);
    check_window(job, m, n);
    if (passive(m)) MPI_Win_unlock(job->rank, job->win);
  }
  MPI_Barrier(MPI_COMM_WORLD);
}

static double seconds_of(struct job* job, const char* peers, const struct measure* m) {
  const long warmup = m->iterations / 10 + 1;
  static struct usage before, after;
  struct peers sent = {0};
  double start = 0;
  reset(job, m);
  begin(job, m);
  for (long n = 0; n < warmup + m->iterations; ++n) {
    if (n == warmup) {
      sent = peers_so_far(peers);
      usage_so_far(&before);
      start = MPI_Wtime();
    }
    if (m->validate) prepare(job, m, n);
    once(job, m);
    if (m->validate) check(job, m, n);
  }
  const double seconds = MPI_Wtime() - start;
  usage_so_far(&after);
  usage_between(&before, &after, m->iterations, job->used);
  job->sent = peers_since(&sent, peers);
  end(job, m);
  MPI_Barrier(MPI_COMM_WORLD);
  return seconds;
}

static long iterations_of(const struct options* o, long bytes) {
  if (o->iterations > 0) return o->iterations;
  if (o->bandwidth) return bytes <= 8192 ? 200 : bytes <= 262144 ? 40 : 5;
  return bytes <= 8192 ? 2000 : bytes <= 262144 ? 500 : 50;
}

static void make_window(struct job* job, enum kind kind, long bytes) {
  if (kind == win_allocate) {
    MPI_Win_allocate(bytes, 1, MPI_INFO_NULL, MPI_COMM_WORLD, &job->window, &job->win);
    return;
  }
  if (kind == alloc_mem) {
    MPI_Alloc_mem(bytes, MPI_INFO_NULL, &job->window);
  } else {
    job->window = host_memory(bytes);
  }
  MPI_Win_create(job->window, bytes, 1, MPI_INFO_NULL, MPI_COMM_WORLD, &job->win);
}

static void free_window(struct job* job, enum kind kind) {
  MPI_Win_free(&job->win);
  if (kind == alloc_mem) MPI_Free_mem(job->window);
  if (kind == win_create) free(job->window);
}

/* --window-bytes, else the bytes that the operations access. */
static long window_bytes_of(const struct options* o, long bytes, int ops) {
  const long most = (largest(&o->sizes) + 7) / 8 * 8, reached = (bytes * ops + 7) / 8 * 8;
  if (o->window_bytes > 0) return o->window_bytes;
  return reached < most ? reached : most;
}

/* `seconds`: the sum over the origins; `used`: over all ranks, for one iteration. */
static void print(const struct job* job, const struct measure* m, double seconds,
                  const double* used) {
  const double each = seconds / job->pairs / (double)m->iterations;    /* the mean over the pairs */
  const double ops = job->pairs * m->ops * (m->both_ways ? 2.0 : 1.0); /* in an iteration */
  printf("%s %s %ld ", op_names[m->op], sync_name(m->op, m->sync), m->bytes);
  if (m->ops > 1) {
    const double rate = (double)job->pairs * m->ops / each;
    printf("%.3f %.1f", rate * (double)m->bytes / 1e6, rate);
  } else {
    printf("%.3f", each * 1e6 / (m->both_ways ? 2 : 1));
  }
  /* A target that takes no part in the epochs is through before what it receives, or sends. */
  const double by_sockets = used[sent] > used[received] ? used[sent] : used[received];
  printf(" %.4f %.0f %.2f %.0f\n", used[cpu] / ops, by_sockets / ops,
         job->sent.messages / (double)m->iterations / ops,
         job->sent.bytes / (double)m->iterations / ops);
  fflush(stdout);
}

static void measure(struct job* job, const struct options* o, enum op op, enum sync sync,
                    long bytes) {
  const int active = sync == pscw || sync == fence, ops = o->bandwidth ? window_ops : 1;
  const struct measure m = {.op = op,
                            .sync = sync,
                            .bytes = bytes,
                            .iterations = iterations_of(o, bytes),
                            .window_bytes = window_bytes_of(o, bytes, ops),
                            .ops = ops,
                            .both_ways = !o->bandwidth && active && op != raw,
                            .validate = o->validate};
  make_window(job, o->kind, m.window_bytes);
  const double mine = seconds_of(job, o->peers, &m);
  double sum = 0, used[used_count], of_origins = job->origin ? mine : 0;
  MPI_Reduce(&of_origins, &sum, 1, MPI_DOUBLE, MPI_SUM, 0, MPI_COMM_WORLD);
  MPI_Reduce(job->used, used, used_count, MPI_DOUBLE, MPI_SUM, 0, MPI_COMM_WORLD);
  if (job->rank == 0) print(job, &m, sum, used);
  free_window(job, o->kind);
}

static void measure_op(struct job* job, const struct options* o, enum op op) {
  const int syncs = op == raw ? 1 : o->syncs.count,
            counts = op == fetch_and_op ? 1 : o->sizes.count;
  for (int i = 0; i < syncs; ++i) {
    for (int k = 0; k < counts; ++k) {
      const long bytes = op == fetch_and_op ? (long)sizeof(int64_t) : o->sizes.bytes[k];
      measure(job, o, op, (enum sync)o->syncs.items[i], bytes);
    }
  }
}

static struct list parse_list(const char* option, const char* text, const char* const* names,
                              int count) {
  struct list list = {0};
  char* copy = strdup(text);
  for (char* item = strtok(copy, ","); item; item = strtok(NULL, ",")) {
    if (list.count == max_items) refuse("%s: at most %d", option, max_items);
    list.items[list.count++] = named(option, item, names, count);
  }
  free(copy);
  return list;
}

static void complete(struct options* o) {
  const long given = o->window_bytes;
  if (given > 0 && (given < largest(&o->sizes) || given % 8 != 0)) {
    refuse("--window-bytes: must be a multiple of 8 and at least the largest size, %ld",
           largest(&o->sizes));
  }
  for (int i = 0; i < o->ops.count; ++i) {
    for (int k = 0; o->ops.items[i] == accumulate && k < o->sizes.count; ++k) {
      if (o->sizes.bytes[k] % 8 != 0) refuse("--sizes: accumulate needs multiples of 8");
    }
  }
}

static struct options parse(int argc, char** argv) {
  static const struct option known[] = {{"op", required_argument, NULL, 'o'},
                                        {"sync", required_argument, NULL, 'y'},
                                        {"window", required_argument, NULL, 'w'},
                                        {"window-bytes", required_argument, NULL, 'b'},
                                        {"sizes", required_argument, NULL, 's'},
                                        {"iterations", required_argument, NULL, 'i'},
                                        {"validate", no_argument, NULL, 'c'},
                                        {"peers", required_argument, NULL, 'p'},
                                        {0}};
  static const char* const tests[] = {"latency", "bandwidth"};
  struct options o = {.ops = {.count = 1, .items = {put}}, .syncs = {.count = 1, .items = {pscw}}};
  o.sizes = parse_sizes("8,4096,65536,1048576,4194304");
  for (int option; (option = getopt_long(argc, argv, "", known, NULL)) != -1;) {
    if (option == 'o') {
      o.ops = parse_list("--op", optarg, op_names, op_count);
    } else if (option == 'y') {
      o.syncs = parse_list("--sync", optarg, sync_names, sync_count);
    } else if (option == 'w') {
      o.kind = (enum kind)named("--window", optarg, kind_names, kind_count);
    } else if (option == 'b') {
      o.window_bytes = positive("--window-bytes", optarg);
    } else if (option == 's') {
      o.sizes = parse_sizes(optarg);
    } else if (option == 'i') {
      o.iterations = positive("--iterations", optarg);
    } else if (option == 'c') {
      o.validate = 1;
    } else if (option == 'p') {
      o.peers = optarg;
    } else {
      refuse("one_sided: unknown option");
    }
  }
  if (optind + 1 != argc) refuse("one_sided: name one test: latency or bandwidth");
  o.bandwidth = named("the test", argv[optind], tests, 2);
  complete(&o);
  return o;
}

int main(int argc, char** argv) {
  struct job job = {0};
  int ranks;
  MPI_Group world;
  MPI_Init(&argc, &argv);
  MPI_Comm_rank(MPI_COMM_WORLD, &job.rank);
  MPI_Comm_size(MPI_COMM_WORLD, &ranks);
  const struct options options = parse(argc, argv);
  if (ranks % 2 != 0) refuse("one_sided: needs an even number of ranks, has %d", ranks);
  job.pairs = ranks / 2;
  job.origin = job.rank < job.pairs;
  job.partner = job.origin ? job.rank + job.pairs : job.rank - job.pairs;
  MPI_Comm_group(MPI_COMM_WORLD, &world);
  MPI_Group_incl(world, 1, &job.partner, &job.group);
  job.local = host_memory(window_bytes_of(&options, largest(&options.sizes), window_ops));
  for (int i = 0; i < options.ops.count; ++i) {
    measure_op(&job, &options, (enum op)options.ops.items[i]);
  }
  free(job.local);
  MPI_Group_free(&job.group);
  MPI_Group_free(&world);
  MPI_Finalize();
  return 0;
}

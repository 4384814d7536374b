/* Two-sided messages between pairs of ranks: rank i of the first half sends to rank i + n/2, as in
 * OSU's osu_multi_lat and osu_mbw_mr. An ordinary MPI program on any even number of ranks.
 *
 *   messages latency|bandwidth|bibw|exchange|self [--place HH|HD|DH|DD] [--sizes 8,4096]
 *            [--iterations N] [--pool SPEC] [--validate] [--peers COMMAND]
 *
 * H is malloc'd (host) memory; D comes from MPI_Alloc_mem (device: the pool, if that memory lies in
 * one), or with --pool is an object in the arena of that pool, whatever carries the messages. The
 * first letter stands for the sent buffer, the second for the receive buffer, for each message of
 * either direction.
 *
 * Prints a line for each size: bytes; microseconds one way, the mean over the pairs, or MB/s (10^6)
 * of all pairs together; for exchange and self microseconds of a message to the other, or to
 * oneself, and one from there at the same time; then for a message and a rank, means: microseconds
 * of CPU, bytes sent and received by TCP sockets; and with --peers for a message: messages through
 * the pool and their bytes. As in OSU's: half of a round trip; windows of 64 messages between the
 * same two buffers. */
#include <getopt.h>

#include "common.h"
#include "peers.h"
#include "usage.h"
#ifdef WITH_PENSTOCK
#include <penstock/penstock.h>
#endif

enum test { latency, bandwidth, bibw, exchange, self };

struct job {
  enum test test;
  int rank, pairs, first, other, validate; /* first: this rank is the first of its pair */
  long iterations;                         /* 0: by size */
  const char* pool;                        /* for D buffers; NULL: MPI_Alloc_mem */
  const char* peers;                       /* command that counts messages; NULL: do not count */
  char *out, *in;
};

static long iterations_of(const struct job* job, long bytes) {
  if (job->iterations > 0) return job->iterations;
  if (job->test != bandwidth && job->test != bibw)
    return bytes <= 8192 ? 4000 : bytes <= 262144 ? 1000 : 100;
  return bytes <= 8192 ? 200 : bytes <= 262144 ? 40 : 5;
}

/* The contents that a rank sends in this iteration. */
static unsigned seed_of(int rank, long iteration) {
  return (unsigned)(iteration * 2 + rank + 1000);
}

static void prepare(const struct job* job, long bytes, long iteration) {
  if (!job->validate) return;
  fill(job->out, bytes, seed_of(job->rank, iteration));
  memset(job->in, 0, (size_t)bytes);
}

static void check(const struct job* job, long bytes, long iteration) {
  if (!job->validate) return;
  const long wrong = first_wrong(job->in, bytes, seed_of(job->other, iteration));
  if (wrong >= 0) {
    fail("messages: rank %d: byte %ld of a message of %ld bytes is wrong", job->rank, wrong, bytes);
  }
}

static void ping_pong(const struct job* job, long bytes, long iteration) {
  const int other = job->other;
  if (job->first) MPI_Send(job->out, (int)bytes, MPI_BYTE, other, 1, MPI_COMM_WORLD);
  MPI_Recv(job->in, (int)bytes, MPI_BYTE, other, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
  if (!job->first) MPI_Send(job->out, (int)bytes, MPI_BYTE, other, 1, MPI_COMM_WORLD);
  check(job, bytes, iteration);
}

/* The order in which programs swap vectors. */
static void swap(const struct job* job, long bytes, long iteration) {
  const int other = job->other;
  MPI_Request request;
  MPI_Irecv(job->in, (int)bytes, MPI_BYTE, other, 4, MPI_COMM_WORLD, &request);
  MPI_Send(job->out, (int)bytes, MPI_BYTE, other, 4, MPI_COMM_WORLD);
  MPI_Wait(&request, MPI_STATUS_IGNORE);
  check(job, bytes, iteration);
}

/* 64 messages from the first rank, with bibw 64 each way, and a word back when all have arrived. */
static void one_window(const struct job* job, long bytes, long iteration) {
  MPI_Request requests[2 * window_ops];
  const int other = job->other, both = job->test == bibw;
  int count = 0, token = 0;
  for (int i = 0; i < window_ops && (both || !job->first); ++i) {
    MPI_Irecv(job->in, (int)bytes, MPI_BYTE, other, 2, MPI_COMM_WORLD, &requests[count++]);
  }
  for (int i = 0; i < window_ops && (both || job->first); ++i) {
    MPI_Isend(job->out, (int)bytes, MPI_BYTE, other, 2, MPI_COMM_WORLD, &requests[count++]);
  }
  MPI_Waitall(count, requests, MPI_STATUSES_IGNORE);
  if (both || !job->first) check(job, bytes, iteration);
  if (!job->first) {
    MPI_Send(&token, 1, MPI_INT, other, 3, MPI_COMM_WORLD);
  } else {
    MPI_Recv(&token, 1, MPI_INT, other, 3, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
  }
}

/* Messages that a rank sends and receives in an iteration. */
static long messages_of(const struct job* job) {
  return job->test == bandwidth ? window_ops : job->test == bibw ? 2 * window_ops : 2;
}

static void print(const struct job* job, long bytes, long count, const double* sums,
                  const struct peers* through_pool) {
  const double each = sums[used_count] / job->pairs; /* the mean over the pairs */
  const double moved = (double)bytes * window_ops * (double)count * (job->test == bibw ? 2 : 1);
  const double micro = each * 1e6 / (double)count;
  const double value = job->test == latency ? micro / 2
                       : job->test == exchange || job->test == self
                           ? micro
                           : job->pairs * moved / each / 1e6;
  const double messages = (double)(job->pairs * count * messages_of(job));
  printf("%ld %.3f %.4f %.0f %.0f %.2f %.0f\n", bytes, value, sums[cpu] / (2 * job->pairs),
         sums[sent] / (2 * job->pairs), sums[received] / (2 * job->pairs),
         through_pool->messages / messages, through_pool->bytes / messages);
  fflush(stdout);
}

static void measure(const struct job* job, long bytes) {
  const long count = iterations_of(job, bytes), warmup = count / 10 + 1;
  static struct usage before, after;
  struct peers through_pool = {0};
  double start = 0, used[used_count + 1], sums[used_count + 1];
  MPI_Barrier(MPI_COMM_WORLD);
  for (long i = -warmup; i < count; ++i) {
    if (i == 0) {
      through_pool = peers_so_far(job->peers);
      usage_so_far(&before);
      start = MPI_Wtime();
    }
    prepare(job, bytes, i);
    if (job->test == latency) {
      ping_pong(job, bytes, i);
    } else if (job->test == exchange || job->test == self) {
      swap(job, bytes, i);
    } else {
      one_window(job, bytes, i);
    }
  }
  const double seconds = MPI_Wtime() - start;
  usage_so_far(&after);
  usage_between(&before, &after, count * messages_of(job), used);
  through_pool = peers_since(&through_pool, job->peers);
  used[used_count] = job->first ? seconds : 0;
  MPI_Reduce(used, sums, used_count + 1, MPI_DOUBLE, MPI_SUM, 0, MPI_COMM_WORLD);
  if (job->rank == 0) print(job, bytes, count, sums, &through_pool);
}

/* Memory of one buffer. */
struct memory {
  char kind; /* 'H', 'D', or 'O': an object of a pool */
  char* data;
#ifdef WITH_PENSTOCK
  penstock_object_t* object;
#endif
};

#ifdef WITH_PENSTOCK
static struct memory object_memory(const char* spec, int rank, const char* which, long bytes) {
  static penstock_pool_t* pool;
  struct memory memory = {.kind = 'O'};
  char name[PENSTOCK_MAX_NAME_BYTES + 1];
  const penstock_object_options_t options = {
      .struct_bytes = sizeof options, .lifetime = PENSTOCK_LIFETIME_PROCESS, .alignment = 4096};
  snprintf(name, sizeof name, "messages.%d.%s", rank, which);
  if ((!pool && penstock_pool_attach(spec, NULL, &pool) != PENSTOCK_OK) ||
      penstock_arena_create(pool, name, (uint64_t)bytes, &options, &memory.object) != PENSTOCK_OK)
    fail("messages: %s", penstock_last_error());
  memory.data = penstock_object_data(memory.object);
  return memory;
}
#endif

static struct memory memory_of(const struct job* job, char kind, const char* which, long bytes) {
  struct memory memory = {.kind = kind};
  (void)which;
  if (kind == 'H') {
    memory.data = host_memory(bytes);
  } else if (!job->pool) {
    MPI_Alloc_mem(bytes, MPI_INFO_NULL, &memory.data);
  } else {
#ifdef WITH_PENSTOCK
    memory = object_memory(job->pool, job->rank, which, bytes);
#else
    refuse("--pool: built without libpenstock");
#endif
  }
  memset(memory.data, 1, (size_t)bytes);
  return memory;
}

static void free_memory(const struct memory* memory) {
  if (memory->kind == 'H') free(memory->data);
  if (memory->kind == 'D') MPI_Free_mem(memory->data);
#ifdef WITH_PENSTOCK
  if (memory->kind == 'O') penstock_arena_destroy(memory->object);
#endif
}

static void parse(int argc, char** argv, struct job* job, const char** place, struct sizes* sizes) {
  static const struct option options[] = {{"place", required_argument, NULL, 'p'},
                                          {"sizes", required_argument, NULL, 's'},
                                          {"iterations", required_argument, NULL, 'i'},
                                          {"pool", required_argument, NULL, 'd'},
                                          {"validate", no_argument, NULL, 'c'},
                                          {"peers", required_argument, NULL, 'n'},
                                          {0}};
  static const char* const tests[] = {"latency", "bandwidth", "bibw", "exchange", "self"};
  *sizes = parse_sizes("8,4096,65536,1048576");
  for (int option; (option = getopt_long(argc, argv, "", options, NULL)) != -1;) {
    if (option == 'p') {
      *place = optarg;
    } else if (option == 's') {
      *sizes = parse_sizes(optarg);
    } else if (option == 'i') {
      job->iterations = positive("--iterations", optarg);
    } else if (option == 'd') {
      job->pool = optarg;
    } else if (option == 'c') {
      job->validate = 1;
    } else if (option == 'n') {
      job->peers = optarg;
    } else {
      refuse("messages: unknown option");
    }
  }
  if (optind + 1 != argc)
    refuse("messages: name one test: latency, bandwidth, bibw, exchange or self");
  job->test = (enum test)named("the test", argv[optind], tests, 5);
  if (strlen(*place) != 2 || strspn(*place, "HD") != 2) {
    refuse("--place: '%s' is none of HH, HD, DH, DD", *place);
  }
}

int main(int argc, char** argv) {
  struct job job = {0};
  struct sizes sizes;
  const char* place = "HH";
  int ranks;
  MPI_Init(&argc, &argv);
  MPI_Comm_rank(MPI_COMM_WORLD, &job.rank);
  MPI_Comm_size(MPI_COMM_WORLD, &ranks);
  parse(argc, argv, &job, &place, &sizes);
  if (ranks % 2 != 0) refuse("messages: needs an even number of ranks, has %d", ranks);
  job.pairs = ranks / 2;
  job.first = job.rank < job.pairs;
  job.other = job.first ? job.rank + job.pairs : job.rank - job.pairs;
  if (job.test == self) job.other = job.rank;
  const struct memory out = memory_of(&job, place[0], "out", largest(&sizes)),
                      in = memory_of(&job, place[1], "in", largest(&sizes));
  job.out = out.data;
  job.in = in.data;
  for (int i = 0; i < sizes.count; ++i) measure(&job, sizes.bytes[i]);
  free_memory(&out);
  free_memory(&in);
  MPI_Finalize();
  return 0;
}

/* Collectives of an ordinary MPI program on any number of ranks, with validation, and the raw
 * limit.
 *
 *   collectives [--op barrier,bcast,reduce,allreduce,allgather,alltoall,reduce_scatter,raw]
 *               [--sizes 8,4096] [--iterations N] [--validate] [--usage]
 *
 * Prints a line for each measurement: operation, bytes, microseconds: the median over the calls of
 * a rank, and of these the largest of all ranks. Bytes are those of a rank's longest buffer. Before
 * each call the ranks meet in a barrier, which is not counted.
 *
 * --usage prints instead, for each call: microseconds of CPU of a rank, mean and largest; bytes
 * that a rank sent and received by TCP sockets, mean. The calls follow each other without a
 * barrier.
 *
 * raw, between ranks 0 and 1 of the same host, through a shared window: up to 56 bytes it is the
 * hand-over of a line, which one rank writes past its cache and the other drops and reads until it
 * has arrived; above that, two passes over the memory, one after the other: own bytes written past
 * the cache, then the other's dropped from the cache and read. No collective can be faster. */
#include <getopt.h>
#include <stdint.h>

#include "common.h"
#include "raw_copy.h"
#include "usage.h"

enum op { barrier, bcast, reduce, allreduce, allgather, alltoall, reduce_scatter, raw, op_count };
static const char* const op_names[] = {"barrier",   "bcast",    "reduce",         "allreduce",
                                       "allgather", "alltoall", "reduce_scatter", "raw"};

struct options {
  int ops[max_items], op_count, validate, usage;
  struct sizes sizes;
  long iterations; /* 0: by size */
};

struct job {
  int rank, ranks;
  float *from, *to;
  char* shared; /* for raw: two parts of `most` bytes, and then a line for each */
  long most;
  MPI_Win win;
};

static int ascending(const void* a, const void* b) {
  const double x = *(const double*)a, y = *(const double*)b;
  return (x > y) - (x < y);
}

static int64_t flag_of(const struct job* job, int rank) {
  const char* const line = job->shared + 2 * job->most + 64 * rank;
  raw_drop(line, 8);
  return __atomic_load_n((const int64_t*)(const void*)(line), __ATOMIC_ACQUIRE);
}

static void set_flag(const struct job* job, int64_t value) {
  char line[64] = {0};
  memcpy(line, &value, sizeof value);
  raw_copy(job->shared + 2 * job->most + 64 * job->rank, line, sizeof line);
  raw_order();
}

/* Microseconds of one way of a line, or of two passes. */
static double raw_once(const struct job* job, long bytes, int64_t turn) {
  if (job->rank > 1) return 0;
  const int other = 1 - job->rank;
  double begin = MPI_Wtime();
  if (bytes <= 56) {
    if (job->rank == 0) set_flag(job, turn);
    while (flag_of(job, other) < turn) {
    }
    if (job->rank == 1) set_flag(job, turn);
    return (MPI_Wtime() - begin) * 1e6 / 2;
  }
  raw_copy(job->shared + job->rank * job->most, (const char*)job->from, (size_t)bytes);
  raw_order();
  double passed = MPI_Wtime() - begin;
  set_flag(job, turn);
  while (flag_of(job, other) < turn) {
  }
  begin = MPI_Wtime();
  raw_drop(job->shared + other * job->most, (size_t)bytes);
  memcpy(job->to, job->shared + other * job->most, (size_t)bytes);
  passed += MPI_Wtime() - begin;
  return passed * 1e6;
}

static void call(const struct job* job, enum op op, long bytes) {
  const MPI_Comm comm = MPI_COMM_WORLD;
  const int all = (int)(bytes / (long)sizeof(float)), part = all / job->ranks;
  switch (op) {
    case barrier:
      MPI_Barrier(comm);
      break;
    case bcast:
      MPI_Bcast(job->from, all, MPI_FLOAT, 0, comm);
      break;
    case reduce:
      MPI_Reduce(job->from, job->to, all, MPI_FLOAT, MPI_SUM, 0, comm);
      break;
    case allreduce:
      MPI_Allreduce(job->from, job->to, all, MPI_FLOAT, MPI_SUM, comm);
      break;
    case allgather:
      MPI_Allgather(job->from, part, MPI_FLOAT, job->to, part, MPI_FLOAT, comm);
      break;
    case alltoall:
      MPI_Alltoall(job->from, part, MPI_FLOAT, job->to, part, MPI_FLOAT, comm);
      break;
    default:
      MPI_Reduce_scatter_block(job->from, job->to, part, MPI_FLOAT, MPI_SUM, comm);
  }
}

/* Element i of rank r is r + i % 64, so that sums of floats are exact. */
static void fill_all(const struct job* job, long bytes) {
  for (long i = 0; i < bytes / (long)sizeof(float); ++i) {
    job->from[i] = (float)(job->rank + i % 64);
    job->to[i] = -1;
  }
}

static void check(const struct job* job, enum op op, long bytes) {
  const long all = bytes / (long)sizeof(float), part = all / job->ranks;
  const float ranks = (float)job->ranks, sum_of_ranks = ranks * (ranks - 1) / 2;
  const int gathers = op == allgather || op == alltoall;
  if (op == barrier || op == raw || (op == reduce && job->rank != 0)) return;
  for (long i = 0; i < (op == reduce_scatter ? part : gathers ? part * job->ranks : all); ++i) {
    float wanted, found = op == bcast ? job->from[i] : job->to[i];
    if (op == bcast) wanted = (float)(i % 64);
    if (op == reduce || op == allreduce) wanted = sum_of_ranks + ranks * (float)(i % 64);
    if (op == reduce_scatter) wanted = sum_of_ranks + ranks * (float)((job->rank * part + i) % 64);
    if (op == allgather) wanted = (float)(i / part + i % part % 64);
    if (op == alltoall) wanted = (float)(i / part + (job->rank * part + i % part) % 64);
    if (found != wanted)
      fail("%s of %ld bytes: element %ld of rank %d is %g instead of %g", op_names[op], bytes, i,
           job->rank, (double)found, (double)wanted);
  }
}

static void measure(const struct job* job, const struct options* options, enum op op, long bytes) {
  static int64_t turn;
  const long usual = bytes <= 4096 ? 2000 : bytes <= 65536 ? 400 : bytes <= 1 << 20 ? 60 : 12;
  const long iterations = options->iterations ? options->iterations : usual, warm = 8;
  double* const times = malloc(sizeof(double) * (size_t)iterations);
  double median, slowest = 0;
  if (!times) fail("no memory for %ld times", iterations);
  for (long i = -warm; i < iterations; ++i) {
    if (options->validate && i < 2) fill_all(job, bytes);
    if (op != barrier) MPI_Barrier(MPI_COMM_WORLD);
    const double begin = MPI_Wtime();
    double passed = 0;
    if (op == raw)
      passed = raw_once(job, bytes, ++turn);
    else
      call(job, op, bytes);
    if (op != raw) passed = (MPI_Wtime() - begin) * 1e6;
    if (i >= 0) times[i] = passed;
    if (options->validate && i < 2) check(job, op, bytes);
  }
  qsort(times, (size_t)iterations, sizeof *times, ascending);
  median = times[iterations / 2];
  free(times);
  MPI_Reduce(&median, &slowest, 1, MPI_DOUBLE, MPI_MAX, 0, MPI_COMM_WORLD);
  if (job->rank == 0) printf("%s %ld %.3f\n", op_names[op], bytes, slowest);
}

static void measure_usage(const struct job* job, const struct options* options, enum op op,
                          long bytes) {
  const long usual = bytes <= 4096 ? 1000 : bytes <= 65536 ? 200 : 30;
  const long iterations = options->iterations ? options->iterations : usual, warm = 8;
  static struct usage before, after;
  double used[used_count], sums[used_count], largest_cpu = 0;
  for (long i = -warm; i < iterations; ++i) {
    if (i == 0) usage_so_far(&before);
    if (options->validate && i < 2 - warm) fill_all(job, bytes);
    call(job, op, bytes);
    if (options->validate && i < 2 - warm) check(job, op, bytes);
  }
  usage_so_far(&after);
  usage_between(&before, &after, iterations, used);
  MPI_Reduce(used, sums, used_count, MPI_DOUBLE, MPI_SUM, 0, MPI_COMM_WORLD);
  MPI_Reduce(&used[cpu], &largest_cpu, 1, MPI_DOUBLE, MPI_MAX, 0, MPI_COMM_WORLD);
  if (job->rank == 0)
    printf("%s %ld %.3f %.3f %.0f %.0f\n", op_names[op], bytes, sums[cpu] / job->ranks, largest_cpu,
           sums[sent] / job->ranks, sums[received] / job->ranks);
}

static struct options parse(int argc, char** argv) {
  static const struct option known[] = {{"op", required_argument, NULL, 'o'},
                                        {"sizes", required_argument, NULL, 's'},
                                        {"iterations", required_argument, NULL, 'i'},
                                        {"validate", no_argument, NULL, 'v'},
                                        {"usage", no_argument, NULL, 'u'},
                                        {NULL, 0, NULL, 0}};
  struct options options = {0};
  options.sizes = parse_sizes("8,1024,4096,16384,65536,1048576");
  for (int i = 0; i < raw; ++i) options.ops[options.op_count++] = i;
  for (int option; (option = getopt_long(argc, argv, "", known, NULL)) != -1;) {
    if (option == 'o') {
      options.op_count = 0;
      for (char* item = strtok(optarg, ","); item; item = strtok(NULL, ",")) {
        if (options.op_count == max_items) refuse("--op: at most %d", max_items);
        options.ops[options.op_count++] = named("--op", item, op_names, op_count);
      }
    } else if (option == 's') {
      options.sizes = parse_sizes(optarg);
    } else if (option == 'i') {
      options.iterations = positive("--iterations", optarg);
    } else if (option == 'v') {
      options.validate = 1;
    } else if (option == 'u') {
      options.usage = 1;
    } else {
      refuse(
          "usage: collectives [--op OP,...] [--sizes N,...] [--iterations N] [--validate] "
          "[--usage]");
    }
  }
  return options;
}

int main(int argc, char** argv) {
  struct job job = {0};
  MPI_Init(&argc, &argv);
  MPI_Comm_rank(MPI_COMM_WORLD, &job.rank);
  MPI_Comm_size(MPI_COMM_WORLD, &job.ranks);
  const struct options options = parse(argc, argv);
  int with_raw = 0;
  for (int i = 0; i < options.op_count; ++i) with_raw |= options.ops[i] == raw;
  if (with_raw && job.ranks < 2) refuse("raw needs two ranks");
  if (with_raw && options.usage) refuse("--usage does not know raw");
  job.most = (largest(&options.sizes) + 63) / 64 * 64;
  job.from = (float*)(void*)host_memory(job.most);
  job.to = (float*)(void*)host_memory(job.most);
  memset(job.from, 0, (size_t)job.most);
  memset(job.to, 0, (size_t)job.most);
  if (with_raw) {
    const MPI_Aint bytes = job.rank == 0 ? 2 * job.most + 128 : 0;
    MPI_Aint found;
    int unit;
    MPI_Win_allocate_shared(bytes, 1, MPI_INFO_NULL, MPI_COMM_WORLD, &job.shared, &job.win);
    MPI_Win_shared_query(job.win, 0, &found, &unit, &job.shared);
    if (job.rank == 0) memset(job.shared, 0, (size_t)bytes);
    MPI_Barrier(MPI_COMM_WORLD);
  }
  for (int i = 0; i < options.op_count; ++i) {
    const int only_once = options.ops[i] == barrier;
    for (int s = 0; s < (only_once ? 1 : options.sizes.count); ++s)
      (options.usage ? measure_usage : measure)(&job, &options, options.ops[i],
                                                options.sizes.bytes[s]);
  }
  if (with_raw) MPI_Win_free(&job.win);
  free(job.from);
  free(job.to);
  MPI_Finalize();
  return 0;
}

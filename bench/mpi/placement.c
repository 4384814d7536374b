/* Two-sided messages between buffers in host memory and in memory from MPI_Alloc_mem. An ordinary
 * MPI program on 2 ranks.
 *
 *   placement latency|bandwidth|bibw --place HH|HD|DH|DD [--sizes 8,4096] [--iterations N]
 * [--validate]
 *
 * H is malloc'd (host), D from MPI_Alloc_mem (device: the pool, where that lies in one). The first
 * letter is of the buffer that is sent, the second of the one that is received into, for each
 * message of either direction.
 *
 * Prints a line a size: bytes, then microseconds one way, or MB/s (10^6). As OSU's osu_latency,
 * osu_bw and osu_bibw: half of a round trip; windows of 64 messages between the same two buffers.
 */
#include <getopt.h>

#include "common.h"

enum test { latency, bandwidth, bibw };

struct job {
  enum test test;
  int rank, validate;
  long iterations; /* 0: by size */
  char *out, *in;
};

static long iterations_of(const struct job* job, long bytes) {
  if (job->iterations > 0) return job->iterations;
  if (job->test == latency) return bytes <= 8192 ? 4000 : bytes <= 262144 ? 1000 : 100;
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
  const long wrong = first_wrong(job->in, bytes, seed_of(1 - job->rank, iteration));
  if (wrong >= 0) {
    fail("placement: rank %d: byte %ld of a message of %ld bytes is wrong", job->rank, wrong,
         bytes);
  }
}

static void ping_pong(const struct job* job, long bytes, long iteration) {
  const int other = 1 - job->rank;
  if (job->rank == 0) MPI_Send(job->out, (int)bytes, MPI_BYTE, other, 1, MPI_COMM_WORLD);
  MPI_Recv(job->in, (int)bytes, MPI_BYTE, other, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
  if (job->rank == 1) MPI_Send(job->out, (int)bytes, MPI_BYTE, other, 1, MPI_COMM_WORLD);
  check(job, bytes, iteration);
}

/* 64 messages from rank 0, with bibw 64 each way, and a word back when all are there. */
static void one_window(const struct job* job, long bytes, long iteration) {
  MPI_Request requests[2 * window_ops];
  const int other = 1 - job->rank, both = job->test == bibw;
  int count = 0, token = 0;
  for (int i = 0; i < window_ops && (both || job->rank == 1); ++i) {
    MPI_Irecv(job->in, (int)bytes, MPI_BYTE, other, 2, MPI_COMM_WORLD, &requests[count++]);
  }
  for (int i = 0; i < window_ops && (both || job->rank == 0); ++i) {
    MPI_Isend(job->out, (int)bytes, MPI_BYTE, other, 2, MPI_COMM_WORLD, &requests[count++]);
  }
  MPI_Waitall(count, requests, MPI_STATUSES_IGNORE);
  if (both || job->rank == 1) check(job, bytes, iteration);
  if (job->rank == 1) {
    MPI_Send(&token, 1, MPI_INT, other, 3, MPI_COMM_WORLD);
  } else {
    MPI_Recv(&token, 1, MPI_INT, other, 3, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
  }
}

static double measure(const struct job* job, long bytes) {
  const long count = iterations_of(job, bytes), warmup = count / 10 + 1;
  double start = 0;
  MPI_Barrier(MPI_COMM_WORLD);
  for (long i = -warmup; i < count; ++i) {
    if (i == 0) start = MPI_Wtime();
    prepare(job, bytes, i);
    if (job->test == latency) {
      ping_pong(job, bytes, i);
    } else {
      one_window(job, bytes, i);
    }
  }
  const double seconds = MPI_Wtime() - start;
  if (job->test == latency) return seconds * 1e6 / (2.0 * (double)count);
  return (double)bytes * window_ops * (double)count * (job->test == bibw ? 2 : 1) / seconds / 1e6;
}

static char* memory_of(char kind, long bytes) {
  char* memory;
  if (kind == 'H') {
    memory = host_memory(bytes);
  } else {
    MPI_Alloc_mem(bytes, MPI_INFO_NULL, &memory);
  }
  memset(memory, 1, (size_t)bytes);
  return memory;
}

static void free_memory(char kind, char* memory) {
  if (kind == 'H') {
    free(memory);
  } else {
    MPI_Free_mem(memory);
  }
}

static void parse(int argc, char** argv, struct job* job, const char** place, struct sizes* sizes) {
  static const struct option options[] = {{"place", required_argument, NULL, 'p'},
                                          {"sizes", required_argument, NULL, 's'},
                                          {"iterations", required_argument, NULL, 'i'},
                                          {"validate", no_argument, NULL, 'c'},
                                          {0}};
  static const char* const tests[] = {"latency", "bandwidth", "bibw"};
  *sizes = parse_sizes("8,4096,65536,1048576");
  for (int option; (option = getopt_long(argc, argv, "", options, NULL)) != -1;) {
    if (option == 'p') {
      *place = optarg;
    } else if (option == 's') {
      *sizes = parse_sizes(optarg);
    } else if (option == 'i') {
      job->iterations = positive("--iterations", optarg);
    } else if (option == 'c') {
      job->validate = 1;
    } else {
      refuse("placement: unknown option");
    }
  }
  if (optind + 1 != argc) refuse("placement: name one test: latency, bandwidth or bibw");
  job->test = (enum test)named("the test", argv[optind], tests, 3);
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
  if (ranks != 2) refuse("placement: needs 2 ranks, has %d", ranks);
  job.out = memory_of(place[0], largest(&sizes));
  job.in = memory_of(place[1], largest(&sizes));
  for (int i = 0; i < sizes.count; ++i) {
    const double value = measure(&job, sizes.bytes[i]);
    if (job.rank == 0) printf("%ld %.3f\n", sizes.bytes[i], value);
  }
  free_memory(place[0], job.out);
  free_memory(place[1], job.in);
  MPI_Finalize();
  return 0;
}

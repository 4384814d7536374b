/* The cost that many waiting receives, or many unexpected messages, add to each message: rank 0
 * sends to rank 1. An ordinary MPI program on two ranks.
 *
 *   matching [--counts 1,100000] [--flood N] [--bytes 8192,32768] [--away 8,1000,8192]
 *
 * Prints two lines for each count, "posted COUNT MICROSECONDS" and "unexpected COUNT MICROSECONDS":
 * the time of a message that the last of COUNT posted receives takes, and of a receive that takes
 * the last of COUNT messages that arrived before it; the mean of up to 1,000 of them, each behind
 * all that are left. Then, with --flood, N nonblocking messages of --bytes that rank 1 does not
 * receive before one that was sent behind them: "flood" BYTES, microseconds a message until all are
 * received, and the bytes by which the two processes had grown when that one arrived. Last, with
 * --away, as many nonblocking messages of these sizes while rank 1 is outside MPI: "calls" BYTES,
 * and how many calls returned before one that waited; N if none did. */
#include <getopt.h>

#include "common.h"

enum { tried = 1000, token_tag = 1 << 20 };

static int rank;

static void token(int from) {
  char byte = 0;
  if (rank == from)
    MPI_Send(&byte, 1, MPI_CHAR, 1 - from, token_tag, MPI_COMM_WORLD);
  else
    MPI_Recv(&byte, 1, MPI_CHAR, from, token_tag, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
}

static void* array(long count, size_t bytes) {
  void* const memory = calloc((size_t)count, bytes);
  if (!memory) fail("matching: no memory for %ld items", count);
  return memory;
}

/* Receives of tags 0 to count - 1 are posted; the messages arrive from the last tag on. */
static double posted(long count, long first) {
  MPI_Request* const requests = array(count, sizeof *requests);
  long* const data = array(count, sizeof *data);
  double seconds = 0;
  if (rank == 1) {
    for (long i = 0; i < count; ++i)
      MPI_Irecv(&data[i], 1, MPI_LONG, 0, (int)i, MPI_COMM_WORLD, &requests[i]);
    token(1);
    const double start = MPI_Wtime();
    MPI_Waitall((int)(count - first), requests + first, MPI_STATUSES_IGNORE);
    seconds = MPI_Wtime() - start;
    token(1);
    MPI_Waitall((int)first, requests, MPI_STATUSES_IGNORE);
    for (long i = 0; i < count; ++i)
      if (data[i] != i) fail("matching: receive %ld has message %ld", i, data[i]);
  } else {
    token(1);
    for (long i = count; i-- > first;) MPI_Send(&i, 1, MPI_LONG, 1, (int)i, MPI_COMM_WORLD);
    token(1);
    for (long i = 0; i < first; ++i) MPI_Send(&i, 1, MPI_LONG, 1, (int)i, MPI_COMM_WORLD);
  }
  free(requests);
  free(data);
  return seconds;
}

/* All messages arrive before the receives, which take the last one first. */
static double unexpected(long count, long first) {
  double seconds = 0;
  if (rank == 0) {
    for (long i = 0; i < count; ++i) MPI_Send(&i, 1, MPI_LONG, 1, (int)i, MPI_COMM_WORLD);
    token(0);
    return 0;
  }
  token(0);
  const double start = MPI_Wtime();
  for (long i = count; i-- > 0;) {
    const long tag = i >= first ? i : first - 1 - i;
    long data = -1;
    if (i == first - 1) seconds = MPI_Wtime() - start;
    MPI_Recv(&data, 1, MPI_LONG, 0, (int)tag, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    if (data != tag) fail("matching: the message of tag %ld is %ld", tag, data);
  }
  return first == 0 ? MPI_Wtime() - start : seconds;
}

/* Bytes of this process that are in memory. */
static double resident(void) {
  char line[256];
  double kibibytes = 0;
  FILE* const status = fopen("/proc/self/status", "r");
  while (status && fgets(line, sizeof line, status)) sscanf(line, "VmRSS: %lf", &kibibytes);
  if (status) fclose(status);
  return kibibytes * 1024;
}

static void flood(long count, long bytes) {
  char *const data = array(1, (size_t)bytes), *const into = array(1, (size_t)bytes);
  MPI_Request* const requests = array(count, sizeof *requests);
  memset(data, 7, (size_t)bytes);
  memset(requests, 1, (size_t)count * sizeof *requests);
  memset(into, 1, (size_t)bytes);
  MPI_Barrier(MPI_COMM_WORLD);
  double grown = -resident(), all = 0;
  const double start = MPI_Wtime();
  if (rank == 0) {
    for (long i = 0; i < count; ++i)
      MPI_Isend(data, (int)bytes, MPI_CHAR, 1, 1, MPI_COMM_WORLD, &requests[i]);
    MPI_Request behind;
    char byte = 0;
    MPI_Isend(&byte, 1, MPI_CHAR, 1, token_tag, MPI_COMM_WORLD, &behind);
    MPI_Wait(&behind, MPI_STATUS_IGNORE);
    grown += resident();
    MPI_Waitall((int)count, requests, MPI_STATUSES_IGNORE);
  } else {
    token(0);
    grown += resident();
    for (long i = 0; i < count; ++i) {
      MPI_Recv(into, (int)bytes, MPI_CHAR, 0, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
      if (into[bytes - 1] != 7) fail("matching: message %ld is wrong", i);
    }
  }
  const double seconds = MPI_Wtime() - start;
  MPI_Reduce(&grown, &all, 1, MPI_DOUBLE, MPI_SUM, 1, MPI_COMM_WORLD);
  if (rank == 1) printf("flood %ld %.3f %.0f\n", bytes, seconds * 1e6 / (double)count, all);
  free(data);
  free(into);
  free(requests);
}

static void away(long most, long bytes) {
  const double away_s = 0.5;
  char* const data = array(1, (size_t)bytes);
  MPI_Request* const requests = array(most + 1, sizeof *requests);
  long calls = 0;
  MPI_Barrier(MPI_COMM_WORLD);
  if (rank == 0) {
    long returned = 0;
    for (double last = 0; calls < most && last < away_s / 4; ++calls) {
      const double start = MPI_Wtime();
      MPI_Isend(data, (int)bytes, MPI_CHAR, 1, 1, MPI_COMM_WORLD, &requests[calls]);
      last = MPI_Wtime() - start;
      returned += last < away_s / 4;
    }
    long counts[2] = {calls, returned};
    MPI_Isend(counts, 2, MPI_LONG, 1, token_tag, MPI_COMM_WORLD, &requests[calls]);
    MPI_Waitall((int)calls + 1, requests, MPI_STATUSES_IGNORE);
  } else {
    long counts[2];
    usleep((useconds_t)(away_s * 1e6));
    MPI_Recv(counts, 2, MPI_LONG, 0, token_tag, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    for (long i = 0; i < counts[0]; ++i)
      MPI_Recv(data, (int)bytes, MPI_CHAR, 0, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    printf("calls %ld %ld\n", bytes, counts[1]);
  }
  free(data);
  free(requests);
}

int main(int argc, char** argv) {
  static const struct option options[] = {{"counts", required_argument, NULL, 'c'},
                                          {"flood", required_argument, NULL, 'f'},
                                          {"bytes", required_argument, NULL, 'b'},
                                          {"away", required_argument, NULL, 'a'},
                                          {0}};
  long messages = 0;
  int ranks;
  MPI_Init(&argc, &argv);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &ranks);
  if (ranks != 2) refuse("matching: needs 2 ranks, has %d", ranks);
  struct sizes counts = parse_sizes("1,100,10000,100000"), bytes = parse_sizes("8192,32768");
  struct sizes outside = {0};
  for (int option; (option = getopt_long(argc, argv, "", options, NULL)) != -1;) {
    if (option == 'c') counts = parse_sizes(optarg);
    if (option == 'f') messages = positive("--flood", optarg);
    if (option == 'b') bytes = parse_sizes(optarg);
    if (option == 'a') outside = parse_sizes(optarg);
    if (option == '?') refuse("matching: unknown option");
  }
  for (int i = -1; i < counts.count; ++i) { /* the first pass warms up */
    const long count = counts.bytes[i < 0 ? 0 : i], first = count > tried ? count - tried : 0;
    const double each = 1e6 / (double)(count - first);
    const double waiting = posted(count, first) * each, kept = unexpected(count, first) * each;
    if (rank == 1 && i >= 0)
      printf("posted %ld %.3f\nunexpected %ld %.3f\n", count, waiting, count, kept);
  }
  for (int i = 0; messages && i < bytes.count; ++i) flood(messages, bytes.bytes[i]);
  for (int i = 0; messages && i < outside.count; ++i) away(messages, outside.bytes[i]);
  MPI_Finalize();
  return 0;
}

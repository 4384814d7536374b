/* The cost of many ranks: start, hello, barrier, allreduce, messages, fences, waiting, the end; the
 * work of OSU's osu_init and osu_hello, with checked results. An ordinary MPI program.
 *
 *   ranks [--calls N] [--fences N] [--all] [--idle SECONDS] [--hold FILE] [--pool COMMAND]
 *         [--traffic COMMAND]
 *
 * Rank 0 prints a line for each figure, its name and its value:
 *
 *   ranks
 *   start_s, start_cpu_s        MPI_Init: the longest wall time, and CPU time of all ranks
 *   start_pool                  bytes of the pool in use then
 *   barrier_cpu_us, allreduce_cpu_us, neighbours_cpu_us
 *                               CPU time of a rank for a call, or message; the mean of N (10)
 *   neighbours_pool             bytes of the pool in use after each rank had talked to two others
 *   all_cpu_us, all_pool        with --all: each rank sends a message to each, again and again
 *   fence_cpu_us, fence_pool    with --fences: in a window of all ranks, each puts to its neighbour
 *   waits                       with --idle: the seconds in which all but rank 0 wait in a barrier
 *                               and rank 0 sleeps; longer while FILE exists
 *   idle_cpu_s, idle_reads      CPU time of all ranks in a second of these; lines that all ranks
 *                               read from the device in a second
 *   private_kB, shared_kB       of the rank with most, before the end: its own memory, and its part
 *                               of shared memory
 *   threads, descriptors        of the rank with most
 *   cpu_s                       of all ranks until just before MPI_Finalize
 *
 * COMMAND of --pool: 'penstock pool info --json SPEC', which prints bytes_used. COMMAND of
 * --traffic: 'penstock ps --traffic=3 --json SPEC'. */
#include <dirent.h>
#include <getopt.h>
#include <sys/resource.h>
#include <time.h>

#include "common.h"

static int rank, ranks;

static double cpu_s(void) {
  struct rusage used;
  getrusage(RUSAGE_SELF, &used);
  return (double)(used.ru_utime.tv_sec + used.ru_stime.tv_sec) +
         1e-6 * (double)(used.ru_utime.tv_usec + used.ru_stime.tv_usec);
}

static double wall_s(void) {
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

/* Reduces over all ranks; the result is valid on rank 0. */
static double of_all(double value, MPI_Op op) {
  double result = 0;
  MPI_Reduce(&value, &result, 1, MPI_DOUBLE, op, 0, MPI_COMM_WORLD);
  return result;
}

static void print(const char* name, double value) {
  if (rank == 0) printf("%s %.6g\n", name, value);
  fflush(stdout);
}

/* The sum of all numbers behind "field" in the output of the command. */
static double asked(const char* command, const char* field) {
  char word[256];
  double sum = 0;
  FILE* said = popen(command, "r");
  if (!said) fail("ranks: '%s' cannot be run", command);
  while (fscanf(said, "%255s", word) == 1) {
    const size_t length = strlen(field);
    if (word[0] == '"' && strncmp(word + 1, field, length) == 0 && word[length + 1] == '"') {
      if (fscanf(said, "%255s", word) == 1) sum += strtod(word, NULL);
    }
  }
  if (pclose(said) != 0) fail("ranks: '%s' failed", command);
  return sum;
}

static void print_pool(const char* name, const char* command) {
  MPI_Barrier(MPI_COMM_WORLD);
  if (command && rank == 0) print(name, asked(command, "bytes_used"));
  MPI_Barrier(MPI_COMM_WORLD);
}

/* Prints the CPU time of a rank for one call. */
static void print_calls(const char* name, double begun, double calls) {
  print(name, of_all(cpu_s() - begun, MPI_SUM) * 1e6 / (calls * ranks));
}

static void barriers(int calls) {
  MPI_Barrier(MPI_COMM_WORLD);
  const double begun = cpu_s();
  for (int i = 0; i < calls; ++i) MPI_Barrier(MPI_COMM_WORLD);
  print_calls("barrier_cpu_us", begun, calls);
}

static void allreduces(int calls) {
  MPI_Barrier(MPI_COMM_WORLD);
  const double begun = cpu_s();
  for (int i = 0; i < calls; ++i) {
    long mine = rank + i, sum = 0;
    MPI_Allreduce(&mine, &sum, 1, MPI_LONG, MPI_SUM, MPI_COMM_WORLD);
    const long right = (long)ranks * (ranks - 1) / 2 + (long)ranks * i;
    if (sum != right) fail("ranks: rank %d has the sum %ld, not %ld", rank, sum, right);
  }
  print_calls("allreduce_cpu_us", begun, calls);
}

/* Sends a message to the rank `distance` places on, and receives one from the other side. */
static void exchange(int distance, int call) {
  const int to = (rank + distance) % ranks, from = (rank + ranks - distance) % ranks;
  const long mine = (long)rank * 1000 + call;
  long got = -1;
  MPI_Sendrecv(&mine, 1, MPI_LONG, to, call, &got, 1, MPI_LONG, from, call, MPI_COMM_WORLD,
               MPI_STATUS_IGNORE);
  if (got != (long)from * 1000 + call) fail("ranks: rank %d got %ld from rank %d", rank, got, from);
}

static void neighbours(int calls) {
  MPI_Barrier(MPI_COMM_WORLD);
  const double begun = cpu_s();
  for (int call = 0; call < calls; ++call) {
    exchange(1, call);
    exchange(ranks > 2 ? ranks - 1 : 1, call);
  }
  print_calls("neighbours_cpu_us", begun, 2.0 * calls);
}

static void all_to_all(int calls) {
  MPI_Barrier(MPI_COMM_WORLD);
  for (int distance = 1; distance < ranks; ++distance) exchange(distance, 0);
  MPI_Barrier(MPI_COMM_WORLD);
  const double begun = cpu_s();
  for (int call = 0; call < calls; ++call)
    for (int distance = 1; distance < ranks; ++distance) exchange(distance, call);
  print_calls("all_cpu_us", begun, (double)calls * (ranks - 1));
}

static void fences(int calls, const char* pool) {
  long* own = NULL;
  MPI_Win window;
  MPI_Win_allocate(2 * sizeof *own, sizeof *own, MPI_INFO_NULL, MPI_COMM_WORLD, &own, &window);
  MPI_Win_fence(MPI_MODE_NOPRECEDE, window);
  print_pool("fence_pool", pool);
  const double begun = cpu_s();
  for (int i = 0; i < calls; ++i) {
    const long mine = (long)rank * 1000 + i;
    MPI_Put(&mine, 1, MPI_LONG, (rank + 1) % ranks, i % 2, 1, MPI_LONG, window);
    MPI_Win_fence(0, window);
    const long right = (long)((rank + ranks - 1) % ranks) * 1000 + i;
    if (own[i % 2] != right) fail("ranks: rank %d finds %ld, not %ld", rank, own[i % 2], right);
  }
  print_calls("fence_cpu_us", begun, calls);
  MPI_Win_free(&window);
}

static void idle(double seconds, const char* hold, const char* traffic) {
  double reads = 0, slept = 0;
  print("waits", seconds);
  MPI_Barrier(MPI_COMM_WORLD);
  const double begun = cpu_s();
  if (rank == 0) {
    const double start = wall_s();
    usleep(2500000); /* the traffic that processes report once a second then belongs to the wait */
    if (traffic) reads = asked(traffic, "device_reads_per_second");
    while ((slept = wall_s() - start) < seconds || (hold && access(hold, F_OK) == 0)) usleep(10000);
  }
  MPI_Barrier(MPI_COMM_WORLD);
  const double used = of_all(cpu_s() - begun, MPI_SUM);
  if (rank == 0) print("idle_cpu_s", used / slept);
  if (traffic) print("idle_reads", reads);
}

static double kilobytes(const char* file, const char* const* fields, int count) {
  char line[256];
  double sum = 0;
  FILE* status = fopen(file, "r");
  while (status && fgets(line, sizeof line, status)) {
    for (int i = 0; i < count; ++i)
      if (strncmp(line, fields[i], strlen(fields[i])) == 0)
        sum += strtod(line + strlen(fields[i]), NULL);
  }
  if (status) fclose(status);
  return sum;
}

static double entries(const char* folder) {
  double count = 0;
  DIR* const open = opendir(folder);
  while (open && readdir(open)) ++count;
  if (open) closedir(open);
  return count - 2; /* . and .. */
}

static void print_own(void) {
  static const char* const private_fields[] = {"Private_Clean:", "Private_Dirty:"};
  static const char* const shared_fields[] = {"RssShmem:"};
  print("private_kB", of_all(kilobytes("/proc/self/smaps_rollup", private_fields, 2), MPI_MAX));
  print("shared_kB", of_all(kilobytes("/proc/self/status", shared_fields, 1), MPI_MAX));
  print("threads", of_all(entries("/proc/self/task"), MPI_MAX));
  print("descriptors", of_all(entries("/proc/self/fd") - 1, MPI_MAX));
  print("cpu_s", of_all(cpu_s(), MPI_SUM));
}

int main(int argc, char** argv) {
  static const struct option options[] = {
      {"calls", 1, 0, 'c'}, {"fences", 1, 0, 'f'}, {"all", 0, 0, 'a'},     {"idle", 1, 0, 'i'},
      {"hold", 1, 0, 'h'},  {"pool", 1, 0, 'p'},   {"traffic", 1, 0, 't'}, {0, 0, 0, 0}};
  const double started = wall_s(), cpu_before = cpu_s();
  MPI_Init(&argc, &argv);
  const double start_s = wall_s() - started, start_cpu = cpu_s() - cpu_before;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &ranks);
  int calls = 10, fence_calls = 0, all = 0;
  double idle_s = 0;
  const char *pool = NULL, *traffic = NULL, *hold = NULL;
  for (int option; (option = getopt_long(argc, argv, "", options, NULL)) != -1;) {
    if (option == 'c')
      calls = (int)positive("--calls", optarg);
    else if (option == 'f')
      fence_calls = (int)positive("--fences", optarg);
    else if (option == 'a')
      all = 1;
    else if (option == 'i')
      idle_s = (double)positive("--idle", optarg);
    else if (option == 'h')
      hold = optarg;
    else if (option == 'p')
      pool = optarg;
    else if (option == 't')
      traffic = optarg;
    else
      refuse("ranks: see the head of ranks.c for its options");
  }
  print("ranks", ranks);
  print("start_s", of_all(start_s, MPI_MAX));
  print("start_cpu_s", of_all(start_cpu, MPI_SUM));
  print_pool("start_pool", pool);
  barriers(calls);
  allreduces(calls);
  if (ranks > 1) neighbours(calls);
  print_pool("neighbours_pool", pool);
  if (all) {
    all_to_all(calls);
    print_pool("all_pool", pool);
  }
  if (fence_calls > 0) fences(fence_calls, pool);
  if (idle_s > 0) idle(idle_s, hold, traffic);
  print_own();
  MPI_Finalize();
  return 0;
}

/* An all-gather of N nodes with L ranks each, M bytes a rank, through the pool: the published form
 * in three phases, and a form in which the ranks of a node share the work; compared with three
 * rings over sockets. All ranks are processes of this machine; each node is a node of the pool, and
 * every byte between nodes goes through the pool or a TCP socket.
 *
 *   allgather [--nodes N] [--ranks-per-node L] [--bytes M] [--repeat R]
 *
 * Prints what one all-gather takes in each form, and checks all data: bytes through the busiest
 * link of a node, out and in; messages between nodes, of all nodes together (in the pool: announced
 * writes); CPU-seconds of all ranks; seconds only if each rank has a core. Without PENSTOCK_POOL it
 * makes a pool of its own and removes it at the end.
 */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <errno.h>
#include <getopt.h>
#include <inttypes.h>
#include <netinet/tcp.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "node.h"
#include "penstock/penstock.h"

/* The ranks in a ring, and their order on the nodes. */
enum ring_kind { block_ring, cyclic_ring, leader_ring, ring_kinds };
enum form { flat_block, flat_cyclic, leaders, published, shared_work, forms };
static const char* const form_names[] = {
    "ring of ranks, block mapping", "ring of ranks, cyclic mapping", "ring of leaders, aggregated",
    "pool, leaders (published)", "pool, ranks share the work"};

/* Sockets to the next member, by ring and number in it. */
static int sockets[ring_kinds][MAX_RANKS][2];

static _Noreturn void refuse(const char* text) {
  fprintf(
      stderr,
      "allgather: %s\nusage: allgather [--nodes N] [--ranks-per-node L] [--bytes M] [--repeat R]\n",
      text);
  exit(2);
}

static long number(const char* name, const char* text, long least, long most) {
  char message[160], *end = NULL;
  errno = 0;
  const long value = strtol(text, &end, 10);
  if (end != text && *end == '\0' && errno == 0 && value >= least && value <= most) return value;
  snprintf(message, sizeof message, "--%s %s: a number from %ld to %ld is needed", name, text,
           least, most);
  refuse(message);
}

static job_t parse(int argc, char** argv) {
  static const struct option known[] = {{"nodes", required_argument, NULL, 'n'},
                                        {"ranks-per-node", required_argument, NULL, 'l'},
                                        {"bytes", required_argument, NULL, 'm'},
                                        {"repeat", required_argument, NULL, 'r'},
                                        {NULL, 0, NULL, 0}};
  job_t job = {.nodes = 4, .per_node = 2, .bytes = 65536, .repeat = 3};
  for (int option; (option = getopt_long(argc, argv, "", known, NULL)) != -1;) {
    if (option == 'n') job.nodes = (int)number("nodes", optarg, 2, MAX_RANKS);
    if (option == 'l') job.per_node = (int)number("ranks-per-node", optarg, 1, MAX_RANKS);
    if (option == 'm') job.bytes = (size_t)number("bytes", optarg, 64, 1L << 30);
    if (option == 'r') job.repeat = (int)number("repeat", optarg, 1, 1000000);
    if (option == '?') refuse("an option that there is not");
  }
  if (optind != argc) refuse("an argument too many");
  if (ranks_of(&job) > MAX_RANKS) refuse("more than 96 ranks in all");
  if (job.bytes % 64 != 0)
    refuse("--bytes must be a multiple of 64: no two ranks write to one line");
  return job;
}

static void* shared_memory(size_t bytes) {
  void* at = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  if (at != MAP_FAILED) return at;
  fprintf(stderr, "allgather: no memory of %zu bytes: %s\n", bytes, strerror(errno));
  exit(1);
}

/* Two ends of a TCP connection within this machine. */
static int connect_pair(int pair[2]) {
  struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
  socklen_t size = sizeof address;
  const int on = 1, listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  pair[0] = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  pair[1] = -1;
  if (listener >= 0 && pair[0] >= 0 && bind(listener, (struct sockaddr*)&address, size) == 0 &&
      listen(listener, 1) == 0 && getsockname(listener, (struct sockaddr*)&address, &size) == 0 &&
      connect(pair[0], (struct sockaddr*)&address, size) == 0)
    pair[1] = accept(listener, NULL, NULL);
  if (listener >= 0) close(listener);
  if (pair[1] < 0) return -1;
  return setsockopt(pair[0], IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
}

static int connect_ring(const job_t* job, enum ring_kind kind) {
  const int members = kind == leader_ring ? job->nodes : ranks_of(job);
  for (int i = 0; i < members; ++i) {
    const int next = (i + 1) % members, mapping = kind == cyclic_ring ? cyclic : block;
    sockets[kind][i][0] = sockets[kind][i][1] = -1;
    if (kind != leader_ring && node_of(job, mapping, i) == node_of(job, mapping, next)) continue;
    if (connect_pair(sockets[kind][i]) != 0) return -1;
  }
  return 0;
}

static void enter_ring(process_t* process, enum ring_kind kind, int self, int members) {
  process->to_next = sockets[kind][self][0];
  process->from_previous = sockets[kind][(self + members - 1) % members][1];
}

static char byte_of(int rank, int run, size_t i) {
  return (char)(rank * 31 + run * 7 + (int)(i % 251) + (int)(i >> 16));
}

static int wrong_bytes(const process_t* process, int run) {
  int wrong = 0;
  for (int rank = 0; rank < ranks_of(process->job); ++rank) {
    const char* const found = process->all + (size_t)rank * process->job->bytes;
    for (size_t i = 0; i < process->job->bytes; ++i) wrong += found[i] != byte_of(rank, run, i);
  }
  return wrong;
}

static double cpu_seconds(void) {
  struct rusage used;
  getrusage(RUSAGE_SELF, &used);
  return (double)(used.ru_utime.tv_sec + used.ru_stime.tv_sec) +
         1e-6 * (double)(used.ru_utime.tv_usec + used.ru_stime.tv_usec);
}

static double now(void) {
  struct timespec time;
  clock_gettime(CLOCK_MONOTONIC, &time);
  return (double)time.tv_sec + 1e-9 * (double)time.tv_nsec;
}

static void gather(process_t* process, enum form form) {
  if (form == flat_block || form == flat_cyclic) ring_of_ranks(process);
  if (form == leaders) ring_of_leaders(process);
  if (form == published || form == shared_work) through_pool(process, form == shared_work);
}

static void measure(process_t* process, enum form form) {
  const job_t* job = process->job;
  for (int run = -1; run < job->repeat; ++run) { /* the first is not counted */
    for (size_t i = 0; i < job->bytes; ++i) process->own[i] = byte_of(process->rank, run, i);
    memset(process->all, 0, (size_t)ranks_of(job) * job->bytes);
    if (run == 0) {
      const int wrong = process->counts->wrong;
      *process->counts = (counts_t){.wrong = wrong};
    }
    meet_all(process);
    const double began = now(), used = cpu_seconds();
    gather(process, form);
    process->counts->cpu_seconds += cpu_seconds() - used;
    process->counts->seconds += now() - began;
    process->counts->wrong += wrong_bytes(process, run);
  }
  meet_all(process);
}

/* Runs process number `self`: first in block mapping, and for one form in cyclic mapping. */
static void take_part(const job_t* job, shared_t* shared, char* nodes_memory, int self,
                      const char* job_name) {
  const int ranks = ranks_of(job), node = self / job->per_node, local = self % job->per_node;
  const size_t per_node = (size_t)ranks * job->bytes + (size_t)job->per_node * job->bytes;
  process_t process = {.job = job, .shared = shared, .rank = self, .mapping = block};
  process.node_memory = nodes_memory + (size_t)node * per_node;
  process.letters = process.node_memory + (size_t)ranks * job->bytes;
  process.own = malloc(job->bytes);
  process.all = malloc((size_t)ranks * job->bytes);
  if (process.own == NULL || process.all == NULL) give_up(&process, "malloc", strerror(errno));
  open_pool(&process, job_name);
  for (int form = 0; form < forms; ++form) {
    process.mapping = form == flat_cyclic ? cyclic : block;
    process.rank = form == flat_cyclic ? local * job->nodes + node : self;
    process.counts = &shared->counts[form][self];
    if (form == flat_block) enter_ring(&process, block_ring, process.rank, ranks);
    if (form == flat_cyclic) enter_ring(&process, cyclic_ring, process.rank, ranks);
    if (form == leaders) enter_ring(&process, leader_ring, node, job->nodes);
    measure(&process, (enum form)form);
  }
  close_pool(&process);
}

/* Computes the bytes that one all-gather moves through the link of a node. */
static void expected(const job_t* job, enum form form, uint64_t* out, uint64_t* in) {
  const uint64_t n = (uint64_t)job->nodes, l = (uint64_t)job->per_node, m = job->bytes;
  const uint64_t by_form[] = {(n * l - 1) * m, l * (n * l - 1) * m, (n - 1) * l * m};
  *out = form >= published ? l * m : by_form[form];
  *in = form >= published ? (n - 1) * l * m : by_form[form];
}

static int report(const job_t* job, const shared_t* shared) {
  cpu_set_t cores;
  int bad = 0;
  const int timed =
      sched_getaffinity(0, sizeof cores, &cores) == 0 && ranks_of(job) <= CPU_COUNT(&cores);
  printf("%d nodes, %d ranks each, %zu bytes a rank; one all-gather, mean of %d\n", job->nodes,
         job->per_node, job->bytes, job->repeat);
  printf("%-30s %14s %14s %9s %12s %10s\n", "", "out of a node", "into a node", "messages",
         "CPU-seconds", timed ? "seconds" : "");
  for (int form = 0; form < forms; ++form) {
    uint64_t largest_out = 0, largest_in = 0, messages = 0, wanted_out, wanted_in;
    double used = 0, slowest = 0;
    for (int node = 0; node < job->nodes; ++node) {
      uint64_t out = 0, in = 0;
      for (int local = 0; local < job->per_node; ++local) {
        const counts_t* counts = &shared->counts[form][node * job->per_node + local];
        out += counts->between_nodes_out;
        in += counts->between_nodes_in;
        messages += counts->messages;
        used += counts->cpu_seconds;
        if (counts->seconds > slowest) slowest = counts->seconds;
        if (counts->wrong != 0) bad = 1;
      }
      if (out > largest_out) largest_out = out;
      if (in > largest_in) largest_in = in;
    }
    const uint64_t runs = (uint64_t)job->repeat;
    expected(job, (enum form)form, &wanted_out, &wanted_in);
    if (largest_out != wanted_out * runs || largest_in != wanted_in * runs) bad = 1;
    printf("%-30s %14" PRIu64 " %14" PRIu64 " %9" PRIu64 " %12.6f", form_names[form],
           largest_out / runs, largest_in / runs, messages / runs, used / job->repeat);
    timed ? printf(" %10.6f\n", slowest / job->repeat) : printf("\n");
  }
  puts(bad ? "allgather: WRONG data or counts" : "allgather: all data right, bytes as by formula");
  return bad;
}

static int make_own_pool(const job_t* job, char* spec, size_t size) {
  penstock_pool_options_t options;
  memset(&options, 0, sizeof options);
  options.struct_bytes = sizeof options;
  /* whole 2 MiB */
  options.bytes = (32u << 20) + (((uint64_t)ranks_of(job) * job->bytes >> 21) + 1) * (2u << 20);
  snprintf(spec, size, "shm:penstock-allgather-%ld", (long)getpid());
  if (penstock_pool_create(spec, &options) != PENSTOCK_OK) {
    fprintf(stderr, "penstock_pool_create: %s\n", penstock_last_error());
    return -1;
  }
  return setenv("PENSTOCK_POOL", spec, 1);
}

static int run_all(const job_t* job, shared_t* shared, char* nodes_memory, const char* job_name) {
  int started = 0, good = 1;
  fflush(stdout);
  for (; started < ranks_of(job); ++started) {
    const pid_t pid = fork(); /* each process must attach by itself */
    if (pid < 0) break;
    if (pid > 0) continue;
    take_part(job, shared, nodes_memory, started, job_name);
    _exit(0);
  }
  if (started < ranks_of(job)) {
    fprintf(stderr, "allgather: no process %d: %s\n", started, strerror(errno));
    good = 0;
    shared->failed = 1;
  }
  for (; started > 0; --started) {
    int status = 1;
    if (wait(&status) > 0 && status == 0) continue;
    shared->failed = 1; /* the others end at their next look */
    good = 0;
  }
  return good;
}

int main(int argc, char** argv) {
  const job_t job = parse(argc, argv);
  const size_t of_node = (size_t)(ranks_of(&job) + job.per_node) * job.bytes;
  shared_t* const shared = shared_memory(sizeof *shared);
  char* const nodes_memory = shared_memory((size_t)job.nodes * of_node);
  char spec[64] = "", job_name[40];
  for (int kind = 0; kind < ring_kinds; ++kind) {
    if (connect_ring(&job, (enum ring_kind)kind) != 0) {
      fprintf(stderr, "allgather: no sockets between %d ranks: %s\n", ranks_of(&job),
              strerror(errno));
      return 1;
    }
  }
  if (getenv("PENSTOCK_POOL") == NULL && make_own_pool(&job, spec, sizeof spec) != 0) return 1;
  snprintf(job_name, sizeof job_name, "allgather.%ld", (long)getpid());
  const int good = run_all(&job, shared, nodes_memory, job_name);
  if (spec[0] != '\0') penstock_pool_remove(spec, 1);
  return good && report(&job, shared) == 0 ? 0 : 1;
}

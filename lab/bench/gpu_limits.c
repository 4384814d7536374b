/* What a GPU and memory that it shares with others achieve without a protocol: copies each way and
 * both at once, by size, streams and parts of the memory, by one process and by two; and the time
 * that words take by which streams, kernels and CPUs signal each other. Source: CCCL, section 3
 * (figure 3).
 *
 *   gpu_limits RANK RANKS FOLDER MAX_BYTES
 *
 * FOLDER (in /dev/shm) holds the memory that the processes share. Rank 0 prints JSON lines. Rates
 * are those of all processes together. */
#define _GNU_SOURCE
#include <fcntl.h>
#include <sched.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "gpu_driver.h"

enum { max_parts = 4, max_streams = 4, batches = 5, patience = 60, rings = 200 };

/* Shared by all processes, in FOLDER/control. The words lie a line apart. */
struct control {
  _Atomic uint64_t arrived, turn;
  double seconds[2];
  char pad[4096 - 32];
  _Atomic uint64_t words[2][512];
};

static int rank, ranks;
static struct control* control;
static device_pointer words_on_gpu;
static char* parts[max_parts];
static device_pointer device[2 * max_streams];
static void* streams[2 * max_streams];

static void* map_file(const char* folder, const char* name, size_t bytes) {
  char path[512];
  snprintf(path, sizeof path, "%s/%s", folder, name);
  const int fd = open(path, O_RDWR | O_CREAT, 0600);
  if (fd < 0 || posix_fallocate(fd, 0, (off_t)bytes) != 0)
    fprintf(stderr, "%s: no room for %zu bytes\n", path, bytes), exit(1);
  void* const at = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  if (at == MAP_FAILED) fprintf(stderr, "%s: cannot be mapped\n", path), exit(1);
  close(fd);
  return at;
}

static void give_up_after(double until, const char* what) {
  if (now() > until) fprintf(stderr, "rank %d: %s: in vain\n", rank, what), exit(1);
}

static void barrier(void) {
  const uint64_t turn = atomic_load(&control->turn);
  if (atomic_fetch_add(&control->arrived, 1) + 1 == (uint64_t)ranks) {
    atomic_store(&control->arrived, 0);
    atomic_fetch_add(&control->turn, 1);
  }
  for (const double until = now() + patience; atomic_load(&control->turn) == turn; sched_yield())
    give_up_after(until, "waits for the other process");
}

/* The longest time of all processes. */
static double slowest(double seconds) {
  control->seconds[rank] = seconds;
  barrier();
  const double other = control->seconds[ranks - 1 - rank];
  barrier();
  return other > seconds ? other : seconds;
}

enum way { to_host, to_gpu, both_ways };
static const char* const way_names[] = {"to the host", "to the GPU", "both ways"};

struct copies {
  size_t bytes;
  int streams, parts, first_part;
  enum way way;
};

static void enqueue(const struct copies* c, int stream) {
  char* const at = parts[(c->first_part + stream % c->parts) % max_parts] +
                   (size_t)(stream / c->parts) % 2 * c->bytes;
  const int to_the_gpu = c->way == to_gpu || (c->way == both_ways && stream % 2 == 1);
  CU(to_the_gpu ? cu.to_device(device[stream], at, c->bytes, streams[stream])
                : cu.to_host(at, device[stream], c->bytes, streams[stream]));
}

static double time_of(const struct copies* c, int calls) {
  const int used = c->way == both_ways ? 2 * c->streams : c->streams;
  double seconds[batches];
  for (int batch = -1; batch < batches; ++batch) {
    barrier();
    const double begin = now();
    for (int call = 0; call < calls; ++call)
      for (int i = 0; i < used; ++i) enqueue(c, i);
    for (int i = 0; i < used; ++i) CU(cu.synchronize(streams[i]));
    const double took = slowest(now() - begin);
    if (batch >= 0) seconds[batch] = took / calls;
  }
  return median(seconds, batches);
}

static void measure(const struct copies* c, const char* name, int same_part) {
  const int used = c->way == both_ways ? 2 * c->streams : c->streams;
  const size_t moved = c->bytes * (size_t)used;
  const int calls = moved >= (64 << 20) ? 1 : moved >= (1 << 20) ? 10 : 50;
  const double seconds = time_of(c, calls);
  if (rank != 0) return;
  printf(
      "{\"operation\": \"pinned copy\", \"way\": \"%s\", \"bytes\": %zu, \"streams\": %d, "
      "\"parts\": %d, "
      "\"processes\": %d, \"same_part\": %d, \"seconds\": %.9f, \"GBps\": %.4f}\n",
      name, c->bytes, c->streams, c->parts, ranks, same_part, seconds,
      (double)(moved * (size_t)ranks) / seconds / 1e9);
  fflush(stdout);
}

/* One process: sizes, then streams and parts. */
static void alone(size_t most) {
  static const int forms[][2] = {{2, 1}, {2, 2}, {4, 1}, {4, 4}};
  for (size_t bytes = 4096; bytes <= most; bytes *= 4)
    for (int way = to_host; way <= both_ways; ++way)
      measure(&(struct copies){bytes, 1, 1, 0, way}, way_names[way], 1);
  for (size_t form = 0; form < sizeof forms / sizeof forms[0]; ++form)
    for (size_t bytes = most / 64; bytes <= most / 4; bytes *= 16)
      for (int way = to_host; way <= both_ways; ++way)
        measure(&(struct copies){bytes, forms[form][0], forms[form][1], 0, way}, way_names[way], 1);
}

/* Two processes: both write, both read, one each; on one part of the memory, and on two. */
static void together(size_t most) {
  static const enum way ways[][2] = {{to_host, to_host}, {to_gpu, to_gpu}, {to_host, to_gpu}};
  static const char* const names[] = {"both to the host", "both to the GPU", "one each way"};
  for (size_t bytes = most / 256; bytes <= most; bytes *= 4)
    for (int i = 0; i < 3; ++i)
      for (int same = 0; same < 2; ++same)
        measure(&(struct copies){bytes, 1, 1, same ? 0 : rank, ways[i][rank]}, names[i], same);
}

static void say_ring(const char* what, double seconds) {
  if (rank == 0)
    printf("{\"operation\": \"%s\", \"processes\": %d, \"seconds\": %.9f}\n", what, ranks, seconds);
  fflush(stdout);
}

static device_pointer word_on_gpu(int i, size_t line) {
  return words_on_gpu + (device_pointer)((char*)&control->words[i][8 * line] - (char*)control);
}

static void await_word(int i, size_t line, uint64_t number) {
  for (const double until = now() + patience; atomic_load(&control->words[i][8 * line]) < number;)
    give_up_after(until, "waits for a word");
}

/* The CPU writes a word, and the GPU's stream or kernel answers: the median of round trips. */
static double rounds_with_cpu(size_t line) {
  double seconds[rings];
  for (uint64_t number = 1; number <= rings; ++number) {
    const double begin = now();
    atomic_store(&control->words[0][8 * line], number);
    await_word(1, line, number);
    seconds[number - 1] = now() - begin;
  }
  CU(cu.synchronize(streams[0]));
  return median(seconds, rings);
}

static void stream_words(size_t line) {
  const device_pointer mine = word_on_gpu(rank, line), other = word_on_gpu(1 - rank, line);
  if (ranks == 1) {
    for (uint64_t number = 1; number <= rings; ++number) {
      CU(cu.wait_value(streams[0], word_on_gpu(0, line), number, 0));
      CU(cu.write_value(streams[0], word_on_gpu(1, line), number, 0));
    }
    say_ring("stream memory operations: CPU to GPU and back", rounds_with_cpu(line));
    return;
  }
  barrier();
  const double begin = now();
  for (uint64_t number = 1; number <= rings; ++number) {
    if (rank == 0) CU(cu.write_value(streams[0], mine, number, 0));
    CU(cu.wait_value(streams[0], other, number, 0));
    if (rank == 1) CU(cu.write_value(streams[0], mine, number, 0));
  }
  CU(cu.synchronize(streams[0]));
  say_ring("stream memory operations: there and back between two processes",
           slowest(now() - begin) / rings);
}

/* Answers a word with another, `last` times; gives up after 20 million looks. */
static const char doorbell_ptx[] =
    ".version 7.0\n.target sm_70\n.address_size 64\n"
    ".visible .entry doorbell(.param .u64 in, .param .u64 out, .param .u64 last) {\n"
    ".reg .u64 %in, %out, %last, %number, %found, %looks;\n.reg .pred %p;\n"
    "ld.param.u64 %in, [in];\nld.param.u64 %out, [out];\nld.param.u64 %last, [last];\n"
    "mov.u64 %number, 1;\nmov.u64 %looks, 20000000;\n"
    "LOOK:\nsub.u64 %looks, %looks, 1;\nsetp.eq.u64 %p, %looks, 0;\n@%p bra END;\n"
    "ld.acquire.sys.global.u64 %found, [%in];\nsetp.lt.u64 %p, %found, %number;\n@%p bra LOOK;\n"
    "st.release.sys.global.u64 [%out], %number;\nadd.u64 %number, %number, 1;\n"
    "setp.le.u64 %p, %number, %last;\n@%p bra LOOK;\nEND:\nret;\n}\n";

static void kernel_words(size_t line) {
  void *module = NULL, *kernel = NULL;
  int status = cu.load(&module, doorbell_ptx);
  if (status == 0) status = cu.function(&kernel, module, "doorbell");
  if (status != 0) {
    if (rank == 0)
      printf(
          "{\"operation\": \"a kernel's doorbell\", \"left_out\": \"the driver compiles no PTX: "
          "CUDA %d\"}\n",
          status);
    return;
  }
  device_pointer in = word_on_gpu(0, line), out = word_on_gpu(1, line);
  uint64_t last = rings;
  void* arguments[] = {&in, &out, &last};
  if (rank == 0) CU(cu.launch(kernel, 1, 1, 1, 1, 1, 1, 0, streams[0], arguments, NULL));
  if (ranks == 1) {
    say_ring("a kernel's doorbell: CPU to GPU and back", rounds_with_cpu(line));
    return;
  }
  /* The other process's stream writes, and the kernel answers. */
  barrier();
  const double begin = now();
  for (uint64_t number = 1; number <= rings && rank == 1; ++number) {
    CU(cu.write_value(streams[0], in, number, 0));
    CU(cu.wait_value(streams[0], out, number, 0));
  }
  CU(cu.synchronize(streams[0]));
  say_ring("a kernel's doorbell: another process's stream and back",
           slowest(now() - begin) / rings);
}

int main(int argc, char** argv) {
  if (argc != 5) return 2;
  rank = atoi(argv[1]), ranks = atoi(argv[2]);
  const size_t most = strtoull(argv[4], NULL, 10);
  if (ranks < 1 || ranks > 2 || rank < 0 || rank >= ranks || most < (1 << 20)) return 2;
  open_gpu();
  control = map_file(argv[3], "control", sizeof *control);
  CU(cu.register_host(control, sizeof *control, 3));
  CU(cu.pointer_of(&words_on_gpu, control, 0));
  for (int i = 0; i < max_parts; ++i) {
    char name[16];
    snprintf(name, sizeof name, "part%d", i);
    const size_t bytes = i < 2 ? 2 * most : most / 2;
    parts[i] = map_file(argv[3], name, bytes);
    CU(cu.register_host(parts[i], bytes, 3));
  }
  for (int i = 0; i < 2 * max_streams; ++i) {
    CU(cu.stream(&streams[i], 1));
    CU(cu.alloc(&device[i], i < 2 ? most : most / 4));
  }
  barrier();
  if (ranks == 1)
    alone(most);
  else
    together(most);
  stream_words(0);
  kernel_words(1);
  barrier();
  return 0;
}

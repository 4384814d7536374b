/* Every collective, type, operation and size of NCCL's interface, in place and not, in groups, on
 * several streams and communicators: what each rank gets is compared with what it must get.
 *
 *   nccl_calls RANK RANKS FOLDER WHAT     a rank in a process of its own; FOLDER passes the unique
 * id nccl_calls - RANKS FOLDER all         all ranks in this thread, by ncclCommInitAll and groups
 *
 * GPU=1: buffers are memory of the GPU that libcuda.so.1 finds. */
#define _GNU_SOURCE
#include "nccl_gpu.h"
#include "nccl_meet.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define MAX_RANKS 8

/* Small numbers, exact in every type: as an element of `type`. */
static size_t size_of(int type) {
  static const size_t sizes[] = {1, 1, 4, 4, 8, 8, 2, 4, 8, 2, 1, 1};
  return sizes[type];
}
static unsigned small_float(unsigned value, int exponent_bits, int mantissa_bits) {
  if (value == 0) return 0;
  int top = 31;
  while (!(value >> top & 1)) --top;
  const int bias = (1 << (exponent_bits - 1)) - 1;
  const unsigned fraction = value - (1u << top);
  const unsigned mantissa =
      top <= mantissa_bits ? fraction << (mantissa_bits - top) : fraction >> (top - mantissa_bits);
  return (unsigned)(top + bias) << mantissa_bits | mantissa;
}
static void store(unsigned char* at, int type, unsigned value) {
  uint64_t bits = value;
  const float single = (float)value;
  const double twice = value;
  if (type == ncclFloat16) bits = small_float(value, 5, 10);
  if (type == ncclBfloat16) bits = small_float(value, 8, 7);
  if (type == ncclFloat8e4m3) bits = small_float(value, 4, 3);
  if (type == ncclFloat8e5m2) bits = small_float(value, 5, 2);
  if (type == ncclFloat32) memcpy(&bits, &single, sizeof single);
  if (type == ncclFloat64) memcpy(&bits, &twice, sizeof twice);
  memcpy(at, &bits, size_of(type));
}

struct rank {
  int rank, ranks;
  ncclComm_t comm;
  void* stream;
};

static unsigned brought(int rank, size_t i) {
  return 1 + ((unsigned)rank + (unsigned)i) % 2;
}
static unsigned reduced(int ranks, int op, size_t i) {
  unsigned value = op == ncclProd ? 1 : op == ncclMin ? 99 : 0;
  for (int r = 0; r < ranks; ++r) {
    const unsigned b = brought(r, i);
    if (op == ncclProd)
      value *= b;
    else if (op == ncclMax)
      value = b > value ? b : value;
    else if (op == ncclMin)
      value = b < value ? b : value;
    else
      value += op > ncclAvg ? 2 * b : b;
  }
  return value;
}

static ncclComm_t whole; /* the communicator of all ranks, once it is made */
static void expect(const struct buffer* b, size_t at, int type, unsigned value, const char* what,
                   int rank) {
  unsigned char wanted[8];
  store(wanted, type, value);
  if (memcmp(b->host + at * size_of(type), wanted, size_of(type)) == 0) return;
  fprintf(stderr, "rank %d: %s: element %zu of type %d is not %u\n", rank, what, at, type, value);
  ncclResult_t error = ncclSuccess;
  if (whole != NULL && ncclCommGetAsyncError(whole, &error) == ncclSuccess && error != ncclSuccess)
    fprintf(stderr, "rank %d: %s\n", rank, ncclGetLastError(whole));
  exit(1);
}

static void reductions(const struct rank* me, int type, int op, size_t count, int in_place) {
  const int n = me->ranks;
  const size_t size = size_of(type);
  struct buffer in = new_buffer((size_t)n * count * size), out = new_buffer(count * size);
  for (int kind = 0; kind < 3; ++kind) {
    const int scatters = kind == 2, root = (int)(count % (size_t)n);
    const size_t elements = scatters ? count * (size_t)n : count;
    for (size_t i = 0; i < elements; ++i) store(in.host + i * size, type, brought(me->rank, i));
    put(&in, me->stream);
    char* const own = (char*)in.device + (scatters ? (size_t)me->rank * count * size : 0);
    void* const to = in_place ? (void*)own : out.device;
    if (kind == 0) CHECK(ncclAllReduce(in.device, to, count, type, op, me->comm, me->stream));
    if (kind == 1) CHECK(ncclReduce(in.device, to, count, type, op, root, me->comm, me->stream));
    if (kind == 2) CHECK(ncclReduceScatter(in.device, to, count, type, op, me->comm, me->stream));
    struct buffer* const result = in_place ? &in : &out;
    get(result, me->stream);
    const size_t from = scatters ? (size_t)me->rank * count : 0;
    for (size_t i = 0; i < count && (kind != 1 || me->rank == root); ++i)
      expect(result, (in_place ? from : 0) + i, type, reduced(n, op, from + i),
             kind == 0   ? "AllReduce"
             : kind == 1 ? "Reduce"
                         : "ReduceScatter",
             me->rank);
  }
  free_buffer(&in);
  free_buffer(&out);
}

static void movements(const struct rank* me, int type, size_t count, int in_place) {
  const int n = me->ranks, root = n - 1;
  const size_t size = size_of(type), block = count * size;
  struct buffer one = new_buffer(block), all = new_buffer(block * (size_t)n),
                other = new_buffer(block * (size_t)n);
  for (size_t i = 0; i < count; ++i) store(one.host + i * size, type, brought(me->rank, i));
  for (size_t i = 0; i < count * (size_t)n; ++i)
    store(all.host + i * size, type, brought(me->rank, i));
  put(&one, me->stream);
  put(&all, me->stream);
  /* own block of `all` is what the rank brings, where it is in place */
  char* const own = (char*)all.device + (size_t)me->rank * block;
  const size_t shift = in_place ? (size_t)me->rank * count : 0;

  CHECK(ncclAllGather(in_place ? (void*)own : one.device, all.device, count, type, me->comm,
                      me->stream));
  get(&all, me->stream);
  for (int r = 0; r < n; ++r)
    for (size_t i = 0; i < count; ++i)
      expect(&all, (size_t)r * count + i, type, brought(r, i + (in_place ? (size_t)r * count : 0)),
             "AllGather", me->rank);

  CHECK(ncclGather(one.device, all.device, count, type, root, me->comm, me->stream));
  get(&all, me->stream);
  for (int r = 0; r < n && me->rank == root; ++r)
    for (size_t i = 0; i < count; ++i)
      expect(&all, (size_t)r * count + i, type, brought(r, i), "Gather", me->rank);

  for (size_t i = 0; i < count * (size_t)n; ++i)
    store(all.host + i * size, type, brought(me->rank, i));
  put(&all, me->stream);
  CHECK(ncclAlltoAll(all.device, other.device, count, type, me->comm, me->stream));
  get(&other, me->stream);
  for (int r = 0; r < n; ++r)
    for (size_t i = 0; i < count; ++i)
      expect(&other, (size_t)r * count + i, type, brought(r, (size_t)me->rank * count + i),
             "AlltoAll", me->rank);

  void* const to =
      in_place && me->rank == root ? (void*)((char*)all.device + (size_t)root * block) : one.device;
  CHECK(ncclScatter(all.device, to, count, type, root, me->comm, me->stream));
  get(&one, me->stream);
  for (size_t i = 0; i < count && to == one.device; ++i)
    expect(&one, i, type, brought(root, (size_t)me->rank * count + i), "Scatter", me->rank);

  for (size_t i = 0; i < count; ++i) store(one.host + i * size, type, brought(me->rank, i + shift));
  put(&one, me->stream);
  CHECK(ncclBroadcast(one.device, in_place ? one.device : other.device, count, type, 0, me->comm,
                      me->stream));
  struct buffer* const result = in_place ? &one : &other;
  get(result, me->stream);
  for (size_t i = 0; i < count; ++i) expect(result, i, type, brought(0, i), "Broadcast", me->rank);
  free_buffer(&one);
  free_buffer(&all);
  free_buffer(&other);
}

static void premultiplied(const struct rank* me) {
  const float factor = 2;
  ncclRedOp_t op;
  CHECK(ncclRedOpCreatePreMulSum(&op, (void*)&factor, ncclFloat32, 1, me->comm));
  reductions(me, ncclFloat32, op, 33, 0);
  CHECK(ncclRedOpDestroy(op, me->comm));
  if (!gpu) return;
  struct buffer scalar = new_buffer(sizeof factor);
  memcpy(scalar.host, &factor, sizeof factor);
  put(&scalar, me->stream);
  wait_for(me->stream);
  CHECK(ncclRedOpCreatePreMulSum(&op, scalar.device, ncclFloat32, 0, me->comm));
  reductions(me, ncclFloat32, op, 33, 0);
  CHECK(ncclRedOpDestroy(op, me->comm));
  free_buffer(&scalar);
}

/* An all-to-all of messages, long ones too, this rank itself included. */
static void messages(const struct rank* me, size_t count) {
  const int n = me->ranks;
  struct buffer in = new_buffer(count * 4 * (size_t)n), out = new_buffer(count * 4 * (size_t)n);
  for (size_t i = 0; i < count * (size_t)n; ++i)
    store(in.host + 4 * i, ncclInt32, brought(me->rank, i) + 7 * (unsigned)i);
  put(&in, me->stream);
  CHECK(ncclGroupStart());
  for (int r = 0; r < n; ++r) {
    const int peer = (me->rank + r) % n; /* not the order of the receives of the peer */
    CHECK(ncclSend((char*)in.device + count * 4 * (size_t)peer, count, ncclInt32, peer, me->comm,
                   me->stream));
    CHECK(ncclRecv((char*)out.device + count * 4 * (size_t)r, count, ncclInt32, r, me->comm,
                   me->stream));
  }
  CHECK(ncclGroupEnd());
  get(&out, me->stream);
  for (int r = 0; r < n; ++r)
    for (size_t i = 0; i < count; ++i) {
      const size_t at = (size_t)me->rank * count + i;
      expect(&out, (size_t)r * count + i, ncclInt32, brought(r, at) + 7 * (unsigned)at, "messages",
             me->rank);
    }
  free_buffer(&in);
  free_buffer(&out);
}

/* Many calls without a wait in between, on two streams and in groups. */
static void queued(const struct rank* me) {
  const size_t count = 5000;
  struct buffer b = new_buffer(4 * count), c = new_buffer(4 * count);
  void* const second = new_stream();
  for (size_t i = 0; i < count; ++i)
    store(b.host + 4 * i, ncclInt32, 1), store(c.host + 4 * i, ncclInt32, 1);
  put(&b, me->stream);
  put(&c, second);
  unsigned wanted = 1;
  for (int i = 0; i < 10; ++i) {
    CHECK(ncclGroupStart());
    CHECK(ncclAllReduce(b.device, b.device, count, ncclInt32, ncclSum, me->comm, me->stream));
    CHECK(ncclAllReduce(c.device, c.device, count, ncclInt32, ncclSum, me->comm, second));
    CHECK(ncclGroupEnd());
    wanted *= (unsigned)me->ranks;
  }
  get(&b, me->stream);
  get(&c, second);
  for (size_t i = 0; i < count; ++i) {
    expect(&b, i, ncclInt32, wanted, "queued calls", me->rank);
    expect(&c, i, ncclInt32, wanted, "queued calls on a second stream", me->rank);
  }
  free_buffer(&b);
  free_buffer(&c);
}

static void all_calls(const struct rank* me) {
  static const size_t sizes[] = {0, 1, 3, 1000, 70000};
  for (int type = 0; type < ncclNumTypes; ++type) {
    for (int op = ncclSum; op < ncclAvg; ++op)
      reductions(me, type, op, sizes[(type + op) % 4], (type + op) % 2);
    movements(me, type, sizes[type % 4], type % 2);
  }
  reductions(me, ncclFloat32, ncclSum, sizes[4], 0);
  reductions(me, ncclBfloat16, ncclSum, sizes[4], 1);
  movements(me, ncclInt32, sizes[4], 0);
  movements(me, ncclInt32, 1000, 1);
  premultiplied(me);
  messages(me, 10);
  messages(me, 700000);
  queued(me);
}

/* A little of all, for tools that make everything slow. */
static void few_calls(const struct rank* me) {
  static const int types[] = {ncclFloat32, ncclBfloat16, ncclInt8};
  for (int i = 0; i < 3; ++i) {
    reductions(me, types[i], ncclSum, 1000, i % 2);
    movements(me, types[i], 1000, i % 2);
  }
  reductions(me, ncclFloat32, ncclMax, 70000, 0);
  messages(me, 1000);
  queued(me);
}

/* From nothing over what fits a packet to many chunks, by turns in place. */
static void all_sizes(const struct rank* me) {
  static const size_t sizes[] = {0, 1, 2, 3, 6, 7, 25, 1000, 70000, 400000};
  for (int turn = 0; turn < 3; ++turn) {
    if (me->rank == 0) fprintf(stderr, "turn %d\n", turn);
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; ++i) {
      reductions(me, ncclFloat32, ncclSum, sizes[i], (turn + (int)i) % 2);
      reductions(me, ncclInt8, ncclMax, sizes[i], (turn + (int)i + 1) % 2);
      movements(me, ncclUint8, sizes[i], (turn + (int)i) % 2);
    }
    queued(me);
  }
}

static void splits(const struct rank* me) {
  for (int turn = 0; turn < 3; ++turn) {
    struct rank part = *me;
    const int color = me->rank % 2;
    CHECK(
        ncclCommSplit(me->comm, turn == 2 && color == 1 ? -1 : color, -me->rank, &part.comm, NULL));
    if (turn == 2 && color == 1) {
      if (part.comm != NULL) exit(1);
      continue;
    }
    CHECK(ncclCommCount(part.comm, &part.ranks));
    CHECK(ncclCommUserRank(part.comm, &part.rank));
    const int members = (me->ranks + 1 - color) / 2;
    if (part.ranks != members || part.rank != members - 1 - me->rank / 2)
      fprintf(stderr, "split: rank %d of %d\n", part.rank, part.ranks), exit(1);
    reductions(&part, ncclInt64, ncclSum, 100, 1);
    messages(&part, 50);
    CHECK(ncclCommFinalize(part.comm));
    CHECK(ncclCommDestroy(part.comm));
  }
}

/* Two communicators that share a stream, in one group: on all ranks in the same order. */
static void shared_stream(const struct rank* me) {
  const size_t count = 100;
  ncclComm_t second = NULL;
  struct buffer b = new_buffer(4 * count), c = new_buffer(4 * count);
  CHECK(ncclCommSplit(me->comm, 0, me->rank, &second, NULL));
  for (int turn = 0; turn < 50; ++turn) {
    for (size_t i = 0; i < count; ++i)
      store(b.host + 4 * i, ncclInt32, 1), store(c.host + 4 * i, ncclInt32, 2);
    put(&b, me->stream);
    put(&c, me->stream);
    CHECK(ncclGroupStart());
    CHECK(ncclAllReduce(b.device, b.device, count, ncclInt32, ncclSum, second, me->stream));
    CHECK(ncclAllReduce(c.device, c.device, count, ncclInt32, ncclSum, me->comm, me->stream));
    CHECK(ncclGroupEnd());
    get(&b, me->stream);
    get(&c, me->stream);
    expect(&b, 99, ncclInt32, (unsigned)me->ranks, "a shared stream", me->rank);
    expect(&c, 99, ncclInt32, 2 * (unsigned)me->ranks, "a shared stream", me->rank);
  }
  CHECK(ncclCommDestroy(second));
  free_buffer(&b);
  free_buffer(&c);
}

#define REFUSED(call, words)                                                                     \
  do {                                                                                           \
    const ncclResult_t found_ = (call);                                                          \
    if (found_ == ncclSuccess || strstr(ncclGetLastError(NULL), words) == NULL)                  \
      fprintf(stderr, "line %d: %s: %d, %s\n", __LINE__, #call, found_, ncclGetLastError(NULL)), \
          exit(1);                                                                               \
  } while (0)

/* What is refused is refused on all ranks, and what comes after it works. */
static void wrong_calls(const struct rank* me) {
  struct buffer b = new_buffer(4);
  const size_t most = (size_t)1 << 62;
  REFUSED(ncclAllReduce(b.device, b.device, 1, 99, ncclSum, me->comm, me->stream), "data type 99");
  REFUSED(ncclAllReduce(b.device, b.device, 1, ncclInt32, 77, me->comm, me->stream),
          "operation 77");
  REFUSED(ncclAllReduce(b.device, b.device, most, ncclInt32, ncclSum, me->comm, me->stream),
          "elements");
  REFUSED(ncclAllReduce(NULL, b.device, 1, ncclInt32, ncclSum, me->comm, me->stream), "NULL");
  REFUSED(ncclBroadcast(b.device, b.device, 1, ncclInt32, me->ranks, me->comm, me->stream), "rank");
  REFUSED(ncclSend(b.device, most, ncclInt32, 0, me->comm, me->stream), "elements");
  REFUSED(ncclAllReduce(b.device, b.device, 1, ncclInt32, ncclSum, NULL, me->stream), "NULL");
  REFUSED(ncclGroupEnd(), "without an ncclGroupStart");
  CHECK(ncclGroupStart());
  CHECK(ncclAllReduce(b.device, b.device, 1, ncclInt32, ncclSum, me->comm, me->stream));
  REFUSED(ncclAllReduce(b.device, b.device, 1, 99, ncclSum, me->comm, me->stream), "data type 99");
  REFUSED(ncclGroupEnd(), "nothing of the group was started");
  reductions(me, ncclInt32, ncclSum, 10, 1);
  free_buffer(&b);
}

static void capture(void* stream, int begins) {
  void* graph = NULL;
  if ((begins ? begin_capture(stream, 0) : end_capture(stream, &graph)) != 0)
    fprintf(stderr, "no capture\n"), exit(1);
}

/* Calls on one stream while another one captures a graph, in the mode that forbids much. */
static void beside_a_capture(struct rank* me) { /* of two */
  const size_t count = 1000;
  struct buffer b = new_buffer(4 * count), c = new_buffer(4 * count);
  for (size_t i = 0; i < count; ++i) store(b.host + 4 * i, ncclInt32, (unsigned)me->rank);
  put(&b, me->stream);
  void* const other = new_stream();
  capture(other, 1);
  CHECK(ncclGroupStart());
  CHECK(ncclSend(b.device, count, ncclInt32, !me->rank, me->comm, me->stream));
  CHECK(ncclRecv(c.device, count, ncclInt32, !me->rank, me->comm, me->stream));
  CHECK(ncclGroupEnd());
  CHECK(ncclAllReduce(c.device, c.device, count, ncclInt32, ncclSum, me->comm, me->stream));
  CHECK(ncclCommDestroy(me->comm));
  capture(other, 0);
  get(&c, me->stream);
  for (size_t i = 0; i < count; ++i) expect(&c, i, ncclInt32, 1, "beside a capture", me->rank);
  printf("ok\n");
}

/* A process that ends when its last call is done leaves the others all that they need. */
static void leave(const struct rank* me) {
  const size_t count = 1000;
  struct buffer b = new_buffer(4 * count);
  for (size_t i = 0; i < count; ++i) store(b.host + 4 * i, ncclInt32, 1);
  put(&b, me->stream);
  CHECK(ncclAllReduce(b.device, b.device, count, ncclInt32, ncclSum, me->comm, me->stream));
  get(&b, me->stream);
  expect(&b, count - 1, ncclInt32, (unsigned)me->ranks, "the last call", me->rank);
  printf("ok\n");
  fflush(stdout);
  _exit(0);
}

/* Rank 1 is gone when the others want to split: they are told. */
static void split_without_it(const struct rank* me) {
  if (me->rank == 1) kill(getpid(), 9);
  ncclComm_t part = NULL;
  const ncclResult_t result = ncclCommSplit(me->comm, 0, me->rank, &part, NULL);
  printf("%s: %s\n", ncclGetErrorString(result), ncclGetLastError(me->comm));
  CHECK(ncclCommAbort(me->comm));
}

/* A signal to this process, from one that lives on. */
static void signal_later(int signal_number, useconds_t us) {
  if (fork() != 0) return;
  usleep(us);
  kill(getppid(), signal_number);
  _exit(0);
}

/* Calls one after the other: what a rank gets is right as long as no error is told. Rank 1 is
 * killed in one of them, or is stopped for a while, or nothing happens to a rank ("many"). */
static void many_calls(const struct rank* me, const char* how) {
  const size_t count = 3000;
  const int dies = strcmp(how, "killed") == 0, stops = strcmp(how, "stopped") == 0;
  struct buffer b = new_buffer(4 * count), c = new_buffer(4 * count);
  if (me->rank == 1 && dies) signal_later(SIGKILL, 30000 + 7000 * (useconds_t)(getpid() % 8));
  ncclResult_t result = ncclSuccess;
  for (unsigned turn = 1; result == ncclSuccess && (dies || turn < (stops ? 50 : 300)); ++turn) {
    if (me->rank == 0 && turn == 50) fprintf(stderr, "turn 50\n");
    if (me->rank == 1 && turn == 25 && stops) {
      signal_later(SIGCONT, 1000000);
      raise(SIGSTOP);
    }
    for (size_t i = 0; i < count; ++i) store(b.host + 4 * i, ncclInt32, turn);
    put(&b, me->stream);
    result = ncclAllReduce(b.device, c.device, count, ncclInt32, ncclSum, me->comm, me->stream);
    get(&c, me->stream);
    ncclResult_t found = ncclSuccess;
    CHECK(ncclCommGetAsyncError(me->comm, &found));
    if (result == ncclSuccess) result = found;
    for (size_t i = 0; result == ncclSuccess && i < count; ++i)
      expect(&c, i, ncclInt32, turn * (unsigned)me->ranks, "one of many calls", me->rank);
  }
  if (result != ncclSuccess)
    printf("%s: %s\n", ncclGetErrorString(result), ncclGetLastError(me->comm));
  else
    printf("ok\n");
  CHECK(ncclCommAbort(me->comm));
}

/* A rank that does not come any more: the others wait in vain, until they are told. */
static void fail(const struct rank* me, const char* how) {
  const size_t count = 1000;
  struct buffer b = new_buffer(4 * count);
  put(&b, me->stream);
  CHECK(ncclAllReduce(b.device, b.device, count, ncclInt32, ncclSum, me->comm, me->stream));
  get(&b, me->stream);
  if (me->rank == 1 && strcmp(how, "death") == 0) kill(getpid(), 9);
  if (me->rank == 1 && strcmp(how, "abort") == 0) {
    CHECK(ncclCommAbort(me->comm));
    printf("aborted\n");
    return;
  }
  const int message = getenv("MESSAGE") != NULL;
  ncclResult_t result =
      message ? ncclRecv(b.device, count, ncclInt32, 1, me->comm, me->stream)
              : ncclAllReduce(b.device, b.device, count, ncclInt32, ncclSum, me->comm, me->stream);
  get(&b, me->stream); /* does not hang */
  while (result == ncclSuccess) {
    ncclResult_t found = ncclSuccess;
    CHECK(ncclCommGetAsyncError(me->comm, &found));
    result = found;
    usleep(1000);
  }
  printf("%s: %s\n", ncclGetErrorString(result), ncclGetLastError(me->comm));
  CHECK(ncclCommAbort(me->comm));
}

/* Rank 1 aborts when it has done all; the others are told of nothing, then or later. */
static void teardown(const struct rank* me) {
  const size_t count = 1000;
  struct buffer b = new_buffer(4 * count);
  for (size_t i = 0; i < count; ++i) store(b.host + 4 * i, ncclInt32, brought(me->rank, i));
  put(&b, me->stream);
  CHECK(ncclAllReduce(b.device, b.device, count, ncclInt32, ncclSum, me->comm, me->stream));
  get(&b, me->stream);
  for (size_t i = 0; i < count; ++i)
    expect(&b, i, ncclInt32, reduced(me->ranks, ncclSum, i), "before an abort", me->rank);
  if (me->rank == 1) {
    CHECK(ncclCommAbort(me->comm));
  } else {
    for (int look = 0; look < 30; ++look, usleep(10000)) {
      ncclResult_t found = ncclSuccess;
      CHECK(ncclCommGetAsyncError(me->comm, &found));
      CHECK(found);
    }
    CHECK(ncclCommDestroy(me->comm));
  }
  printf("ok\n");
}

static void in_one_thread(int ranks) {
  ncclComm_t comms[MAX_RANKS];
  struct buffer buffers[MAX_RANKS];
  void* streams[MAX_RANKS];
  const size_t count = 3000000;
  const int devices[MAX_RANKS] = {0}; /* all on one */
  CHECK(ncclCommInitAll(comms, ranks, devices));
  for (int r = 0; r < ranks; ++r) {
    streams[r] = new_stream();
    buffers[r] = new_buffer(4 * count);
    for (size_t i = 0; i < count; ++i) store(buffers[r].host + 4 * i, ncclInt32, brought(r, i));
    put(&buffers[r], streams[r]);
  }
  CHECK(ncclGroupStart());
  for (int r = 0; r < ranks; ++r)
    CHECK(ncclAllReduce(buffers[r].device, buffers[r].device, count, ncclInt32, ncclSum, comms[r],
                        streams[r]));
  CHECK(ncclGroupEnd());
  for (int r = 0; r < ranks; ++r) {
    get(&buffers[r], streams[r]);
    for (size_t i = 0; i < count; ++i)
      expect(&buffers[r], i, ncclInt32, reduced(ranks, ncclSum, i), "in one thread", r);
    free_buffer(&buffers[r]);
    CHECK(ncclCommDestroy(comms[r]));
  }
}

int main(int argc, char** argv) {
  if (argc != 5) return 2;
  open_gpu();
  const int ranks = atoi(argv[2]);
  if (strcmp(argv[4], "all") == 0) {
    in_one_thread(ranks);
    printf("ok\n");
    return 0;
  }
  struct rank me = {atoi(argv[1]), ranks, NULL, new_stream()};
  const ncclUniqueId id = meet(me.rank, argv[3]);
  CHECK(ncclCommInitRank(&me.comm, ranks, id, me.rank));
  whole = me.comm;
  if (strcmp(argv[4], "leave") == 0) leave(&me);
  if (strcmp(argv[4], "beside") == 0) {
    beside_a_capture(&me);
    return 0;
  }
  if (strcmp(argv[4], "teardown") == 0) {
    teardown(&me);
    return 0;
  }
  if (strcmp(argv[4], "split") == 0) {
    split_without_it(&me);
    return 0;
  }
  if (strcmp(argv[4], "short") == 0 || strcmp(argv[4], "sizes") == 0) {
    strcmp(argv[4], "short") == 0 ? few_calls(&me) : all_sizes(&me);
    CHECK(ncclCommDestroy(me.comm));
    printf("ok\n");
    return 0;
  }
  if (strcmp(argv[4], "killed") == 0 || strcmp(argv[4], "stopped") == 0 ||
      strcmp(argv[4], "many") == 0) {
    many_calls(&me, argv[4]);
    return 0;
  }
  if (strcmp(argv[4], "calls") != 0) {
    fail(&me, argv[4]);
    return 0;
  }
  if (ncclPutSignal() != ncclInvalidUsage ||
      strstr(ncclGetLastError(NULL), "does not implement") == NULL)
    return 1;
  all_calls(&me);
  splits(&me);
  shared_stream(&me);
  wrong_calls(&me);
  whole = NULL;
  CHECK(ncclCommFinalize(me.comm));
  CHECK(ncclCommDestroy(me.comm));
  printf("ok\n");
  return 0;
}

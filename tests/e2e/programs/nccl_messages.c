/* Messages between ranks:
 *
 *   nccl_messages RANK RANKS FOLDER WHAT     FOLDER passes the unique id
 *
 * WHAT, of long messages among all ranks, in groups: late (rank 1 receives long after the others
 * have sent), killed (rank 1 is killed in the midst), abort (rank 1 aborts in the midst).
 * Of rank 0's messages: abandoned (it sends two and aborts; then rank 1 receives the first), ends
 * (it sends BYTES bytes and ends when its stream is done; rank 1 receives them later), alike (all
 * words of its messages are the same; the last one is longer than its receive), beside (it waits
 * for one of rank 1, which is killed, while it sends others to rank 2).
 * Of communicators with long messages: made (many, one after the other, are aborted), left (rank 0
 * has left one, and rank 1 allocates memory of the pool).
 * Of rank 1, when rank 0 has sent more than a stream's queue holds: full (it receives all), deaf
 * (it aborts, and lives on); mute (it receives a message of rank 0, which aborts, and lives on);
 * and small (it receives many short ones, long before rank 0 sends them).
 * Of many messages in a group: many (rank FIRST names the other one's when its own have begun).
 *
 * GPU=1: buffers are memory of the GPU that libcuda.so.1 finds. */
#define _GNU_SOURCE
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "nccl_gpu.h"
#include "nccl_meet.h"

static const size_t block = 4 << 20; /* bytes to each rank */

static ncclComm_t comm;
static int rank, ranks;
static void* stream;
static struct buffer in, out;

static void fill(int turn) {
  for (int to = 0; to < ranks; ++to)
    for (size_t i = 0; i < block; ++i)
      in.host[(size_t)to * block + i] =
          (unsigned char)(i * 7 + i / 4096 + 31u * (unsigned)rank + (unsigned)to + (unsigned)turn);
  put(&in, stream);
}

static void check(int turn) {
  get(&out, stream);
  for (int from = 0; from < ranks; ++from)
    for (size_t i = 0; i < block; ++i) {
      const unsigned char wanted = (unsigned char)(i * 7 + i / 4096 + 31u * (unsigned)from +
                                                   (unsigned)rank + (unsigned)turn);
      if (out.host[(size_t)from * block + i] == wanted) continue;
      fprintf(stderr, "rank %d: byte %zu from rank %d is wrong\n", rank, i, from);
      exit(1);
    }
}

static ncclResult_t exchange(void) {
  ncclResult_t result = ncclGroupStart();
  for (int r = 0; r < ranks; ++r) {
    const int to = (rank + r) % ranks;
    ncclSend((char*)in.device + (size_t)to * block, block, ncclInt8, to, comm, stream);
    ncclRecv((char*)out.device + (size_t)r * block, block, ncclInt8, r, comm, stream);
  }
  result = ncclGroupEnd();
  return result;
}

static void in_turn(const char* folder) {
  char file[4096];
  for (int turn = 0; turn < 3; ++turn) {
    fill(turn);
    /* the others' messages are under way, and rank 1 has asked for none of them yet */
    snprintf(file, sizeof file, "%s/turn-%d", folder, turn);
    if (rank == 1) {
      while (access(file, F_OK) != 0) usleep(1000);
      usleep(200000);
    }
    if (rank == 0) fclose(fopen(file, "w"));
    CHECK(exchange());
    check(turn);
  }
  printf("ok\n");
}

static void until_it_ends(const char* how) {
  if (rank == 1 && strcmp(how, "killed") == 0 && fork() == 0) {
    usleep(150000);
    kill(getppid(), SIGKILL);
    _exit(0);
  }
  ncclResult_t result = ncclSuccess;
  for (int turn = 0; result == ncclSuccess; ++turn) {
    result = exchange();
    if (rank == 1 && turn == 2 && strcmp(how, "abort") == 0) break;
    wait_for(stream);
    ncclResult_t found = ncclSuccess;
    CHECK(ncclCommGetAsyncError(comm, &found));
    if (result == ncclSuccess) result = found;
  }
  if (result != ncclSuccess) printf("%s: %s\n", ncclGetErrorString(result), ncclGetLastError(comm));
}

/* The streams of a rank that aborts run on: what another one receives is right, or an error says
 * that it may not be. */
static void abandon(const char* folder) {
  const size_t first = 256 << 10; /* of the messages; the second one takes the slots again */
  char file[4096];
  fill(0);
  CHECK(exchange());
  check(0);
  snprintf(file, sizeof file, "%s/aborted", folder);
  if (rank == 0) {
    struct buffer next = new_buffer(block);
    memset(in.host, 1, in.bytes);
    memset(next.host, 2, next.bytes);
    put(&in, stream);
    put(&next, stream);
    void* const second = new_stream(); /* the first one waits until its message is received */
    wait_for(stream);
    CHECK(ncclSend(in.device, first, ncclInt8, 1, comm, stream));
    CHECK(ncclSend(next.device, block, ncclInt8, 1, comm, second));
    usleep(100000); /* its first chunks are under way */
    CHECK(ncclCommAbort(comm));
    fclose(fopen(file, "w"));
    printf("aborted\n");
    return;
  }
  while (access(file, F_OK) != 0) usleep(1000);
  ncclResult_t result = ncclRecv(out.device, first, ncclInt8, 0, comm, stream), found = ncclSuccess;
  get(&out, stream);
  CHECK(ncclCommGetAsyncError(comm, &found));
  if (result == ncclSuccess) result = found;
  for (size_t i = 0; result == ncclSuccess && i < first; ++i)
    if (out.host[i] != 1) fprintf(stderr, "byte %zu is wrong, and no error is told\n", i), exit(1);
  printf("%s\n", result == ncclSuccess ? "right" : "an error");
  CHECK(ncclCommAbort(comm));
}

static void send_and_end(void) {
  const size_t bytes = (size_t)atol(getenv("BYTES"));
  memset(in.host, 9, bytes);
  put(&in, stream);
  if (rank == 0) {
    CHECK(ncclSend(in.device, bytes, ncclInt8, 1, comm, stream));
    wait_for(stream);
    printf("ok\n");
    fflush(stdout);
    _exit(0);
  }
  usleep(1000000);
  CHECK(ncclRecv(out.device, bytes, ncclInt8, 0, comm, stream));
  get(&out, stream);
  ncclResult_t found = ncclSuccess;
  CHECK(ncclCommGetAsyncError(comm, &found));
  if (found != ncclSuccess || memcmp(in.host, out.host, bytes) != 0)
    fprintf(stderr, "the message is lost: %s\n", ncclGetLastError(comm)), exit(1);
  printf("ok\n");
}

static void send_words(void) {
  static const size_t counts[] = {2, (1 << 17) + 2, 1 << 15}; /* the last one's receive: of 2 */
  for (size_t i = 0; i < in.bytes / sizeof(double); ++i) ((double*)in.host)[i] = 1;
  put(&in, stream);
  ncclResult_t found = ncclSuccess;
  for (int i = 0; i < 3; ++i) {
    if (rank == 0)
      CHECK(ncclSend(in.device, counts[i], ncclFloat64, 1, comm, stream));
    else
      CHECK(ncclRecv(out.device, i < 2 ? counts[i] : 2, ncclFloat64, 0, comm, stream));
    if (rank == 0) continue;
    get(&out, stream);
    CHECK(ncclCommGetAsyncError(comm, &found));
    if (found == ncclSuccess && memcmp(in.host, out.host, counts[i] * sizeof(double)) != 0)
      fprintf(stderr, "message %d is wrong\n", i), exit(1);
    printf("%s\n", found == ncclSuccess ? "right" : ncclGetLastError(comm));
  }
  wait_for(stream);
  CHECK(ncclCommAbort(comm));
}

static void wait_beside_others(void) {
  const size_t bytes = 1000;
  ncclResult_t result = ncclSuccess, found = ncclSuccess;
  if (rank == 1) {
    usleep(200000);
    kill(getpid(), SIGKILL);
  }
  if (rank == 0) CHECK(ncclRecv(out.device, block, ncclInt8, 1, comm, new_stream()));
  while (result == ncclSuccess) {
    result = rank == 0 ? ncclSend(in.device, bytes, ncclInt8, 2, comm, stream)
                       : ncclRecv(out.device, bytes, ncclInt8, 0, comm, stream);
    wait_for(stream);
    if (rank == 0) usleep(10000);
    CHECK(ncclCommGetAsyncError(comm, &found));
    if (result == ncclSuccess) result = found;
  }
  printf("%s\n", ncclGetLastError(comm));
  CHECK(ncclCommAbort(comm));
}

static void send_between(ncclComm_t among) {
  CHECK(rank == 0 ? ncclSend(in.device, block, ncclInt8, 1, among, stream)
                  : ncclRecv(out.device, block, ncclInt8, 0, among, stream));
  wait_for(stream);
}

static void make_many(void) {
  for (int i = 0; i < 30; ++i) {
    ncclComm_t made;
    CHECK(ncclCommSplit(comm, 0, rank, &made, NULL));
    if (i % 2 == 0) send_between(made);
    CHECK(ncclCommAbort(made));
  }
  printf("ok\n");
}

static void leave_first(const char* folder) {
  char file[4096], done[4096];
  ncclComm_t made;
  CHECK(ncclCommSplit(comm, 0, rank, &made, NULL));
  send_between(made);
  snprintf(file, sizeof file, "%s/left", folder);
  snprintf(done, sizeof done, "%s/done", folder);
  if (rank == 0) {
    CHECK(ncclCommDestroy(made));
    fclose(fopen(file, "w"));
    while (access(done, F_OK) != 0) usleep(1000);
    printf("ok\n");
    return;
  }
  while (access(file, F_OK) != 0) usleep(1000);
  setenv("PENSTOCK_NCCL_MEMORY", "pool", 1);
  ncclResult_t result = ncclSuccess;
  for (int i = 0; i < 400 && result == ncclSuccess; ++i) {
    void* memory = NULL;
    result = ncclMemAlloc(&memory, 256 << 10);
  }
  fclose(fopen(done, "w"));
  if (result != ncclSuccess && strstr(ncclGetLastError(NULL), "no space") == NULL)
    fprintf(stderr, "%s\n", ncclGetLastError(NULL)), exit(1);
  printf("ok\n");
}

/* The one who waits tells the other when it may end. */
static void send_much(const char* folder, const char* how) {
  char file[4096];
  const int small = strcmp(how, "small") == 0, sender = 0;
  const int waits = small || strcmp(how, "mute") == 0 ? 1 : 0;
  const int messages = small ? 700 : strcmp(how, "mute") == 0 ? 1 : 40;
  const size_t bytes = small ? 1000 : block;
  ncclResult_t result = ncclSuccess, found = ncclSuccess;
  snprintf(file, sizeof file, "%s/told", folder);
  if (rank != waits) usleep(500000);
  if (rank != waits && strcmp(how, "full") != 0 && !small) {
    CHECK(ncclCommAbort(comm));
    while (access(file, F_OK) != 0) usleep(1000);
    printf("ok\n");
    return;
  }
  for (int i = 0; i < messages && result == ncclSuccess; ++i)
    result = rank == sender ? ncclSend(in.device, bytes, ncclInt8, 1, comm, stream)
                            : ncclRecv(out.device, bytes, ncclInt8, 0, comm, stream);
  wait_for(stream);
  CHECK(ncclCommGetAsyncError(comm, &found));
  if (result == ncclSuccess) result = found;
  printf("%s\n", result == ncclSuccess ? "ok" : ncclGetLastError(comm));
  CHECK(ncclCommAbort(comm));
  fclose(fopen(file, "w"));
}

static void begin_many(const char* folder) {
  enum { messages = 2000, bytes = 66000 };
  char file[4096];
  const int is_first = rank == atoi(getenv("FIRST"));
  struct buffer all = new_buffer((size_t)messages * bytes);
  for (size_t i = 0; i < all.bytes && rank == 0; ++i) all.host[i] = (unsigned char)(i / 100 * 7);
  put(&all, stream);
  snprintf(file, sizeof file, "%s/begun", folder);
  while (!is_first && access(file, F_OK) != 0) usleep(1000);
  CHECK(ncclGroupStart());
  for (int i = 0; i < messages; ++i) {
    char* const at = (char*)all.device + (size_t)i * bytes;
    rank == 0 ? ncclSend(at, bytes, ncclInt8, 1, comm, stream)
              : ncclRecv(at, bytes, ncclInt8, 0, comm, stream);
  }
  CHECK(ncclGroupEnd());
  if (is_first) fclose(fopen(file, "w"));
  get(&all, stream);
  for (size_t i = 0; i < all.bytes; ++i)
    if (all.host[i] != (unsigned char)(i / 100 * 7))
      fprintf(stderr, "byte %zu is wrong\n", i), exit(1);
  CHECK(ncclCommDestroy(comm));
  printf("ok\n");
}

int main(int argc, char** argv) {
  if (argc != 5) return 2;
  open_gpu();
  rank = atoi(argv[1]), ranks = atoi(argv[2]);
  const ncclUniqueId id = meet(rank, argv[3]);
  CHECK(ncclCommInitRank(&comm, ranks, id, rank));
  stream = new_stream();
  in = new_buffer(block * (size_t)ranks);
  out = new_buffer(block * (size_t)ranks);
  if (strcmp(argv[4], "abandoned") == 0) {
    abandon(argv[3]);
    return 0;
  }
  if (strcmp(argv[4], "ends") == 0 || strcmp(argv[4], "alike") == 0 ||
      strcmp(argv[4], "beside") == 0) {
    argv[4][0] == 'e' ? send_and_end() : argv[4][0] == 'a' ? send_words() : wait_beside_others();
    return 0;
  }
  if (strcmp(argv[4], "many") == 0) {
    begin_many(argv[3]);
    return 0;
  }
  if (strcmp(argv[4], "made") == 0 || strcmp(argv[4], "left") == 0) {
    argv[4][0] == 'm' ? make_many() : leave_first(argv[3]);
    CHECK(ncclCommDestroy(comm));
    return 0;
  }
  if (strcmp(argv[4], "full") == 0 || strcmp(argv[4], "deaf") == 0 ||
      strcmp(argv[4], "mute") == 0 || strcmp(argv[4], "small") == 0) {
    send_much(argv[3], argv[4]);
    return 0;
  }
  const int ends_well = strcmp(argv[4], "late") == 0;
  ends_well ? in_turn(argv[3]) : until_it_ends(argv[4]);
  CHECK(ends_well ? ncclCommDestroy(comm) : ncclCommAbort(comm));
  return 0;
}

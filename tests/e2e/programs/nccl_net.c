/* NCCL's network plug-in as NCCL calls it: two processes that listen and connect to each other, and
 * messages both ways, several on their way at once, by both versions of the interface.
 *
 *   nccl_net RANK PLUGIN FOLDER VERSION [die]   FOLDER passes the handles
 *
 * PLAN: a file with the calls to make instead (matching_plan.h). */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <signal.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "matching_plan.h"

struct shared {
  int (*accept)(void*, void**, void**);
  int (*reg)(void*, void*, size_t, int, void**);
  int (*reg_dma)(void*, void*, size_t, int, uint64_t, int, void**);
  int (*dereg)(void*, void*);
  int (*isend)(void*, void*, size_t, int, void*, void*, void**);
  int (*irecv)(void*, int, void**, size_t*, int*, void**, void**, void**);
  int (*iflush)(void*, int, void**, int*, void**, void**);
  int (*test)(void*, int*, int*);
  int (*close_send)(void*);
  int (*close_recv)(void*);
  int (*close_listen)(void*);
  int (*device_mr)(void*, void*, void**);
  int (*consumed)(void*, int, void*);
};
typedef void (*logger_t)(int, unsigned long, const char*, int, const char*, ...);
struct v10 {
  const char* name;
  int (*init)(logger_t, void*);
  int (*devices)(int*);
  int (*properties)(int, void*);
  int (*listen)(int, void*, void**);
  int (*connect)(int, void*, void*, void**, void**);
  struct shared shared;
};
struct v11 {
  const char* name;
  int (*init)(void**, uint64_t, void*, logger_t, void*);
  int (*devices)(int*);
  int (*properties)(int, void*);
  int (*listen)(void*, int, void*, void**);
  int (*connect)(void*, int, void*, void**, void**);
  struct shared shared;
};

static void log_line(int level, unsigned long flags, const char* file, int line, const char* format,
                     ...) {
  (void)level, (void)flags, (void)file, (void)line;
  va_list list;
  va_start(list, format);
  vfprintf(stderr, format, list);
  va_end(list);
  fputc('\n', stderr);
}
#define CHECK(call)                                                                          \
  do {                                                                                       \
    const int found_ = (call);                                                               \
    if (found_ != 0) fprintf(stderr, "line %d: %s: %d\n", __LINE__, #call, found_), exit(1); \
  } while (0)

static const struct shared* net;
static void* sending;
static void* receiving;

static void pass(const char* folder, int rank, const char* bytes) {
  char path[512], made[520];
  snprintf(path, sizeof path, "%s/%d", folder, rank);
  snprintf(made, sizeof made, "%s.new", path);
  FILE* const file = fopen(made, "wb");
  if (file == NULL || fwrite(bytes, 128, 1, file) != 1 || fclose(file) != 0 ||
      rename(made, path) != 0)
    exit(1);
}
static void take(const char* folder, int rank, char* bytes) {
  char path[512];
  snprintf(path, sizeof path, "%s/%d", folder, rank);
  FILE* file;
  while ((file = fopen(path, "rb")) == NULL) usleep(1000);
  if (fread(bytes, 128, 1, file) != 1) exit(1);
  fclose(file);
}

static int finish(void* request, int* bytes) {
  int done = 0;
  while (!done) {
    const int result = net->test(request, &done, bytes);
    if (result != 0) return result;
  }
  return 0;
}

/* Eight messages each way at once, of a size; received by tag, the last one first. */
static void exchange(size_t bytes, int rank) {
  enum { count = 8 };
  void *sends[count], *receives[count], *handle;
  unsigned char *out[count], *in[count];
  for (int i = 0; i < count; ++i) {
    out[i] = malloc(bytes + 1), in[i] = malloc(bytes + 64);
    for (size_t k = 0; k < bytes; ++k)
      out[i][k] = (unsigned char)(k * 7 + (size_t)i + (size_t)rank);
    CHECK(net->reg(sending, out[i], bytes + 1, 1, &handle));
    do CHECK(net->isend(sending, out[i], bytes, i, handle, NULL, &sends[i]));
    while (sends[i] == NULL);
  }
  for (int i = count - 1; i >= 0; --i) {
    size_t room = bytes + 64;
    void* place = in[i];
    do CHECK(net->irecv(receiving, 1, &place, &room, &i, &handle, NULL, &receives[i]));
    while (receives[i] == NULL);
  }
  int done[2 * count] = {0}, found[count], left = 2 * count;
  while (left > 0) /* each in turn, as NCCL's proxy does */
    for (int i = 0; i < 2 * count; ++i) {
      if (done[i]) continue;
      CHECK(net->test(i < count ? receives[i] : sends[i - count], &done[i],
                      i < count ? &found[i] : NULL));
      left -= done[i];
    }
  for (int i = 0; i < count; ++i) {
    if ((size_t)found[i] != bytes)
      fprintf(stderr, "%d bytes instead of %zu\n", found[i], bytes), exit(1);
    for (size_t k = 0; k < bytes; ++k)
      if (in[i][k] != (unsigned char)(k * 7 + (size_t)i + 1 - (size_t)rank))
        fprintf(stderr, "wrong byte %zu\n", k), exit(1);
    CHECK(net->dereg(sending, handle));
    free(out[i]), free(in[i]);
  }
}

static void play(const struct planned* calls, int count) {
  unsigned char* data[max_calls];
  void* requests[max_calls];
  int found[max_calls] = {0}, done[max_calls] = {0};
  for (int i = 0; i < count; ++i) {
    size_t room = calls[i].bytes;
    int tag = calls[i].tag;
    void* place = data[i] = malloc(room + 1);
    if (calls[i].is_send) fill(&calls[i], data[i]);
    do {
      if (calls[i].is_send)
        CHECK(net->isend(sending, place, room, tag, NULL, NULL, &requests[i]));
      else
        CHECK(net->irecv(receiving, 1, &place, &room, &tag, NULL, NULL, &requests[i]));
    } while (requests[i] == NULL);
  }
  for (int left = count; left > 0;)
    for (int i = 0; i < count; ++i) {
      if (done[i]) continue;
      CHECK(net->test(requests[i], &done[i], &found[i]));
      left -= done[i];
    }
  for (int i = 0; i < count; ++i) {
    if (!calls[i].is_send && (size_t)found[i] != calls[i].bytes)
      fprintf(stderr, "%d bytes instead of %zu\n", found[i], calls[i].bytes), exit(1);
    if (!calls[i].is_send) check(&calls[i], data[i]);
    free(data[i]);
  }
}

static void open_ends(const char* folder, int rank, const void* table, int version) {
  char own[128] = "", other[128];
  void *listening = NULL, *context = NULL;
  int devices = 0;
  char properties[256];
  const struct v10* const old = table;
  const struct v11* const new = table;
  net = version == 10 ? &old->shared : &new->shared;
  CHECK(version == 10 ? old->init(log_line, NULL) : new->init(&context, 1, NULL, log_line, NULL));
  CHECK(version == 10 ? old->devices(&devices) : new->devices(&devices));
  if (devices != 1) printf("%d devices\n", devices), exit(0);
  CHECK(version == 10 ? old->properties(0, properties) : new->properties(0, properties));
  CHECK(version == 10 ? old->listen(0, own, &listening) : new->listen(context, 0, own, &listening));
  pass(folder, rank, own);
  take(folder, 1 - rank, other);
  while (sending == NULL || receiving == NULL) {
    if (sending == NULL)
      CHECK(version == 10 ? old->connect(0, NULL, other, &sending, NULL)
                          : new->connect(context, 0, other, &sending, NULL));
    if (receiving == NULL) CHECK(net->accept(listening, &receiving, NULL));
  }
  CHECK(net->close_listen(listening));
}

int main(int argc, char** argv) {
  if (argc < 5) return 2;
  const int rank = atoi(argv[1]), version = atoi(argv[4]);
  void* const library = dlopen(argv[2], RTLD_NOW);
  if (library == NULL) fprintf(stderr, "%s\n", dlerror()), exit(1);
  const void* const table =
      dlsym(library, version == 10 ? "ncclNetPlugin_v10" : "ncclNetPlugin_v11");
  if (table == NULL) fprintf(stderr, "no version %d\n", version), exit(1);
  open_ends(argv[3], rank, table, version);
  static const size_t sizes[] = {0, 1, 100, 5000, 300000, 3000000};
  if (getenv("PLAN") != NULL)
    play_plan(getenv("PLAN"), rank, play);
  else
    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; ++i) exchange(sizes[i], rank);
  if (argc > 5) {
    if (rank == 1) kill(getpid(), 9);
    char byte;
    void *place = &byte, *request = NULL;
    size_t room = 1;
    int tag = 0;
    CHECK(net->irecv(receiving, 1, &place, &room, &tag, NULL, NULL, &request));
    printf("error %d\n", finish(request, NULL));
    return 0;
  }
  CHECK(net->close_send(sending));
  CHECK(net->close_recv(receiving));
  printf("ok\n");
  return 0;
}

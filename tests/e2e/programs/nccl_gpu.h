/* The GPU of the test programs, by NVIDIA's driver or the stand-in, and memory of it; without GPU=1
 * host memory. */
#ifndef NCCL_GPU_H
#define NCCL_GPU_H

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "nccl_meet.h"

static int gpu;
static int (*to_device)(unsigned long long, const void*, size_t, void*);
static int (*to_host)(void*, unsigned long long, size_t, void*);
static int (*synchronize)(void*);
static int (*make_stream)(void**, unsigned);
static int (*retain_context)(void**, int);
static int (*push_context)(void*);
static int (*pop_context)(void**);
/* Of graphs. */
static int (*begin_capture)(void*, int);
static int (*end_capture)(void*, void**);
static int (*instantiate)(void**, void*, unsigned long long);
static int (*launch)(void*, void*);
static int (*destroy_graph)(void*);
static int (*destroy_executable)(void*);

static void* symbol(void* library, const char* name) {
  void* const found = dlsym(library, name);
  if (found == NULL) fprintf(stderr, "no %s\n", name), exit(1);
  return found;
}

static void open_gpu(void) {
  if (getenv("GPU") == NULL) return;
  gpu = 1;
  void* const library = dlopen("libcuda.so.1", RTLD_NOW);
  if (library == NULL) fprintf(stderr, "%s\n", dlerror()), exit(1);
  int (*init)(unsigned) = (int (*)(unsigned))symbol(library, "cuInit");
  retain_context = (int (*)(void**, int))symbol(library, "cuDevicePrimaryCtxRetain");
  push_context = (int (*)(void*))symbol(library, "cuCtxPushCurrent_v2");
  pop_context = (int (*)(void**))symbol(library, "cuCtxPopCurrent_v2");
  to_device = (int (*)(unsigned long long, const void*, size_t, void*))symbol(
      library, "cuMemcpyHtoDAsync_v2");
  to_host =
      (int (*)(void*, unsigned long long, size_t, void*))symbol(library, "cuMemcpyDtoHAsync_v2");
  synchronize = (int (*)(void*))symbol(library, "cuStreamSynchronize");
  make_stream = (int (*)(void**, unsigned))symbol(library, "cuStreamCreate");
  begin_capture = (int (*)(void*, int))symbol(library, "cuStreamBeginCapture_v2");
  end_capture = (int (*)(void*, void**))symbol(library, "cuStreamEndCapture");
  instantiate =
      (int (*)(void**, void*, unsigned long long))symbol(library, "cuGraphInstantiateWithFlags");
  launch = (int (*)(void*, void*))symbol(library, "cuGraphLaunch");
  destroy_graph = (int (*)(void*))symbol(library, "cuGraphDestroy");
  destroy_executable = (int (*)(void*))symbol(library, "cuGraphExecDestroy");
  void* context = NULL;
  if (init(0) != 0 || retain_context(&context, 0) != 0 || push_context(context) != 0)
    fprintf(stderr, "no GPU\n"), exit(1);
}

/* As cudaSetDevice. */
static inline void set_device(int device) {
  void* context = NULL;
  if (!gpu) return;
  if (pop_context(NULL) != 0 || retain_context(&context, device) != 0 || push_context(context) != 0)
    fprintf(stderr, "no GPU %d\n", device), exit(1);
}

static void* new_stream(void) {
  void* stream = NULL;
  if (gpu && make_stream(&stream, 1) != 0) exit(1);
  return stream;
}
static void wait_for(void* stream) {
  if (gpu && synchronize(stream) != 0) fprintf(stderr, "the stream has failed\n"), exit(1);
}

/* Memory of the GPU, and its image in host memory. */
struct buffer {
  void* device;
  unsigned char* host;
  size_t bytes;
};
static struct buffer new_buffer(size_t bytes) {
  struct buffer b = {NULL, calloc(bytes + 1, 1), bytes};
  CHECK(ncclMemAlloc(&b.device, bytes + 1));
  return b;
}
static void put(const struct buffer* b, void* stream) {
  if (gpu && to_device((unsigned long long)b->device, b->host, b->bytes, stream) != 0) exit(1);
  if (!gpu) memcpy(b->device, b->host, b->bytes);
}
static void get(struct buffer* b, void* stream) {
  if (gpu && to_host(b->host, (unsigned long long)b->device, b->bytes, stream) != 0) exit(1);
  wait_for(stream);
  if (!gpu) memcpy(b->host, b->device, b->bytes);
}
static inline void free_buffer(struct buffer* b) {
  CHECK(ncclMemFree(b->device));
  free(b->host);
}

#endif

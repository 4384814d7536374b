/* NVIDIA's driver, loaded at run time: the functions that the measuring programs call. */
#ifndef GPU_DRIVER_H
#define GPU_DRIVER_H

#include <dlfcn.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

typedef unsigned long long device_pointer;

static struct {
  int (*alloc)(device_pointer*, size_t);
  int (*to_device)(device_pointer, const void*, size_t, void*);
  int (*to_host)(void*, device_pointer, size_t, void*);
  int (*synchronize)(void*);
  int (*stream)(void**, unsigned);
  int (*register_host)(void*, size_t, unsigned);
  int (*pointer_of)(device_pointer*, void*, unsigned);
  int (*wait_value)(void*, device_pointer, uint64_t, unsigned);
  int (*write_value)(void*, device_pointer, uint64_t, unsigned);
  int (*load)(void**, const void*);
  int (*function)(void**, void*, const char*);
  int (*launch)(void*, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, void*,
                void**, void**);
} cu;

#define CU(call)                                                           \
  do {                                                                     \
    const int status_ = (call);                                            \
    if (status_ != 0) {                                                    \
      fprintf(stderr, "line %d: %s: CUDA %d\n", __LINE__, #call, status_); \
      exit(1);                                                             \
    }                                                                      \
  } while (0)

static void* gpu_symbol(void* library, const char* name) {
  void* const found = dlsym(library, name);
  if (found == NULL) fprintf(stderr, "no %s\n", name), exit(1);
  return found;
}

/* Makes the first GPU's context this thread's. */
static void open_gpu(void) {
  void* const library = dlopen("libcuda.so.1", RTLD_NOW);
  if (library == NULL) fprintf(stderr, "%s\n", dlerror()), exit(1);
#define FIND(to, name) *(void**)&cu.to = gpu_symbol(library, name)
  FIND(alloc, "cuMemAlloc_v2");
  FIND(to_device, "cuMemcpyHtoDAsync_v2");
  FIND(to_host, "cuMemcpyDtoHAsync_v2");
  FIND(synchronize, "cuStreamSynchronize");
  FIND(stream, "cuStreamCreate");
  FIND(register_host, "cuMemHostRegister_v2");
  FIND(pointer_of, "cuMemHostGetDevicePointer_v2");
  FIND(wait_value, "cuStreamWaitValue64_v2");
  FIND(write_value, "cuStreamWriteValue64_v2");
  FIND(load, "cuModuleLoadData");
  FIND(function, "cuModuleGetFunction");
  FIND(launch, "cuLaunchKernel");
#undef FIND
  int (*init)(unsigned) = NULL;
  int (*retain)(void**, int) = NULL;
  int (*push)(void*) = NULL;
  *(void**)&init = gpu_symbol(library, "cuInit");
  *(void**)&retain = gpu_symbol(library, "cuDevicePrimaryCtxRetain");
  *(void**)&push = gpu_symbol(library, "cuCtxPushCurrent_v2");
  void* context = NULL;
  CU(init(0));
  CU(retain(&context, 0));
  CU(push(context));
}

static double now(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static int by_size(const void* a, const void* b) {
  const double left = *(const double*)a, right = *(const double*)b;
  return left < right ? -1 : left > right;
}

static double median(double* values, size_t count) {
  qsort(values, count, sizeof values[0], by_size);
  return values[count / 2];
}

#endif

// Shared by the experiments of probe.cu: memory as a pool's, the driver's objects, times.
#pragma once

#include <cuda.h>
#include <cuda_runtime.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <vector>

#define CU(call)                                                                                \
  do {                                                                                          \
    const int status_ = static_cast<int>(call);                                                 \
    if (status_ != 0) {                                                                         \
      printf("{\"failed\": \"%s\", \"line\": %d, \"status\": %d}\n", #call, __LINE__, status_); \
      fflush(stdout);                                                                           \
      _exit(1);                                                                                 \
    }                                                                                           \
  } while (0)

namespace probe {

inline CUcontext context;

inline void use_context() {
  CU(cuCtxSetCurrent(context));
}

inline double now() {
  timespec time{};
  clock_gettime(CLOCK_MONOTONIC, &time);
  return static_cast<double>(time.tv_sec) + 1e-9 * static_cast<double>(time.tv_nsec);
}

inline double median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  return values[values.size() / 2];
}

constexpr unsigned plain_registration = CU_MEMHOSTREGISTER_PORTABLE | CU_MEMHOSTREGISTER_DEVICEMAP;

/// Memory of the host that processes could share, registered with the driver; null if the driver
/// refuses these flags.
inline char* shared_memory(std::size_t bytes, unsigned flags = plain_registration) {
  const int file = static_cast<int>(memfd_create("probe", 0));
  if (file < 0 || ftruncate(file, static_cast<off_t>(bytes)) != 0) perror("memory"), exit(1);
  void* const at = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
  close(file);
  if (at == MAP_FAILED) perror("mmap"), exit(1);
  memset(at, 0, bytes);
  const CUresult status = cuMemHostRegister(at, bytes, flags);
  if (status == CUDA_SUCCESS) return static_cast<char*>(at);
  printf("{\"probe\": \"register\", \"flags\": %u, \"status\": %d}\n", flags,
         static_cast<int>(status));
  munmap(at, bytes);
  return nullptr;
}

inline CUdeviceptr on_gpu(const void* host) {
  CUdeviceptr pointer = 0;
  CU(cuMemHostGetDevicePointer(&pointer, const_cast<void*>(host), 0));
  return pointer;
}

template <class Type>
Type* pointer_on_gpu(const void* host) {
  return reinterpret_cast<Type*>(on_gpu(host));
}

inline CUdeviceptr device_memory(std::size_t bytes) {
  CUdeviceptr pointer = 0;
  CU(cuMemAlloc(&pointer, bytes));
  CU(cuMemsetD8(pointer, 7, bytes));
  return pointer;
}

inline CUstream stream() {
  CUstream made = nullptr;
  CU(cuStreamCreate(&made, CU_STREAM_NON_BLOCKING));
  return made;
}

inline void synchronize(CUstream stream) {
  CU(cuStreamSynchronize(stream));
}

}  // namespace probe

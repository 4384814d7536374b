// The types and numbers of NVIDIA's driver interface (cuda.h) that Penstock uses, so that nothing
// of CUDA is needed to build it. tests/cuda compares them with cuda.h where nvcc is installed.
#pragma once

#include <cstddef>
#include <cstdint>

struct CUctx_st;
struct CUstream_st;
struct CUevent_st;
struct CUmod_st;
struct CUfunc_st;
struct CUgraph_st;
struct CUgraphExec_st;

namespace penstock::cuda {

using Status = int;  ///< CUresult
using Device = int;
using DevicePointer = unsigned long long;
using Context = ::CUctx_st*;
using Stream = ::CUstream_st*;
using Event = ::CUevent_st*;
using Module = ::CUmod_st*;
using Function = ::CUfunc_st*;
using Graph = ::CUgraph_st*;
using GraphExec = ::CUgraphExec_st*;
using HostFunction = void (*)(void* user);

// CUresult
inline constexpr Status success = 0, invalid_value = 1, out_of_memory = 2, not_initialized = 3,
                        no_device = 100, invalid_device = 101, invalid_context = 201,
                        invalid_handle = 400, not_found = 500, not_ready = 600,
                        illegal_address = 700, already_registered = 712, not_registered = 713,
                        not_supported = 801, capture_unsupported = 900, capture_unmatched = 903,
                        capture_unjoined = 904;

// CUdevice_attribute. The stream memory operations are asked for by the numbers of their second
// version; 92 to 94 are those of the first.
inline constexpr int attribute_multiprocessors = 16, attribute_capability_major = 75,
                     attribute_capability_minor = 76, attribute_host_pointer_is_device_pointer = 91,
                     attribute_host_register = 99, attribute_64_bit_stream_mem_ops = 122,
                     attribute_wait_value_nor = 123;

// CUpointer_attribute, CUmemorytype
inline constexpr int pointer_memory_type = 2, pointer_device_ordinal = 9;
inline constexpr unsigned memory_host = 1, memory_device = 2;

// Flags
inline constexpr unsigned stream_non_blocking = 1, event_disable_timing = 2,
                          host_register_portable = 1, host_register_device_map = 2,
                          host_register_io_memory = 4, wait_value_geq = 0, wait_value_eq = 1,
                          write_value_default = 0;
/// CUstreamBatchMemOpParams of a wait or a write of 64 bits.
struct BatchOp {
  unsigned operation = 0;
  DevicePointer at = 0;
  std::uint64_t value = 0;
  unsigned flags = 0;
  DevicePointer alias = 0;
  std::uint64_t unused = 0;
};
inline constexpr unsigned batch_wait_value_64 = 4, batch_write_value_64 = 5;
/// One of the streams that every context has: null, CU_STREAM_LEGACY and CU_STREAM_PER_THREAD.
inline bool is_default(Stream stream) {
  return reinterpret_cast<std::uintptr_t>(stream) <= 2;
}
/// CU_STREAM_PER_THREAD: another stream in each thread.
inline bool is_per_thread(Stream stream) {
  return reinterpret_cast<std::uintptr_t>(stream) == 2;
}
// CUstreamCaptureStatus, CUstreamCaptureMode
inline constexpr int capture_none = 0, capture_active = 1, capture_global = 0,
                     capture_thread_local = 1, capture_relaxed = 2;

}  // namespace penstock::cuda

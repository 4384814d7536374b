// Compares the types, constants and functions of src/gpu/driver.hpp with NVIDIA's cuda.h.
#include <cuda.h>

#include <cstddef>
#include <tuple>

#include "gpu/driver_types.hpp"

namespace ours = penstock::cuda;

template <class Theirs, class Ours>
struct Alike;
template <class R, class... A, class S, class... B>
struct Alike<R (*)(A...), S (*)(B...)> {
  static_assert(sizeof...(A) == sizeof...(B), "as many arguments");
  template <class X, class Y>
  static constexpr bool same =
      sizeof(X) == sizeof(Y) && std::is_pointer_v<X> == std::is_pointer_v<Y>;
  static constexpr bool value = sizeof(R) == sizeof(S) && (same<A, B> && ...);
};

using namespace penstock::cuda;
#define PENSTOCK_CUDA(name, symbol, arguments) \
  static_assert(Alike<decltype(&::symbol), ours::Status(*) arguments>::value, #symbol);
#include "gpu/driver_table.inc"

#define SAME(ours_name, theirs) \
  static_assert(static_cast<long long>(ours::ours_name) == static_cast<long long>(theirs), #theirs)
SAME(success, CUDA_SUCCESS);
SAME(invalid_value, CUDA_ERROR_INVALID_VALUE);
SAME(out_of_memory, CUDA_ERROR_OUT_OF_MEMORY);
SAME(not_initialized, CUDA_ERROR_NOT_INITIALIZED);
SAME(no_device, CUDA_ERROR_NO_DEVICE);
SAME(invalid_device, CUDA_ERROR_INVALID_DEVICE);
SAME(invalid_context, CUDA_ERROR_INVALID_CONTEXT);
SAME(invalid_handle, CUDA_ERROR_INVALID_HANDLE);
SAME(not_found, CUDA_ERROR_NOT_FOUND);
SAME(not_ready, CUDA_ERROR_NOT_READY);
SAME(illegal_address, CUDA_ERROR_ILLEGAL_ADDRESS);
SAME(already_registered, CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED);
SAME(not_registered, CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED);
SAME(not_supported, CUDA_ERROR_NOT_SUPPORTED);
SAME(capture_unsupported, CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
SAME(capture_unmatched, CUDA_ERROR_STREAM_CAPTURE_UNMATCHED);
SAME(capture_unjoined, CUDA_ERROR_STREAM_CAPTURE_UNJOINED);
SAME(attribute_multiprocessors, CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT);
SAME(attribute_capability_major, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR);
SAME(attribute_capability_minor, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR);
SAME(attribute_host_pointer_is_device_pointer,
     CU_DEVICE_ATTRIBUTE_CAN_USE_HOST_POINTER_FOR_REGISTERED_MEM);
SAME(attribute_host_register, CU_DEVICE_ATTRIBUTE_HOST_REGISTER_SUPPORTED);
SAME(attribute_64_bit_stream_mem_ops, CU_DEVICE_ATTRIBUTE_CAN_USE_64_BIT_STREAM_MEM_OPS);
SAME(attribute_wait_value_nor, CU_DEVICE_ATTRIBUTE_CAN_USE_STREAM_WAIT_VALUE_NOR);
SAME(pointer_memory_type, CU_POINTER_ATTRIBUTE_MEMORY_TYPE);
SAME(pointer_device_ordinal, CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL);
SAME(memory_host, CU_MEMORYTYPE_HOST);
SAME(memory_device, CU_MEMORYTYPE_DEVICE);
SAME(stream_non_blocking, CU_STREAM_NON_BLOCKING);
SAME(event_disable_timing, CU_EVENT_DISABLE_TIMING);
SAME(host_register_portable, CU_MEMHOSTREGISTER_PORTABLE);
SAME(host_register_device_map, CU_MEMHOSTREGISTER_DEVICEMAP);
SAME(host_register_io_memory, CU_MEMHOSTREGISTER_IOMEMORY);
SAME(wait_value_geq, CU_STREAM_WAIT_VALUE_GEQ);
SAME(wait_value_eq, CU_STREAM_WAIT_VALUE_EQ);
SAME(write_value_default, CU_STREAM_WRITE_VALUE_DEFAULT);
SAME(batch_wait_value_64, CU_STREAM_MEM_OP_WAIT_VALUE_64);
SAME(batch_write_value_64, CU_STREAM_MEM_OP_WRITE_VALUE_64);
static_assert(sizeof(BatchOp) == sizeof(CUstreamBatchMemOpParams));
#define SAME_PLACE(ours_name, theirs) \
  static_assert(offsetof(BatchOp, ours_name) == offsetof(CUstreamBatchMemOpParams, theirs), #theirs)
SAME_PLACE(operation, waitValue.operation);
SAME_PLACE(at, waitValue.address);
SAME_PLACE(value, waitValue.value64);
SAME_PLACE(flags, waitValue.flags);
SAME_PLACE(alias, waitValue.alias);
SAME_PLACE(at, writeValue.address);
SAME_PLACE(value, writeValue.value64);
SAME_PLACE(flags, writeValue.flags);
SAME(capture_none, CU_STREAM_CAPTURE_STATUS_NONE);
SAME(capture_active, CU_STREAM_CAPTURE_STATUS_ACTIVE);
SAME(capture_global, CU_STREAM_CAPTURE_MODE_GLOBAL);
SAME(capture_thread_local, CU_STREAM_CAPTURE_MODE_THREAD_LOCAL);
SAME(capture_relaxed, CU_STREAM_CAPTURE_MODE_RELAXED);

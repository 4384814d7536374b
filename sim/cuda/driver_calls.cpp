// libcuda.so.1 of the stand-in GPU: only the functions of src/gpu/driver_table.inc. One device, or
// as many as STANDIN_DEVICES says, which all processes of a host share. For tests; never installed.
#include <sched.h>

#include <algorithm>
#include <array>
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "sim/cuda/kernels.hpp"
#include "sim/cuda/stream.hpp"

using namespace penstock::sim::cuda;

#define PENSTOCK_EXPORT extern "C" __attribute__((visibility("default")))

struct CUctx_st {};
struct CUstream_st {
  CUstream_st(Context of, int its) : context(of), priority(its) {}
  const Context context;
  const int priority;
  StreamThread thread;
};
/// One thread may record it while another asks.
struct CUevent_st {
  explicit CUevent_st(Context of) : context(of) {}
  const Context context;
  std::mutex mutex;
  EventState state;
  EventState now() {
    const std::lock_guard<std::mutex> guard(mutex);
    return state;
  }
};
struct CUmod_st {
  Context context = nullptr;
};
struct CUfunc_st {
  const Kernel* kernel = nullptr;
  Context context = nullptr;
};
struct CUgraph_st {
  std::shared_ptr<Capture> capture;
};
struct CUgraphExec_st {
  std::shared_ptr<Capture> capture;
};

namespace {

constexpr int least_priority = 0, greatest_priority = -5;  // as a GPU has them

std::atomic<bool> initialized{false};
constexpr int max_devices = 8;
std::array<CUctx_st, max_devices> primaries;  ///< by device
thread_local std::vector<Context> current;

int devices() {
  const char* const given = std::getenv("STANDIN_DEVICES");
  return given == nullptr ? 1 : std::clamp(std::atoi(given), 1, max_devices);
}
/// The device of a context; -1: it is none.
int device_of(Context context) {
  const auto* const found = std::find_if(primaries.begin(), primaries.end(),
                                         [&](const CUctx_st& one) { return &one == context; });
  return found == primaries.end() ? -1 : static_cast<int>(found - primaries.begin());
}

std::atomic<unsigned> copies{0};

/// Streams that capture in the mode that forbids all threads calls that may wait; and this thread's
/// mode.
std::atomic<int> global_captures{0};
thread_local int capture_mode = capture_global;

/// The result of a call that a capture forbids.
Status allowed() {
  const bool forbidden = global_captures != 0 && capture_mode != capture_relaxed;
  return forbidden ? capture_unsupported : success;
}

/// Checked by every call on the context.
Status usable() {
  if (!initialized) return not_initialized;
  if (current.empty() || device_of(current.back()) < 0) return invalid_context;
  return sticky_error();
}

/// Checked by calls whose stream must belong to the thread's context.
Status usable_on(Stream stream) {
  if (const Status status = usable(); status != success) return status;
  return is_default(stream) || stream->context == current.back() ? success : invalid_handle;
}

#define RETURN_IF_FAILED(expression)                                          \
  do {                                                                        \
    if (const Status failed = (expression); failed != success) return failed; \
  } while (false)

/// Treats the default stream of the thread's context as one that others do not wait for.
StreamThread& thread_of(Stream stream) {
  static std::mutex mutex;
  static std::array<Stream, max_devices> of_default{};  // never destroyed: a process may end while
                                                        // they wait
  if (!is_default(stream)) return stream->thread;
  const std::lock_guard<std::mutex> guard(mutex);
  Stream& found = of_default[static_cast<std::size_t>(device_of(current.back()))];
  if (found == nullptr) found = new CUstream_st(current.back(), least_priority);
  return found->thread;
}

/// A copy that looks its addresses up when it runs, as a GPU does.
Status copy(Stream stream, std::size_t bytes, std::function<std::byte*()> to,
            std::function<const std::byte*()> from) {
  RETURN_IF_FAILED(usable());
  thread_of(stream).enqueue([bytes, to = std::move(to), from = std::move(from)] {
    if (sticky_error() != success || bytes == 0) return;
    std::byte* const target = to();
    const std::byte* const source = from();
    if (target == nullptr || source == nullptr) return set_sticky_error(illegal_address);
    std::memcpy(target, source, bytes);
  });
  return success;
}

std::function<std::byte*()> on_device(DevicePointer pointer, std::size_t bytes) {
  return [=] { return Memory::instance().reach(pointer, bytes); };
}

std::uint64_t* word_at(DevicePointer at) {
  auto* const word = reinterpret_cast<std::uint64_t*>(Memory::instance().reach(at, 8));
  if (word == nullptr || at % 8 != 0) set_sticky_error(illegal_address);
  return word;
}

bool is_reached(std::uint64_t found, std::uint64_t value, unsigned flags) {
  if (flags == wait_value_eq) return found == value;
  return static_cast<std::int64_t>(found - value) >= 0;
}

}  // namespace

PENSTOCK_EXPORT Status cuInit(unsigned) {
  if (!initialized.exchange(true)) {
    add_combine_kernels();
    add_fused_kernels();
    add_word_kernels();
  }
  return success;
}
PENSTOCK_EXPORT Status cuDriverGetVersion(int* version) {
  *version = 13000;
  return success;
}
PENSTOCK_EXPORT Status cuGetErrorName(Status status, const char** name) {
  *name = status == illegal_address ? "CUDA_ERROR_ILLEGAL_ADDRESS" : "CUDA_ERROR";
  return success;
}
PENSTOCK_EXPORT Status cuGetErrorString(Status status, const char** text) {
  *text = status == illegal_address ? "an illegal memory access was encountered"
                                    : "an error of the stand-in GPU";
  return success;
}
PENSTOCK_EXPORT Status cuDeviceGetCount(int* count) {
  *count = devices();
  return initialized ? success : not_initialized;
}
PENSTOCK_EXPORT Status cuDeviceGet(Device* device, int ordinal) {
  if (!initialized) return not_initialized;
  *device = ordinal;
  return ordinal >= 0 && ordinal < devices() ? success : invalid_device;
}
PENSTOCK_EXPORT Status cuDeviceGetName(char* name, int bytes, Device) {
  std::strncpy(name, "stand-in GPU", static_cast<std::size_t>(bytes));
  return success;
}
/// All processes of a host share the devices.
PENSTOCK_EXPORT Status cuDeviceGetUuid_v2(void* uuid, Device device) {
  std::array<char, 17> text{};
  std::snprintf(text.data(), text.size(), "stand-in GPU %03u",
                static_cast<unsigned>(device) % 1000);
  std::memcpy(uuid, text.data(), 16);
  return success;
}
PENSTOCK_EXPORT Status cuDeviceGetPCIBusId(char* address, int bytes, Device) {
  std::strncpy(address, "ffff:ff:1f.7", static_cast<std::size_t>(bytes));  // no device has it
  return success;
}
PENSTOCK_EXPORT Status cuDeviceGetAttribute(int* value, int attribute, Device device) {
  if (device < 0 || device >= devices()) return invalid_device;
  switch (attribute) {
    case attribute_multiprocessors:
      *value = 4;
      return success;
    case attribute_capability_major:
      *value = 9;
      return success;
    case attribute_64_bit_stream_mem_ops:
    case attribute_wait_value_nor:
      *value = std::getenv("STANDIN_NO_STREAM_WORDS") == nullptr ? 1 : 0;
      return success;
    case attribute_host_register:
      *value = 1;
      return success;
    default:
      *value = 0;
      return success;
  }
}
PENSTOCK_EXPORT Status cuDevicePrimaryCtxRetain(Context* context, Device device) {
  if (!initialized) return not_initialized;
  if (device < 0 || device >= devices()) return invalid_device;
  *context = &primaries[static_cast<std::size_t>(device)];
  return success;
}
PENSTOCK_EXPORT Status cuDevicePrimaryCtxRelease_v2(Device) {
  return success;
}
PENSTOCK_EXPORT Status cuCtxGetCurrent(Context* context) {
  *context = current.empty() ? nullptr : current.back();
  return success;
}
PENSTOCK_EXPORT Status cuCtxPushCurrent_v2(Context context) {
  if (device_of(context) < 0) return invalid_context;
  current.push_back(context);
  return success;
}
PENSTOCK_EXPORT Status cuCtxPopCurrent_v2(Context* context) {
  if (current.empty()) return invalid_context;
  if (context != nullptr) *context = current.back();
  current.pop_back();
  return success;
}
PENSTOCK_EXPORT Status cuCtxGetDevice(Device* device) {
  RETURN_IF_FAILED(usable());
  *device = device_of(current.back());
  return success;
}

/// With STANDIN_NO_MEMORY_FROM=BYTES no allocation has so many bytes.
PENSTOCK_EXPORT Status cuMemAlloc_v2(DevicePointer* pointer, std::size_t bytes) {
  RETURN_IF_FAILED(usable());
  RETURN_IF_FAILED(allowed());
  const char* const from = std::getenv("STANDIN_NO_MEMORY_FROM");
  if (from != nullptr && bytes >= std::strtoull(from, nullptr, 10)) return out_of_memory;
  return Memory::instance().allocate(pointer, bytes, device_of(current.back()));
}
PENSTOCK_EXPORT Status cuMemFree_v2(DevicePointer pointer) {
  RETURN_IF_FAILED(allowed());
  return Memory::instance().release(pointer);
}
/// With STANDIN_MEMORY_HAS_NO_PAGES all memory is like that of a device.
PENSTOCK_EXPORT Status cuMemHostRegister_v2(void* at, std::size_t bytes, unsigned flags) {
  RETURN_IF_FAILED(usable());
  RETURN_IF_FAILED(allowed());
  const bool has_pages = std::getenv("STANDIN_MEMORY_HAS_NO_PAGES") == nullptr;
  if (has_pages != ((flags & host_register_io_memory) == 0)) return invalid_value;
  return Memory::instance().register_host(at, bytes);
}
PENSTOCK_EXPORT Status cuMemHostUnregister(void* at) {
  RETURN_IF_FAILED(allowed());
  return Memory::instance().unregister_host(at);
}
PENSTOCK_EXPORT Status cuMemHostGetDevicePointer_v2(DevicePointer* pointer, void* at, unsigned) {
  RETURN_IF_FAILED(usable());
  return Memory::instance().device_pointer_of(pointer, at);
}
PENSTOCK_EXPORT Status cuPointerGetAttribute(void* value, int attribute, DevicePointer pointer) {
  const unsigned kind = Memory::instance().kind_of(pointer);
  if (kind == 0) return invalid_value;
  if (attribute == pointer_memory_type)
    *static_cast<unsigned*>(value) = kind;
  else if (attribute == pointer_device_ordinal)
    *static_cast<int*>(value) = std::max(Memory::instance().device_of(pointer), 0);
  else
    return not_supported;
  return success;
}

/// A lower number is a higher priority. Streams only remember theirs.
PENSTOCK_EXPORT Status cuCtxGetStreamPriorityRange(int* least, int* greatest) {
  RETURN_IF_FAILED(usable());
  *least = least_priority;
  *greatest = greatest_priority;
  return success;
}
PENSTOCK_EXPORT Status cuStreamCreateWithPriority(Stream* stream, unsigned, int priority) {
  RETURN_IF_FAILED(usable());
  *stream =
      new CUstream_st(current.back(), std::clamp(priority, greatest_priority, least_priority));
  return success;
}
PENSTOCK_EXPORT Status cuStreamCreate(Stream* stream, unsigned flags) {
  return cuStreamCreateWithPriority(stream, flags, least_priority);
}
PENSTOCK_EXPORT Status cuStreamGetCtx(Stream stream, Context* context) {
  RETURN_IF_FAILED(usable());
  *context = is_default(stream) ? current.back() : stream->context;
  return success;
}
PENSTOCK_EXPORT Status cuStreamGetPriority(Stream stream, int* priority) {
  RETURN_IF_FAILED(usable());
  *priority = is_default(stream) ? least_priority : stream->priority;
  return success;
}
PENSTOCK_EXPORT Status cuStreamDestroy_v2(Stream stream) {
  if (stream == nullptr) return invalid_handle;
  // Queued operations are still done, by a thread of their own: this call does not wait.
  std::thread([stream] { delete stream; }).detach();
  return success;
}
PENSTOCK_EXPORT Status cuStreamSynchronize(Stream stream) {
  RETURN_IF_FAILED(usable());
  RETURN_IF_FAILED(allowed());
  if (thread_of(stream).capture != nullptr) return capture_unsupported;
  thread_of(stream).synchronize();
  return sticky_error();
}
PENSTOCK_EXPORT Status cuStreamQuery(Stream stream) {
  RETURN_IF_FAILED(usable());
  RETURN_IF_FAILED(allowed());
  return thread_of(stream).is_idle() ? success : not_ready;
}
PENSTOCK_EXPORT Status cuStreamWaitEvent(Stream stream, Event event, unsigned) {
  RETURN_IF_FAILED(usable());
  return wait_for(thread_of(stream), event->now());
}
PENSTOCK_EXPORT Status cuStreamIsCapturing(Stream stream, int* status) {
  RETURN_IF_FAILED(usable());
  *status = thread_of(stream).capture != nullptr ? capture_active : capture_none;
  return success;
}
PENSTOCK_EXPORT Status cuStreamBeginCapture_v2(Stream stream, int mode) {
  RETURN_IF_FAILED(usable());
  if (stream == nullptr) return capture_unsupported;
  RETURN_IF_FAILED(begin_capture(thread_of(stream)));
  thread_of(stream).capture->is_global = mode == capture_global;
  if (mode == capture_global) ++global_captures;
  return success;
}
PENSTOCK_EXPORT Status cuThreadExchangeStreamCaptureMode(int* mode) {
  std::swap(*mode, capture_mode);
  return success;
}
PENSTOCK_EXPORT Status cuStreamEndCapture(Stream stream, Graph* graph) {
  RETURN_IF_FAILED(usable());
  std::shared_ptr<Capture> captured;
  const Status ended = end_capture(thread_of(stream), captured);
  if (captured != nullptr && captured->is_global && captured->origin == &thread_of(stream))
    --global_captures;
  RETURN_IF_FAILED(ended);
  *graph = new CUgraph_st{captured};
  return success;
}
PENSTOCK_EXPORT Status cuGraphInstantiateWithFlags(GraphExec* exec, Graph graph,
                                                   unsigned long long) {
  RETURN_IF_FAILED(usable());
  *exec = new CUgraphExec_st{graph->capture};
  return success;
}
PENSTOCK_EXPORT Status cuGraphLaunch(GraphExec exec, Stream stream) {
  RETURN_IF_FAILED(usable());
  launch(exec->capture, thread_of(stream));
  return success;
}
PENSTOCK_EXPORT Status cuGraphExecDestroy(GraphExec exec) {
  delete exec;
  return success;
}
PENSTOCK_EXPORT Status cuGraphDestroy(Graph graph) {
  delete graph;
  return success;
}

PENSTOCK_EXPORT Status cuEventCreate(Event* event, unsigned) {
  RETURN_IF_FAILED(usable());
  *event = new CUevent_st(current.back());
  return success;
}
PENSTOCK_EXPORT Status cuEventRecord(Event event, Stream stream) {
  RETURN_IF_FAILED(usable());
  if (event->context != (is_default(stream) ? current.back() : stream->context))
    return invalid_handle;
  EventState recorded;
  const Status status = record(recorded, thread_of(stream));
  const std::lock_guard<std::mutex> guard(event->mutex);
  if (status == success) event->state = std::move(recorded);
  return status;
}
PENSTOCK_EXPORT Status cuEventQuery(Event event) {
  RETURN_IF_FAILED(usable());
  RETURN_IF_FAILED(allowed());
  const auto mark = event->now().mark;
  return mark == nullptr || mark->is_set() ? success : not_ready;
}
PENSTOCK_EXPORT Status cuEventSynchronize(Event event) {
  RETURN_IF_FAILED(usable());
  RETURN_IF_FAILED(allowed());
  if (const auto mark = event->now().mark) mark->wait();
  return sticky_error();
}
PENSTOCK_EXPORT Status cuEventDestroy_v2(Event event) {
  delete event;
  return success;
}

PENSTOCK_EXPORT Status cuMemcpyHtoDAsync_v2(DevicePointer to, const void* from, std::size_t bytes,
                                            Stream stream) {
  return copy(stream, bytes, on_device(to, bytes),
              [from] { return static_cast<const std::byte*>(from); });
}
PENSTOCK_EXPORT Status cuMemcpyDtoHAsync_v2(void* to, DevicePointer from, std::size_t bytes,
                                            Stream stream) {
  return copy(
      stream, bytes, [to] { return static_cast<std::byte*>(to); }, on_device(from, bytes));
}
PENSTOCK_EXPORT Status cuMemcpyDtoDAsync_v2(DevicePointer to, DevicePointer from, std::size_t bytes,
                                            Stream stream) {
  return copy(stream, bytes, on_device(to, bytes), on_device(from, bytes));
}
/// For tests: the number of calls of cuMemcpyAsync so far.
PENSTOCK_EXPORT unsigned standin_copies() {
  return copies;
}
/// Either address is a device pointer, possibly of registered host memory.
PENSTOCK_EXPORT Status cuMemcpyAsync(DevicePointer to, DevicePointer from, std::size_t bytes,
                                     Stream stream) {
  ++copies;
  return copy(stream, bytes, on_device(to, bytes), on_device(from, bytes));
}
PENSTOCK_EXPORT Status cuStreamWriteValue64_v2(Stream stream, DevicePointer at, std::uint64_t value,
                                               unsigned) {
  RETURN_IF_FAILED(usable_on(stream));
  thread_of(stream).enqueue([=] {
    if (sticky_error() != success) return;
    if (std::uint64_t* const word = word_at(at)) __atomic_store_n(word, value, __ATOMIC_RELEASE);
  });
  return success;
}
PENSTOCK_EXPORT Status cuStreamWaitValue64_v2(Stream stream, DevicePointer at, std::uint64_t value,
                                              unsigned flags) {
  RETURN_IF_FAILED(usable_on(stream));
  if (flags != wait_value_geq && flags != wait_value_eq) return not_supported;
  thread_of(stream).enqueue([=] {
    const std::uint64_t* const word = word_at(at);
    while (sticky_error() == success &&
           !is_reached(__atomic_load_n(word, __ATOMIC_ACQUIRE), value, flags))
      sched_yield();
  });
  return success;
}
PENSTOCK_EXPORT Status cuStreamBatchMemOp_v2(Stream stream, unsigned count, BatchOp* ops,
                                             unsigned flags) {
  constexpr unsigned most = 256;
  if (count > most || flags != 0) return invalid_value;
  for (unsigned i = 0; i < count; ++i) {
    const BatchOp& op = ops[i];
    const auto call =
        op.operation == batch_wait_value_64 ? cuStreamWaitValue64_v2 : cuStreamWriteValue64_v2;
    if (op.operation != batch_wait_value_64 && op.operation != batch_write_value_64)
      return not_supported;
    RETURN_IF_FAILED(call(stream, op.at, op.value, op.flags));
  }
  return success;
}
PENSTOCK_EXPORT Status cuLaunchHostFunc(Stream stream, HostFunction function, void* user) {
  RETURN_IF_FAILED(usable());
  thread_of(stream).enqueue([=] { function(user); });
  return success;
}

PENSTOCK_EXPORT Status cuModuleLoadData(Module* module, const void*) {
  RETURN_IF_FAILED(usable());
  RETURN_IF_FAILED(allowed());
  *module = new CUmod_st{current.back()};
  return success;
}
PENSTOCK_EXPORT Status cuModuleUnload(Module module) {
  delete module;
  return success;
}
PENSTOCK_EXPORT Status cuModuleGetFunction(Function* function, Module module, const char* name) {
  RETURN_IF_FAILED(usable());
  const Kernel* const kernel = find_kernel(name);
  if (kernel == nullptr) return not_found;
  *function =
      new CUfunc_st{kernel, module->context};  // lives as long as the process, like the module's
  return success;
}
/// For tests: the number of launches so far of kernels whose names begin with `begin`.
PENSTOCK_EXPORT unsigned standin_launches(const char* begin) {
  return launches_of(begin);
}
/// For tests: the operations of any kind that streams have been given so far.
PENSTOCK_EXPORT unsigned standin_operations() {
  return operations();
}
PENSTOCK_EXPORT Status cuLaunchKernel(Function function, unsigned grid_x, unsigned, unsigned,
                                      unsigned block_x, unsigned, unsigned, unsigned, Stream stream,
                                      void** arguments, void**) {
  RETURN_IF_FAILED(usable_on(stream));
  if (function->context != current.back()) return invalid_handle;
  function->kernel->launches.fetch_add(1, std::memory_order_relaxed);
  // A launch copies the values of its arguments.
  std::vector<std::vector<std::byte>> values;
  for (std::size_t i = 0; i < function->kernel->argument_bytes.size(); ++i) {
    const auto* const begin = static_cast<const std::byte*>(arguments[i]);
    values.emplace_back(begin, begin + function->kernel->argument_bytes[i]);
  }
  thread_of(stream).enqueue([kernel = function->kernel, grid = Grid{grid_x, block_x},
                             device = device_of(current.back()),
                             values = std::move(values)]() mutable {
    if (sticky_error() != success) return;
    const Memory::KernelOn on(device);
    std::vector<void*> pointers;
    for (auto& value : values) pointers.push_back(value.data());
    kernel->run(grid, pointers.data());
  });
  return success;
}

// Memory calls of NCCL's interface. Registration makes nothing faster: a GPU's streams copy between
// any memory and the pool, and pool memory is recognized by its address.
#include <cstdint>
#include <cstdlib>
#include <mutex>
#include <set>

#include "base/env.hpp"
#include "base/format.hpp"
#include "base/log.hpp"
#include "nccl/communicator.hpp"
#include "nccl/export.hpp"
#include "nccl/pool_memory.hpp"

namespace penstock::nccl {

namespace {

/// The handle that ncclCommRegister() and ncclCommWindowRegister() return.
struct Window {
  Comm comm;
  void* data;
};
// An aborted communicator may still end beside the program when its static objects are gone.
std::mutex& windows_mutex = *new std::mutex;
std::set<Window*>& windows = *new std::set<Window*>;  // the registered ones, guarded by it

/// Describes, for the log, how calls use the registered memory.
const char* kind_of(const ncclComm& comm, bool in_pool) {
  if (comm.other != nullptr) return "the other library carries it, and does not know of it";
  if (!in_pool) return "not in the pool: calls copy it through the communicator's chunks";
  return comm.gpu == nullptr
             ? "in the pool: long collectives and messages take it where it lies"
             : "in the pool: collectives copy it, and messages where they have slots";
}

Result register_memory(const char* call, Comm comm, void* data, std::size_t bytes, void** made) {
  return guarded(call, [&] {
    Held held;
    if (const Result checked = hold(call, comm, held); checked != success) return checked;
    if (made == nullptr) return failed(invalid_argument, fmt::format("{}: no place for it", call));
    if (data == nullptr || bytes == 0)
      return failed(invalid_argument, fmt::format("{}: {} bytes at {}", call, bytes, data));
    const bool in_pool = in_pool_memory(data, 1) != nullptr;
    if (in_pool && in_pool_memory(data, bytes) == nullptr)
      return failed(invalid_argument, fmt::format("{}: {} bytes at {} are more than ncclMemAlloc "
                                                  "has given there",
                                                  call, bytes, data));
    base::log(base::Level::info, "{}: {} at {} of {}, {}", call, base::format_bytes(bytes), data,
              comm->name, kind_of(*comm, in_pool));
    const std::lock_guard<std::mutex> guard(windows_mutex);
    *made = *windows.insert(new Window{comm, data}).first;
    return success;
  });
}

/// Returns the window if it belongs to the communicator, else null. The caller holds windows_mutex.
Window* find_window(Comm comm, void* window) {
  const auto there = windows.find(static_cast<Window*>(window));
  return there != windows.end() && (*there)->comm == comm ? *there : nullptr;
}

Result free_window(const char* call, Comm comm, void* window) {
  return guarded(call, [&] {
    Held held;
    if (const Result checked = hold(call, comm, held); checked != success) return checked;
    const std::lock_guard<std::mutex> guard(windows_mutex);
    Window* const there = find_window(comm, window);
    if (there == nullptr)
      return failed(invalid_argument,
                    fmt::format("{}: {} is not registered with this communicator", call, window));
    windows.erase(there);
    delete there;
    return success;
  });
}

const cuda::Driver* driver_here() {
  const auto driver = cuda::driver();
  return driver ? *driver : nullptr;
}

}  // namespace

void forget_windows(Comm comm) {
  const std::lock_guard<std::mutex> guard(windows_mutex);
  for (auto at = windows.begin(); at != windows.end();) {
    if ((*at)->comm == comm) {
      delete *at;
      at = windows.erase(at);
    } else {
      ++at;
    }
  }
}

/// Allocates in the pool with PENSTOCK_NCCL_MEMORY=pool; else on the GPU, or on the host if there
/// is no GPU.
PENSTOCK_NCCL(Result, ncclMemAlloc, (void** made, std::size_t bytes)) {
  return guarded("ncclMemAlloc", [&] {
    if (made == nullptr) return failed(invalid_argument, "ncclMemAlloc: no place for it");
    bool in_pool = false;
    if (const Result read = wants_pool_memory(in_pool); read != success) return read;
    if (in_pool) return allocate_pool_memory(bytes, made);
    const cuda::Driver* const driver = driver_here();
    constexpr std::size_t alignment = 4096;
    if (driver == nullptr) {
      const bool fits = bytes <= PTRDIFF_MAX - alignment;
      *made = fits ? std::aligned_alloc(alignment, (bytes + alignment) / alignment * alignment)
                   : nullptr;
      return *made != nullptr
                 ? success
                 : failed(system_error, fmt::format("ncclMemAlloc: no memory for {} bytes", bytes));
    }
    auto device = gpu::Device::current();
    if (!device) return failed(unhandled_cuda_error, device.error().message);
    const gpu::Device::Scope scope(**device);
    cuda::DevicePointer memory = 0;
    const Result result =
        outcome(driver->check(driver->mem_alloc(&memory, bytes == 0 ? 1 : bytes), "ncclMemAlloc"));
    *made = reinterpret_cast<void*>(memory);
    return result;
  });
}

PENSTOCK_NCCL(Result, ncclMemFree, (void* memory)) {
  return guarded("ncclMemFree", [&] {
    const cuda::Driver* const driver = driver_here();
    if (memory == nullptr || free_pool_memory(memory)) return success;
    if (driver == nullptr) {
      std::free(memory);
      return success;
    }
    auto device = gpu::Device::current();
    if (!device) return failed(unhandled_cuda_error, device.error().message);
    const gpu::Device::Scope scope(**device);
    return outcome(driver->check(driver->mem_free(reinterpret_cast<cuda::DevicePointer>(memory)),
                                 "ncclMemFree"));
  });
}

PENSTOCK_NCCL(Result, ncclCommRegister, (Comm comm, void* data, std::size_t bytes, void** made)) {
  return register_memory("ncclCommRegister", comm, data, bytes, made);
}
PENSTOCK_NCCL(Result, ncclCommDeregister, (Comm comm, void* handle)) {
  return free_window("ncclCommDeregister", comm, handle);
}
PENSTOCK_NCCL(Result, ncclCommWindowRegister,
              (Comm comm, void* data, std::size_t bytes, void** made, int)) {
  return register_memory("ncclCommWindowRegister", comm, data, bytes, made);
}
PENSTOCK_NCCL(Result, ncclCommWindowDeregister, (Comm comm, void* window)) {
  return free_window("ncclCommWindowDeregister", comm, window);
}
PENSTOCK_NCCL(Result, ncclWinGetUserPtr, (Comm comm, void* window, void** data)) {
  return guarded("ncclWinGetUserPtr", [&] {
    Held held;
    if (const Result checked = hold("ncclWinGetUserPtr", comm, held); checked != success)
      return checked;
    const std::lock_guard<std::mutex> guard(windows_mutex);
    if (find_window(comm, window) == nullptr || data == nullptr)
      return failed(invalid_argument, "ncclWinGetUserPtr: no window, or no place for it");
    *data = static_cast<Window*>(window)->data;
    return success;
  });
}

}  // namespace penstock::nccl

// Memory of NCCL's interface. Nothing has to be registered: a GPU's own streams copy to and from
// the pool, so registration gives a handle and nothing else.
#include <cstdlib>
#include <mutex>
#include <set>

#include "base/format.hpp"
#include "nccl/communicator.hpp"
#include "nccl/export.hpp"

namespace penstock::nccl {

namespace {

/// What ncclCommRegister() and ncclCommWindowRegister() give out.
struct Window {
  void* data;
};
std::mutex windows_mutex;
std::set<Window*> windows;  // that are registered

Result register_memory(const char* call, Comm comm, void* data, void** made) {
  return guarded(call, [&] {
    if (const Result checked = check_comm(call, comm); checked != success) return checked;
    if (made == nullptr) return failed(invalid_argument, fmt::format("{}: no place for it", call));
    const std::lock_guard<std::mutex> guard(windows_mutex);
    *made = *windows.insert(new Window{data}).first;
    return success;
  });
}

Result free_window(const char* call, Comm comm, void* window) {
  return guarded(call, [&] {
    if (const Result checked = check_comm(call, comm); checked != success) return checked;
    const std::lock_guard<std::mutex> guard(windows_mutex);
    if (windows.erase(static_cast<Window*>(window)) == 0)
      return failed(invalid_argument, fmt::format("{}: {} is not registered", call, window));
    delete static_cast<Window*>(window);
    return success;
  });
}

const cuda::Driver* driver_here() {
  const auto driver = cuda::driver();
  return driver ? *driver : nullptr;
}

}  // namespace

/// Memory of the GPU; of the host, where there is none.
PENSTOCK_NCCL(Result, ncclMemAlloc, (void** made, std::size_t bytes)) {
  return guarded("ncclMemAlloc", [&] {
    if (made == nullptr) return failed(invalid_argument, "ncclMemAlloc: no place for it");
    const cuda::Driver* const driver = driver_here();
    constexpr std::size_t alignment = 4096;
    if (driver == nullptr) {
      *made = std::aligned_alloc(alignment, (bytes + alignment) / alignment * alignment);
      return *made != nullptr ? success : failed(system_error, "ncclMemAlloc: no memory");
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
    if (memory == nullptr) return success;
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

PENSTOCK_NCCL(Result, ncclCommRegister, (Comm comm, void* data, std::size_t, void** made)) {
  return register_memory("ncclCommRegister", comm, data, made);
}
PENSTOCK_NCCL(Result, ncclCommDeregister, (Comm comm, void* handle)) {
  return free_window("ncclCommDeregister", comm, handle);
}
PENSTOCK_NCCL(Result, ncclCommWindowRegister,
              (Comm comm, void* data, std::size_t, void** made, int)) {
  return register_memory("ncclCommWindowRegister", comm, data, made);
}
PENSTOCK_NCCL(Result, ncclCommWindowDeregister, (Comm comm, void* window)) {
  return free_window("ncclCommWindowDeregister", comm, window);
}
PENSTOCK_NCCL(Result, ncclWinGetUserPtr, (Comm comm, void* window, void** data)) {
  return guarded("ncclWinGetUserPtr", [&] {
    if (const Result checked = check_comm("ncclWinGetUserPtr", comm); checked != success)
      return checked;
    const std::lock_guard<std::mutex> guard(windows_mutex);
    if (windows.count(static_cast<Window*>(window)) == 0 || data == nullptr)
      return failed(invalid_argument, "ncclWinGetUserPtr: no window, or no place for it");
    *data = static_cast<Window*>(window)->data;
    return success;
  });
}

}  // namespace penstock::nccl

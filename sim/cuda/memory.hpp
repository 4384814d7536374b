// Memory of the stand-in GPU, separate from the host's: a device pointer names a reserved range
// that the host cannot access, so that a forgotten copy ends in a fault. The stand-in's own threads
// access the bytes through another mapping. Registered host memory also has a device pointer that
// differs from the host's address: a kernel that gets the latter fails, and so does one that gets
// memory of another device. Copies go between devices, too.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <mutex>

#include "gpu/driver_types.hpp"

namespace penstock::sim::cuda {

using namespace penstock::cuda;

class Memory {
 public:
  static Memory& instance();

  Status allocate(DevicePointer* pointer, std::size_t bytes, int device);
  Status release(DevicePointer pointer);
  Status register_host(void* at, std::size_t bytes);
  Status unregister_host(void* at);
  /// `at`: an address inside registered memory.
  Status device_pointer_of(DevicePointer* pointer, const void* at) const;

  /// Returns where the stand-in's threads find the bytes of a device pointer; null unless all of
  /// them belong to one allocation or registration.
  std::byte* reach(DevicePointer pointer, std::size_t bytes) const;
  /// The device whose memory it is; -1: none's.
  int device_of(DevicePointer pointer) const;
  /// While it exists, this thread runs a kernel of the device.
  class KernelOn {
   public:
    explicit KernelOn(int device);
    ~KernelOn();
    KernelOn(const KernelOn&) = delete;
    KernelOn& operator=(const KernelOn&) = delete;
  };
  /// memory_device, memory_host (registered), or 0 if unknown here.
  unsigned kind_of(DevicePointer pointer) const;

 private:
  struct Range {
    std::size_t bytes = 0;
    std::byte* reached = nullptr;
    bool is_host = false;
    int device = -1;
  };
  const std::pair<const DevicePointer, Range>* find(DevicePointer pointer) const;
  static DevicePointer reserve(std::size_t bytes);

  mutable std::mutex mutex_;
  std::map<DevicePointer, Range> ranges_;          ///< by their start
  std::map<std::uintptr_t, DevicePointer> hosts_;  ///< registered memory, by its start
};

}  // namespace penstock::sim::cuda

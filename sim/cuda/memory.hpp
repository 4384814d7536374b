// Memory of the stand-in GPU, apart from the host's: a device pointer names a reserved range that
// the host cannot touch, so that a forgotten copy ends in a fault. The stand-in's own threads reach
// the bytes by another mapping. Registered host memory has a device pointer of its own too, which
// is not the host's address: a kernel that gets the latter fails.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <mutex>

#include "cuda/driver_types.hpp"

namespace penstock::sim::cuda {

using namespace penstock::cuda;

class Memory {
 public:
  static Memory& instance();

  Status allocate(DevicePointer* pointer, std::size_t bytes);
  Status release(DevicePointer pointer);
  Status register_host(void* at, std::size_t bytes);
  Status unregister_host(void* at);
  /// Of an address inside registered memory.
  Status device_pointer_of(DevicePointer* pointer, const void* at) const;

  /// Where the stand-in's threads find the bytes that a device pointer names; null where they are
  /// not all of one allocation or registration.
  std::byte* reach(DevicePointer pointer, std::size_t bytes) const;
  /// memory_device, memory_host (registered), or 0: not known here.
  unsigned kind_of(DevicePointer pointer) const;

 private:
  struct Range {
    std::size_t bytes = 0;
    std::byte* reached = nullptr;
    bool is_host = false;
  };
  const std::pair<const DevicePointer, Range>* find(DevicePointer pointer) const;
  static DevicePointer reserve(std::size_t bytes);

  mutable std::mutex mutex_;
  std::map<DevicePointer, Range> ranges_;          ///< by their begin
  std::map<std::uintptr_t, DevicePointer> hosts_;  ///< registered memory, by its begin
};

}  // namespace penstock::sim::cuda

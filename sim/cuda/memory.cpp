#include "sim/cuda/memory.hpp"

#include <sys/mman.h>

namespace penstock::sim::cuda {

namespace {

constexpr std::size_t page = 4096;
thread_local int kernel_device = -1;  ///< of the kernel that this thread runs; -1: it runs none

std::size_t whole_pages(std::size_t bytes) {
  return (bytes + page - 1) / page * page;
}

}  // namespace

Memory& Memory::instance() {
  static Memory memory;
  return memory;
}

DevicePointer Memory::reserve(std::size_t bytes) {
  void* const at = mmap(nullptr, whole_pages(bytes), PROT_NONE,
                        MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  return at == MAP_FAILED ? 0 : reinterpret_cast<DevicePointer>(at);
}

Memory::KernelOn::KernelOn(int device) {
  kernel_device = device;
}
Memory::KernelOn::~KernelOn() {
  kernel_device = -1;
}

Status Memory::allocate(DevicePointer* pointer, std::size_t bytes, int device) {
  if (pointer == nullptr || bytes == 0) return invalid_value;
  const DevicePointer begin = reserve(bytes);
  if (begin == 0) return out_of_memory;
  void* const reached =
      mmap(nullptr, whole_pages(bytes), PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (reached == MAP_FAILED) {
    munmap(reinterpret_cast<void*>(begin), whole_pages(bytes));
    return out_of_memory;
  }
  const std::lock_guard<std::mutex> guard(mutex_);
  ranges_[begin] = {bytes, static_cast<std::byte*>(reached), false, device};
  *pointer = begin;
  return success;
}

Status Memory::release(DevicePointer pointer) {
  const std::lock_guard<std::mutex> guard(mutex_);
  const auto found = ranges_.find(pointer);
  if (found == ranges_.end() || found->second.is_host) return invalid_value;
  munmap(reinterpret_cast<void*>(pointer), whole_pages(found->second.bytes));
  munmap(found->second.reached, whole_pages(found->second.bytes));
  ranges_.erase(found);
  return success;
}

Status Memory::register_host(void* at, std::size_t bytes) {
  if (at == nullptr || bytes == 0) return invalid_value;
  const auto begin = reinterpret_cast<std::uintptr_t>(at);
  const std::lock_guard<std::mutex> guard(mutex_);
  for (const auto& [other, pointer] : hosts_)
    if (begin < other + ranges_[pointer].bytes && other < begin + bytes) return already_registered;
  const DevicePointer pointer = reserve(bytes + page);
  if (pointer == 0) return out_of_memory;
  ranges_[pointer] = {bytes, static_cast<std::byte*>(at), true};
  hosts_[begin] = pointer;
  return success;
}

Status Memory::unregister_host(void* at) {
  const std::lock_guard<std::mutex> guard(mutex_);
  const auto found = hosts_.find(reinterpret_cast<std::uintptr_t>(at));
  if (found == hosts_.end()) return not_registered;
  const auto range = ranges_.find(found->second);
  munmap(reinterpret_cast<void*>(range->first), whole_pages(range->second.bytes + page));
  ranges_.erase(range);
  hosts_.erase(found);
  return success;
}

Status Memory::device_pointer_of(DevicePointer* pointer, const void* at) const {
  const auto address = reinterpret_cast<std::uintptr_t>(at);
  const std::lock_guard<std::mutex> guard(mutex_);
  auto next = hosts_.upper_bound(address);
  if (pointer == nullptr || next == hosts_.begin()) return invalid_value;
  const auto& [begin, device] = *--next;
  if (address - begin >= ranges_.at(device).bytes) return invalid_value;
  *pointer = device + (address - begin);
  return success;
}

const std::pair<const DevicePointer, Memory::Range>* Memory::find(DevicePointer pointer) const {
  auto next = ranges_.upper_bound(pointer);
  if (next == ranges_.begin()) return nullptr;
  --next;
  return pointer - next->first < next->second.bytes ? &*next : nullptr;
}

std::byte* Memory::reach(DevicePointer pointer, std::size_t bytes) const {
  const std::lock_guard<std::mutex> guard(mutex_);
  const auto* const found = find(pointer);
  if (found == nullptr || bytes > found->second.bytes - (pointer - found->first)) return nullptr;
  const bool is_others = !found->second.is_host && found->second.device != kernel_device;
  if (is_others && kernel_device >= 0) return nullptr;
  return found->second.reached + (pointer - found->first);
}

int Memory::device_of(DevicePointer pointer) const {
  const std::lock_guard<std::mutex> guard(mutex_);
  const auto* const found = find(pointer);
  return found != nullptr ? found->second.device : -1;
}

unsigned Memory::kind_of(DevicePointer pointer) const {
  {
    const std::lock_guard<std::mutex> guard(mutex_);
    if (const auto* const found = find(pointer))
      return found->second.is_host ? memory_host : memory_device;
  }
  DevicePointer unused = 0;
  const bool registered =
      device_pointer_of(&unused, reinterpret_cast<const void*>(pointer)) == success;
  return registered ? memory_host : 0;
}

}  // namespace penstock::sim::cuda

#include "nccl/pool_memory.hpp"

#include <unistd.h>

#include <atomic>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <shared_mutex>
#include <string>
#include <utility>

#include "base/checked.hpp"
#include "base/env.hpp"
#include "base/format.hpp"
#include "gpu/pinned.hpp"
#include "nccl/attached.hpp"
#include "nccl/outcome.hpp"

namespace penstock::nccl {

namespace {

struct Allocation {
  std::shared_ptr<Attached> attached;
  penstock_object_t* object = nullptr;
  std::byte* host = nullptr;
  std::uint64_t bytes = 0;
  std::optional<gpu::Pinned> pinned;

  Allocation() = default;
  Allocation(const Allocation&) = delete;
  Allocation& operator=(const Allocation&) = delete;
  ~Allocation() {
    pinned.reset();  // before the memory can be allocated again
    if (object != nullptr) (void)penstock_arena_destroy(object);
  }
};

struct All {
  std::shared_mutex mutex;
  std::map<std::uintptr_t, std::unique_ptr<Allocation>>
      by_begin;  ///< keyed by the caller's address
  std::atomic<std::size_t> count{0};
};
All& all() {
  static auto& there = *new All;  // never destroyed: exit handlers may still free memory
  return there;
}

/// Returns the allocation that contains `at`, and the offset in it; null if none does. The caller
/// holds the mutex.
const Allocation* find(std::uintptr_t at, std::uint64_t& offset) {
  auto next = all().by_begin.upper_bound(at);
  if (next == all().by_begin.begin()) return nullptr;
  --next;
  offset = at - next->first;
  return offset < next->second->bytes ? next->second.get() : nullptr;
}

Result make_object(Allocation& made) {
  static std::atomic<std::uint64_t> number{0};
  penstock_pool_info_t info{};
  (void)penstock_pool_info(made.attached->pool(), &info);
  penstock_object_options_t options{};
  options.struct_bytes = sizeof options;
  options.lifetime = PENSTOCK_LIFETIME_PROCESS;
  options.alignment = static_cast<std::uint64_t>(sysconf(_SC_PAGESIZE));  // shares no page
  options.skip_zeroing = 1;
  const std::string name = fmt::format("penstock.nccl.memory.{:x}.{}", info.token, ++number);
  const auto created = penstock_arena_create(made.attached->pool(), name.c_str(), made.bytes,
                                             &options, &made.object);
  if (created != PENSTOCK_OK) return outcome(created, "ncclMemAlloc");
  made.host = static_cast<std::byte*>(penstock_object_data(made.object));
  return success;
}

}  // namespace

Result wants_pool_memory(bool& wanted) {
  const std::string value = base::env_text("PENSTOCK_NCCL_MEMORY");
  wanted = value == "pool";
  if (wanted || value.empty() || value == "device") return success;
  return failed(invalid_usage, fmt::format("ncclMemAlloc: PENSTOCK_NCCL_MEMORY is '{}': set it to "
                                           "device or pool",
                                           value));
}

Result allocate_pool_memory(std::size_t bytes, void** memory) {
  auto made = std::make_unique<Allocation>();
  const auto page = static_cast<std::uint64_t>(sysconf(_SC_PAGESIZE));
  if (bytes > gpu::max_piece_bytes)  // a copy does not straddle two registrations
    return failed(invalid_argument, fmt::format("ncclMemAlloc: {} bytes of the pool at once; {} at "
                                                "most",
                                                bytes, gpu::max_piece_bytes));
  made->bytes = base::align_up(bytes == 0 ? 1 : bytes, page);
  if (const Result attached = Attached::of_process(made->attached); attached != success)
    return attached;
  if (const Result object = make_object(*made); object != success) return object;
  auto name = reinterpret_cast<std::uintptr_t>(made->host);
  if (cuda::driver()) {
    auto device = gpu::Device::current();
    if (!device) return failed(unhandled_cuda_error, device.error().message);
    auto pinned = gpu::Pinned::make(*device, made->host, made->bytes);
    if (!pinned) return failed(unhandled_cuda_error, "ncclMemAlloc: " + pinned.error().message);
    name = pinned->at(made->host);
    made->pinned = std::move(*pinned);
  }
  const std::unique_lock<std::shared_mutex> guard(all().mutex);
  all().by_begin[name] = std::move(made);
  ++all().count;
  *memory = reinterpret_cast<void*>(name);
  return success;
}

bool free_pool_memory(void* memory) {
  if (all().count == 0) return false;
  std::unique_ptr<Allocation> freed;  // freed outside the lock: the driver waits for its users
  const std::unique_lock<std::shared_mutex> guard(all().mutex);
  const auto there = all().by_begin.find(reinterpret_cast<std::uintptr_t>(memory));
  if (there == all().by_begin.end()) return false;
  freed = std::move(there->second);
  all().by_begin.erase(there);
  --all().count;
  return true;
}

std::byte* in_pool_memory(const void* at, std::uint64_t bytes) {
  if (all().count == 0) return nullptr;
  const std::shared_lock<std::shared_mutex> guard(all().mutex);
  std::uint64_t offset = 0;
  const Allocation* const found = find(reinterpret_cast<std::uintptr_t>(at), offset);
  return found != nullptr && bytes <= found->bytes - offset ? found->host + offset : nullptr;
}

}  // namespace penstock::nccl

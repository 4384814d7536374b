#include "device.hpp"

#include <ATen/ATen.h>
#include <ATen/detail/CUDAHooksInterface.h>
#include <c10/core/impl/DeviceGuardImplInterface.h>

#include <cstdio>
#include <cstdlib>
#include <map>
#include <mutex>
#include <utility>

namespace penstock::standin {

namespace {

cuda::Context context() {
  static const cuda::Context primary = [] {
    cuda::Context retained = nullptr;
    require(driver().primary_retain(&retained, 0), "the primary context");
    return retained;
  }();
  return primary;
}

void use_context() {
  cuda::Context now = nullptr;
  require(driver().context_current(&now), "the thread's context");
  if (now == nullptr) require(driver().context_push(context()), "the primary context");
}

c10::Stream& current() {
  thread_local c10::Stream stream(c10::Stream::DEFAULT, device());
  return stream;
}

/// Streams that use memory beside those that its tensors know of, by the memory's address.
struct Uses {
  std::mutex mutex;
  std::multimap<cuda::DevicePointer, c10::Stream> streams;
};

Uses& uses() {
  static auto* const all = new Uses;
  return *all;
}

cuda::Event native(void* event) {
  return static_cast<cuda::Event>(event);
}

/// Streams are created one by one, as from a pool without an end, and live as long as the process.
class Guard final : public c10::impl::DeviceGuardImplInterface {
 public:
  c10::DeviceType type() const override { return c10::DeviceType::CUDA; }
  c10::Device exchangeDevice(c10::Device) const override { return device(); }
  c10::Device getDevice() const override { return device(); }
  void setDevice(c10::Device) const override { use_context(); }
  void uncheckedSetDevice(c10::Device) const noexcept override { use_context(); }
  c10::DeviceIndex deviceCount() const noexcept override { return 1; }

  c10::Stream getStream(c10::Device) const override { return current(); }
  c10::Stream getDefaultStream(c10::Device) const override {
    return c10::Stream(c10::Stream::DEFAULT, device());
  }
  c10::Stream getStreamFromGlobalPool(c10::Device, bool) const override { return new_stream(); }
  c10::Stream exchangeStream(c10::Stream stream) const override {
    return std::exchange(current(), stream);
  }
  void* getStreamNativeHandle(const c10::Stream stream) const override {
    return standin::native(stream);
  }
  bool queryStream(const c10::Stream& stream) const override {
    use_context();
    return driver().stream_query(standin::native(stream)) == cuda::success;
  }
  void synchronizeStream(const c10::Stream& stream) const override {
    use_context();
    require(driver().stream_synchronize(standin::native(stream)), "a stream");
  }

  void recordDataPtrOnStream(const c10::DataPtr& data, const c10::Stream& stream) const override {
    const std::lock_guard<std::mutex> guard(uses().mutex);
    uses().streams.emplace(reinterpret_cast<cuda::DevicePointer>(data.get()), stream);
  }
  void record(void** event, const c10::Stream& stream, c10::DeviceIndex,
              c10::EventFlag) const override {
    use_context();
    auto recorded = native(*event);
    if (recorded == nullptr)
      require(driver().event_create(&recorded, cuda::event_disable_timing), "an event");
    require(driver().event_record(recorded, standin::native(stream)), "an event");
    *event = recorded;
  }
  void block(void* event, const c10::Stream& stream) const override {
    use_context();
    if (event == nullptr) return;
    require(driver().stream_wait_event(standin::native(stream), native(event), 0), "an event");
  }
  bool queryEvent(void* event) const override {
    use_context();
    return event == nullptr || driver().event_query(native(event)) == cuda::success;
  }
  void destroyEvent(void* event, c10::DeviceIndex) const noexcept override {
    use_context();
    if (event != nullptr) (void)driver().event_destroy(native(event));
  }
};

class Hooks final : public at::CUDAHooksInterface {
 public:
  explicit Hooks(at::CUDAHooksArgs) {}
  void init() const override {}
  bool hasCUDA() const override { return true; }
  bool hasPrimaryContext(c10::DeviceIndex) const override { return true; }
};

}  // namespace

void require(cuda::Status status, const char* what) {
  if (status == cuda::success) return;
  std::fprintf(stderr, "the stand-in GPU: %s: %s\n", what, driver().words(status).c_str());
  std::abort();
}

const cuda::Driver& driver() {
  static const cuda::Driver* const loaded = [] {
    const auto found = cuda::driver();
    if (found) return *found;
    std::fprintf(stderr, "%s\n", found.error().message.c_str());
    std::abort();
  }();
  return *loaded;
}

c10::Device device() {
  use_context();
  return {c10::DeviceType::CUDA, 0};
}

c10::Stream new_stream() {
  use_context();
  cuda::Stream made = nullptr;
  require(driver().stream_create(&made, cuda::stream_non_blocking), "a stream");
  return c10::Stream(c10::Stream::UNSAFE, device(), reinterpret_cast<c10::StreamId>(made));
}

cuda::Stream native(const c10::Stream& stream) {
  return reinterpret_cast<cuda::Stream>(stream.id());
}

Numbers::Numbers(std::int64_t count) : count_(count) {
  use_context();
  require(driver().mem_alloc(&at_, static_cast<std::size_t>(count) * sizeof(at::BFloat16)),
          "memory");
}

/// As PyTorch's allocator: memory is used again when the streams that use it have come so far.
Numbers::~Numbers() {
  std::vector<c10::Stream> used_by;
  {
    const std::lock_guard<std::mutex> guard(uses().mutex);
    auto& streams = uses().streams;
    const auto first = streams.lower_bound(at_), last = streams.lower_bound(at(count_));
    for (auto use = first; use != last; ++use) used_by.push_back(use->second);
    streams.erase(first, last);
  }
  use_context();
  for (const c10::Stream& stream : used_by)
    require(driver().stream_synchronize(native(stream)), "a stream");
  require(driver().mem_free(at_), "memory");
}

void Numbers::put(std::int64_t first, const std::vector<at::BFloat16>& from,
                  const c10::Stream& stream) {
  use_context();
  require(driver().copy_to_device(at(first), from.data(), from.size() * sizeof(at::BFloat16),
                                  native(stream)),
          "a copy");
  require(driver().stream_synchronize(native(stream)), "a stream");
}

std::vector<at::BFloat16> Numbers::get(const c10::Stream& stream) const {
  use_context();
  std::vector<at::BFloat16> to(static_cast<std::size_t>(count_));
  require(driver().copy_to_host(to.data(), at_, to.size() * sizeof(at::BFloat16), native(stream)),
          "a copy");
  require(driver().stream_synchronize(native(stream)), "a stream");
  return to;
}

at::Tensor Numbers::tensor(const std::shared_ptr<Numbers>& numbers, std::int64_t first,
                           std::int64_t count) {
  return at::for_blob(reinterpret_cast<void*>(numbers->at(first)), {count})
      .deleter([numbers](void*) {})
      .options(at::TensorOptions().dtype(at::kBFloat16).device(device()))
      .target_device(device())
      .make_tensor();
}

}  // namespace penstock::standin

// Both register by names that these macros expect to find unqualified.
using PenstockGuard = penstock::standin::Guard;
C10_REGISTER_GUARD_IMPL(CUDA, PenstockGuard)
namespace at {
using PenstockHooks = penstock::standin::Hooks;
C10_REGISTER_CLASS(CUDAHooksRegistry, CUDAHooks, PenstockHooks)
}  // namespace at

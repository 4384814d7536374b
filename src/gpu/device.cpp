#include "gpu/device.hpp"

#include <map>
#include <mutex>
#include <vector>

#include "base/checksum.hpp"
#include "base/format.hpp"
#include "base/log.hpp"
#include "base/numa.hpp"
#include "gpu/kernels.hpp"

namespace penstock::gpu {

namespace {

std::mutex mutex;
std::map<cuda::Context, std::weak_ptr<const Device>> open_devices;

/// Of the stream, or of this thread for a default stream; null: this thread has none.
Result<cuda::Context> context_of(const cuda::Driver& driver, cuda::Stream stream) {
  cuda::Context context = nullptr;
  if (cuda::is_default(stream))
    PENSTOCK_TRY(driver.check(driver.context_current(&context), "the thread's context"));
  else
    PENSTOCK_TRY(driver.check(driver.stream_context(stream, &context), "the stream's context"));
  return context;
}

Result<cuda::Device> device_of(const cuda::Driver& driver, cuda::Context context) {
  cuda::Device number = 0;
  PENSTOCK_TRY(driver.check(driver.context_push(context), "a context"));
  const auto asked = driver.check(driver.context_device(&number), "the context's device");
  (void)driver.context_pop(&context);
  PENSTOCK_TRY(asked);
  return number;
}

}  // namespace

Result<std::shared_ptr<const Device>> Device::current() {
  return of(nullptr);
}

Result<std::shared_ptr<const Device>> Device::of(cuda::Stream stream) {
  const cuda::Driver& driver = *PENSTOCK_TRY(cuda::driver());
  return of_context(driver, PENSTOCK_TRY(context_of(driver, stream)));
}

/// `context`: null for the first GPU's.
Result<std::shared_ptr<const Device>> Device::of_context(const cuda::Driver& driver,
                                                         cuda::Context context) {
  const BesideCaptures beside(driver);
  std::shared_ptr<Device> device(new Device(driver));
  PENSTOCK_TRY(device->open(context));
  const std::lock_guard<std::mutex> guard(mutex);
  if (auto there = open_devices[device->context_].lock()) return there;
  {
    const Scope scope(*device);
    device->load_kernels();
  }
  open_devices[device->context_] = device;
  return device;
}

/// Holds the primary context too, even if `context` is another one of its device.
Result<void> Device::open(cuda::Context context) {
  if (context != nullptr)
    number_ = PENSTOCK_TRY(device_of(driver_, context));
  else
    PENSTOCK_TRY(driver_.check(driver_.device_get(&number_, 0), "the first device"));
  PENSTOCK_TRY(driver_.check(driver_.primary_retain(&context_, number_), "its primary context"));
  if (context != nullptr) context_ = context;
  (void)driver_.device_attribute(&stream_words_, cuda::attribute_64_bit_stream_mem_ops, number_);
  std::array<std::byte, 16> uuid{};  // a GPU without one counts as shared
  (void)driver_.device_uuid(uuid.data(), number_);
  id_ = base::xxh64(uuid.data(), uuid.size(), 0) | 1;
  std::array<char, 32> address{};
  const auto found = driver_.device_pci_address(address.data(), address.size() - 1, number_);
  if (found == cuda::success) numa_node_ = base::numa_node_of_pci(address.data());
  return {};
}

Result<void> Device::need_stream_words() const {
  if (has_stream_words()) return {};
  return fail(ErrorCode::unavailable,
              "GPU {} has no 64-bit stream memory operations (attribute {}): a data-centre GPU "
              "since Volta, with a driver for CUDA 12 or newer, is needed",
              number_, cuda::attribute_64_bit_stream_mem_ops);
}

Result<void> Device::need_own(cuda::Stream stream, const char* call) const {
  cuda::Context context = PENSTOCK_TRY(context_of(driver_, stream));
  if (context == context_ || context == nullptr) return {};
  const cuda::Device found = PENSTOCK_TRY(device_of(driver_, context));
  if (found == number_) return {};
  return fail(
      ErrorCode::invalid_argument,
      "{}: the stream belongs to GPU {}, and the communicator to GPU {}, whose streams alone "
      "can carry its calls",
      call, found, number_);
}

void Device::load_kernels() {
  kernels_ = driver_.check(driver_.module_load(&module_, kernels_image()), "its kernels");
  if (!kernels_) return;
  const auto find = [this](cuda::Function& kernel, const std::string& name) {
    if (kernels_)
      kernels_ =
          driver_.check(driver_.module_function(&kernel, module_, name.c_str()), name.c_str());
  };
  for (std::uint32_t i = 0; i < coll::datatype_count; ++i) {
    const std::string type = coll::name_of(static_cast<coll::Datatype>(i));
    find(combine_[i], "penstock_combine_" + type);
    find(fused_[i], "penstock_fused_" + type);
    find(flagged_[i], "penstock_flagged_" + type);
  }
  find(words_, "penstock_words");
  find(chunks_, "penstock_chunks");
}

Result<void> Device::launch(cuda::Function kernel, unsigned blocks, unsigned threads,
                            void* argument, cuda::Stream stream, const char* what) const {
  launches_.fetch_add(1, std::memory_order_relaxed);
  unsigned most = max_blocks_.load(std::memory_order_relaxed);
  while (blocks > most && !max_blocks_.compare_exchange_weak(most, blocks)) continue;
  void* arguments[] = {argument};
  return driver_.check(
      driver_.launch(kernel, blocks, 1, 1, threads, 1, 1, 0, stream, arguments, nullptr), what);
}

Result<cuda::DevicePointer> Device::zeroed_memory(std::size_t bytes, const char* what) const {
  const Scope scope(*this);
  const std::vector<std::byte> zeros(bytes);
  cuda::DevicePointer memory = 0;
  cuda::Stream stream = nullptr;
  PENSTOCK_TRY(driver_.check(driver_.mem_alloc(&memory, bytes), what));
  auto cleared = driver_.check(driver_.stream_create(&stream, cuda::stream_non_blocking), what);
  if (cleared) {
    (void)driver_.copy_to_device(memory, zeros.data(), bytes, stream);
    cleared = driver_.check(driver_.stream_synchronize(stream), what);
    (void)driver_.stream_destroy(stream);
  }
  if (cleared) return memory;
  (void)driver_.mem_free(memory);
  return unexpected(cleared.error());
}

Device::~Device() {
  if (context_ == nullptr) return;
  if (launches_ != 0)
    base::log(base::Level::info, "collectives of a GPU: {} launches, of {} blocks at most",
              launches_.load(), max_blocks_.load());
  if (module_ != nullptr) {
    const Scope scope(*this);
    (void)driver_.module_unload(module_);
  }
  (void)driver_.primary_release(number_);
}

Result<cuda::Function> Device::combine_kernel(coll::Datatype type) const {
  PENSTOCK_TRY(need_kernels("reductions on a GPU"));
  return combine_[static_cast<std::size_t>(type)];
}

Result<cuda::Function> Device::words_kernel() const {
  PENSTOCK_TRY(need_kernels("collectives in a graph"));
  return words_;
}

Result<cuda::Function> Device::fused_kernel(coll::Datatype type) const {
  PENSTOCK_TRY(need_kernels("collectives by one launch"));
  return fused_[static_cast<std::size_t>(type)];
}

Result<cuda::Function> Device::flagged_kernel(coll::Datatype type) const {
  PENSTOCK_TRY(need_kernels("collectives by one launch"));
  return flagged_[static_cast<std::size_t>(type)];
}

Result<cuda::Function> Device::chunks_kernel() const {
  PENSTOCK_TRY(need_kernels("messages of many chunks by one launch"));
  return chunks_;
}

Result<void> Device::need_kernels(const char* what) const {
  if (kernels_) return {};
  if (!has_kernels())
    return fail(ErrorCode::unavailable,
                "{} need kernels, and this build has none: build it where nvcc is found "
                "(CUDACXX=/usr/local/cuda/bin/nvcc)",
                what);
  return unexpected(kernels_.error());
}

Result<bool> is_capturing(const cuda::Driver& driver, cuda::Stream stream) {
  int status = cuda::capture_none;
  PENSTOCK_TRY(driver.check(driver.stream_is_capturing(stream, &status), "the stream"));
  return status != cuda::capture_none;
}

Result<void> go_after(const cuda::Driver& driver, cuda::Event event, cuda::Stream first,
                      cuda::Stream then, const char* what) {
  PENSTOCK_TRY(driver.check(driver.event_record(event, first), what));
  return driver.check(driver.stream_wait_event(then, event, 0), what);
}

}  // namespace penstock::gpu

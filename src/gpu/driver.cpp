#include "gpu/driver.hpp"

#include <dlfcn.h>

#include "base/format.hpp"
#include "base/found.hpp"

namespace penstock::cuda {

namespace {

Result<Driver> load(const char* library) {
  void* const handle = dlopen(library, RTLD_NOW | RTLD_LOCAL);
  if (handle == nullptr)
    return fail(ErrorCode::not_found, "NVIDIA's driver cannot be loaded: {}", dlerror());
  Driver driver;
#define PENSTOCK_CUDA(name, symbol, arguments)                                               \
  driver.name = reinterpret_cast<Status(*) arguments>(dlsym(handle, #symbol));               \
  if (driver.name == nullptr)                                                                \
    return fail(ErrorCode::not_found,                                                        \
                "NVIDIA's driver ({}) has no function {}: a driver for CUDA 12 or newer is " \
                "needed",                                                                    \
                library, #symbol);
#include "gpu/driver_table.inc"
#undef PENSTOCK_CUDA
  if (const Status status = driver.init(0); status != success)
    return fail(ErrorCode::unavailable, "NVIDIA's driver ({}) does not start: {}", library,
                driver.words(status));
  return driver;
}

}  // namespace

std::string Driver::words(Status status) const {
  const char *name = nullptr, *text = nullptr;
  if (error_name(status, &name) != success || name == nullptr) name = "no name";
  if (error_string(status, &text) != success || text == nullptr) text = "unknown error";
  return fmt::format("{} ({}, {})", text, status, name);
}

Result<void> Driver::check(Status status, const char* what) const {
  if (status == success) return {};
  const ErrorCode code = status == out_of_memory ? ErrorCode::no_space : ErrorCode::unavailable;
  return fail(code, "the GPU: {}: {}", what, words(status));
}

Result<const Driver*> driver(const char* library) {
  static constinit base::Found<Result<Driver>> found;
  const auto& loaded =
      found.get([&] { return load(library != nullptr ? library : "libcuda.so.1"); });
  if (!loaded) return unexpected(loaded.error());
  return &*loaded;
}

}  // namespace penstock::cuda

// NVIDIA's driver, loaded when it is first asked for: no product needs it to start. Every function
// of driver_table.inc, and errors in words.
#pragma once

#include <string>

#include "base/status.hpp"
#include "gpu/driver_types.hpp"

namespace penstock::cuda {

struct Driver {
#define PENSTOCK_CUDA(name, symbol, arguments) Status(*name) arguments = nullptr;
#include "gpu/driver_table.inc"
#undef PENSTOCK_CUDA

  /// "illegal memory access (700, CUDA_ERROR_ILLEGAL_ADDRESS)".
  std::string words(Status status) const;
  /// An error that says what was tried.
  Result<void> check(Status status, const char* what) const;
};

/// The driver of this host, with cuInit done; loaded once. `library`: another one than
/// libcuda.so.1, for tests; only the first call counts. Errors: not_found, where there is none, or
/// it lacks a function; unavailable, where it finds no device.
///
///     const cuda::Driver& driver = *PENSTOCK_TRY(cuda::driver());
///     cuda::Stream stream = nullptr;
///     PENSTOCK_TRY(driver.check(driver.stream_create(&stream, cuda::stream_non_blocking), "a
///     stream"));
Result<const Driver*> driver(const char* library = nullptr);

}  // namespace penstock::cuda

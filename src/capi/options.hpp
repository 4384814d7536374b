// Option structs of the C interface.
#pragma once

#include <algorithm>
#include <cstddef>

#include "base/format.hpp"
#include "base/status.hpp"

namespace penstock::capi {

/// Copies the caller's options. NULL: all zero. A program built with an older header passes a
/// shorter struct: the rest is zero.
template <class Options>
Result<Options> read_options(const Options* options) {
  Options complete{};
  if (options == nullptr) return complete;
  if (options->struct_bytes < sizeof(options->struct_bytes) ||
      options->struct_bytes > sizeof(Options)) {
    return fail(ErrorCode::invalid_argument,
                "an options struct has struct_bytes {}, this library knows {}: set it to sizeof",
                options->struct_bytes, sizeof(Options));
  }
  std::copy_n(reinterpret_cast<const std::byte*>(options), options->struct_bytes,
              reinterpret_cast<std::byte*>(&complete));
  return complete;
}

}  // namespace penstock::capi

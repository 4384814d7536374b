// Unique random identifiers.
#pragma once

#include <sys/random.h>

#include <cstdint>

#include "base/format.hpp"

namespace penstock::pool {

/// Never 0. Errors: unavailable (the kernel gives no random bytes).
inline Result<std::uint64_t> random_id() {
  std::uint64_t id = 0;
  while (id == 0) {
    if (::getrandom(&id, sizeof id, 0) != sizeof id) {
      return fail(ErrorCode::unavailable, "the kernel gives no random bytes (getrandom)");
    }
  }
  return id;
}

}  // namespace penstock::pool

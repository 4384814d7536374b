// Memory for the words of a rank of a test's window.
#pragma once

#include <functional>
#include <string>

#include "arena/arena.hpp"

namespace penstock::window {

/// For Options::more, of one window in each pool. The arena must outlive it.
inline std::function<Result<std::uint64_t>(std::uint64_t)> more_of(arena::Arena& arena,
                                                                   std::uint32_t rank) {
  return [&arena, rank, made = 0](std::uint64_t bytes) mutable -> Result<std::uint64_t> {
    const auto object = arena.create("more-" + std::to_string(rank) + "-" + std::to_string(++made),
                                     bytes, {.zero = false});
    if (!object) return unexpected(object.error());
    return object->offset;
  };
}

}  // namespace penstock::window

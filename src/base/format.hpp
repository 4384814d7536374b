// Formatted errors.
#pragma once

#include <fmt/core.h>

#include <utility>

#include "penstock/status.hpp"

namespace penstock {

template <class... Args>
tl::unexpected<Error> fail(Code code, fmt::format_string<Args...> format, Args&&... args) {
  return make_error(code, fmt::format(format, std::forward<Args>(args)...));
}

}  // namespace penstock

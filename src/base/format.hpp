// Formatted errors, and text of a pool on its way to people.
#pragma once

#include <fmt/core.h>

#include <cctype>
#include <string>
#include <utility>

#include "penstock/status.hpp"

namespace penstock {

template <class... Args>
tl::unexpected<Error> fail(Code code, fmt::format_string<Args...> format, Args&&... args) {
  return make_error(code, fmt::format(format, std::forward<Args>(args)...));
}

namespace base {

/// What came from a pool must not steer a terminal: '?' for each control character.
inline std::string printable(std::string text) {
  for (char& c : text) {
    if (std::iscntrl(static_cast<unsigned char>(c)) != 0) c = '?';
  }
  return text;
}

}  // namespace base
}  // namespace penstock

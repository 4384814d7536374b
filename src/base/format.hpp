// Formatted errors, and text from a pool that is safe to print.
#pragma once

#include <fmt/core.h>

#include <cctype>
#include <string>
#include <string_view>
#include <utility>

#include "base/status.hpp"

namespace penstock {

template <class... Args>
tl::unexpected<Error> fail(ErrorCode code, fmt::format_string<Args...> format, Args&&... args) {
  return make_error(code, fmt::format(format, std::forward<Args>(args)...));
}

namespace base {

/// Replaces each control character by '?': text from a pool must not steer a terminal.
inline std::string printable(std::string text) {
  for (char& c : text) {
    if (std::iscntrl(static_cast<unsigned char>(c)) != 0) c = '?';
  }
  return text;
}

/// Quotes text so that a POSIX shell reads it back unchanged: for commands in messages.
inline std::string shell_quote(std::string_view text) {
  constexpr std::string_view plain =
      "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-./:=,+@%";
  if (!text.empty() && text.find_first_not_of(plain) == std::string_view::npos) {
    return std::string(text);
  }
  std::string out = "'";
  for (char c : text) {
    if (c == '\'') {
      out += "'\\''";
    } else {
      out += c;
    }
  }
  return out + "'";
}

}  // namespace base
}  // namespace penstock

// One line a message on standard error: "penstock: LEVEL: text". The function that first decides
// which error it is logs it; nobody else does.
#pragma once

#include <fmt/core.h>

#include <string_view>

namespace penstock::base {

enum class Level { error = 0, warn = 1, info = 2, debug = 3 };

/// From PENSTOCK_LOG (error|warn|info|debug; default warn), read once.
bool log_enabled(Level level);
void log_line(Level level, std::string_view text);

template <class... Args>
void log(Level level, fmt::format_string<Args...> format, Args&&... args) {
  if (log_enabled(level)) log_line(level, fmt::format(format, std::forward<Args>(args)...));
}

}  // namespace penstock::base

// One line a message on standard error: "penstock: LEVEL: text", or to the host's logger. The
// function that first decides which error it is logs it; nobody else does.
#pragma once

#include <fmt/core.h>

#include <source_location>
#include <string_view>
#include <type_traits>

namespace penstock::base {

enum class Level { error = 0, warn = 1, info = 2, debug = 3 };

/// Where a library of ours is loaded into a host that has a logger of its own.
struct LogHost {
  bool (*wants)(Level level);
  /// `text` is one line without its end; `where` is the place in our source that says it.
  void (*take)(Level level, std::string_view text, const std::source_location& where);
};
/// From now on the host gets the lines that it wants; the others go their usual way. `host` must
/// stay; null: no host.
void set_log_host(const LogHost* host);

/// Wanted by the host, or by PENSTOCK_LOG (error|warn|info|debug; default warn), read once.
bool log_enabled(Level level);
void log_line(Level level, std::string_view text,
              const std::source_location& where = std::source_location::current());

/// A format string, and where in the source it stands.
template <class... Args>
struct LogFormat {
  template <class Text>
  consteval LogFormat(  // NOLINT: stands for the text
      const Text& text_in, const std::source_location& where_in = std::source_location::current())
      : text(text_in), where(where_in) {}
  fmt::format_string<Args...> text;
  std::source_location where;
};

template <class... Args>
void log(Level level, LogFormat<std::type_identity_t<Args>...> format, Args&&... args) {
  if (!log_enabled(level)) return;
  log_line(level, fmt::format(format.text, std::forward<Args>(args)...), format.where);
}

}  // namespace penstock::base

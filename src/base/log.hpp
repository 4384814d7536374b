// Logs one line for each message on standard error: "penstock: LEVEL: text", or to the host's
// logger. Only the function that first recognizes an error logs it.
#pragma once

#include <fmt/core.h>

#include <string_view>
#include <type_traits>

namespace penstock::base {

enum class Level { error = 0, warn = 1, info = 2, debug = 3 };

/// The source location of a log line. Not std::source_location, which clang 14 does not have.
struct SourcePlace {
  const char* file;
  const char* function;
  int line;

  static constexpr SourcePlace current(const char* file = __builtin_FILE(),
                                       const char* function = __builtin_FUNCTION(),
                                       int line = __builtin_LINE()) {
    return {file, function, line};
  }
};

/// The logger of a program that has loaded one of our libraries.
struct LogHost {
  bool (*wants)(Level level);
  /// `text` is one line without its newline; `where` is the source location that logs it.
  void (*take)(Level level, std::string_view text, const SourcePlace& where);
};
/// From now on the host gets the lines that it wants; others are logged as usual. `host` must
/// outlive all logging; nullptr: no host.
void set_log_host(const LogHost* host);

/// True if the host or PENSTOCK_LOG (error|warn|info|debug; default warn; read once) wants `level`.
bool log_enabled(Level level);
void log_line(Level level, std::string_view text,
              const SourcePlace& where = SourcePlace::current());

/// A format string and its source location.
template <class... Args>
struct LogFormat {
  template <class Text>
  consteval LogFormat(  // NOLINT: stands for the text
      const Text& text_in, const SourcePlace& where_in = SourcePlace::current())
      : text(text_in), where(where_in) {}
  fmt::format_string<Args...> text;
  SourcePlace where;
};

template <class... Args>
void log(Level level, LogFormat<std::type_identity_t<Args>...> format, Args&&... args) {
  if (!log_enabled(level)) return;
  log_line(level, fmt::format(format.text, std::forward<Args>(args)...), format.where);
}

}  // namespace penstock::base

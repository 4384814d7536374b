#include "base/log.hpp"

#include <unistd.h>

#include <optional>
#include <string>

#include "base/env.hpp"

namespace penstock::base {
namespace {

const char* level_name(Level level) {
  switch (level) {
    case Level::error:
      return "error";
    case Level::warn:
      return "warn";
    case Level::info:
      return "info";
    case Level::debug:
      return "debug";
  }
  return "error";
}

std::optional<Level> parse_level(std::string_view text) {
  for (Level level : {Level::error, Level::warn, Level::info, Level::debug}) {
    if (text == level_name(level)) return level;
  }
  return std::nullopt;
}

Level read_threshold() {
  const std::string text = env_text("PENSTOCK_LOG");
  if (auto level = parse_level(text)) return *level;
  log_line(
      Level::warn,
      fmt::format("PENSTOCK_LOG is '{}'; it must be error, warn, info or debug: using warn", text));
  return Level::warn;
}

}  // namespace

bool log_enabled(Level level) {
  static const Level threshold = read_threshold();
  return level <= threshold;
}

void log_line(Level level, std::string_view text) {
  // One write a message, so that lines of many ranks do not mix.
  const std::string line = fmt::format("penstock: {}: {}\n", level_name(level), text);
  std::size_t done = 0;
  while (done < line.size()) {
    const ssize_t n = ::write(STDERR_FILENO, line.data() + done, line.size() - done);
    if (n <= 0) return;
    done += static_cast<std::size_t>(n);
  }
}

}  // namespace penstock::base

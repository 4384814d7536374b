#include "base/log.hpp"

#include <unistd.h>

#include <atomic>
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

std::atomic<const LogHost*> log_host{nullptr};

bool host_wants(Level level) {
  const LogHost* host = log_host.load(std::memory_order_acquire);
  return host != nullptr && host->wants(level);
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

void set_log_host(const LogHost* host) {
  log_host.store(host, std::memory_order_release);
}

bool log_enabled(Level level) {
  static const Level threshold = read_threshold();
  return level <= threshold || host_wants(level);
}

void log_line(Level level, std::string_view text, const SourcePlace& where) {
  const LogHost* host = log_host.load(std::memory_order_acquire);
  if (host != nullptr && host->wants(level)) return host->take(level, text, where);
  // One write() per message, so that lines of many ranks do not mix.
  const std::string line = fmt::format("penstock: {}: {}\n", level_name(level), text);
  std::size_t done = 0;
  while (done < line.size()) {
    const ssize_t n = ::write(STDERR_FILENO, line.data() + done, line.size() - done);
    if (n <= 0) return;
    done += static_cast<std::size_t>(n);
  }
}

}  // namespace penstock::base

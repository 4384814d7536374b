#include "terminal.hpp"

#include <fmt/color.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <charconv>
#include <cstdlib>

namespace penstock::tools {
namespace {

std::string_view variable(const char* name) {
  const char* value = std::getenv(name);
  return value == nullptr ? "" : value;
}

std::size_t number(const char* name, std::size_t otherwise) {
  const std::string_view text = variable(name);
  std::size_t value = 0;
  std::from_chars(text.data(), text.data() + text.size(), value);
  return value == 0 ? otherwise : value;
}

/// Length in bytes of the first escape sequence or character of the text.
std::size_t length_of_first(std::string_view text) {
  std::size_t end = 1;
  if (text.starts_with("\x1b[")) {
    end = text.find('m');
    return end == std::string_view::npos ? text.size() : end + 1;
  }
  while (end < text.size() && (static_cast<unsigned char>(text[end]) & 0xc0) == 0x80) ++end;
  return end;
}

}  // namespace

bool has_colour(std::FILE* stream) {
  return ::isatty(::fileno(stream)) == 1 && variable("NO_COLOR").empty() &&
         variable("TERM") != "dumb" && !variable("TERM").empty();
}

std::string coloured(Colour colour, std::string_view text, std::FILE* stream) {
  if (colour == Colour::plain || !has_colour(stream)) return std::string(text);
  if (colour == Colour::bold) return fmt::format(fmt::emphasis::bold, "{}", text);
  const fmt::terminal_color ink = colour == Colour::red      ? fmt::terminal_color::red
                                  : colour == Colour::yellow ? fmt::terminal_color::yellow
                                                             : fmt::terminal_color::green;
  return fmt::format(fmt::fg(ink), "{}", text);
}

std::size_t columns_of(std::string_view text) {
  std::size_t columns = 0;
  while (!text.empty()) {
    if (text.front() != '\x1b') ++columns;
    text.remove_prefix(length_of_first(text));
  }
  return columns;
}

std::string cut_to(std::string_view text, std::size_t columns) {
  std::string kept;
  while (!text.empty()) {
    const std::size_t length = length_of_first(text);
    const bool escape = text.front() == '\x1b';
    if (escape || columns > 0) kept += text.substr(0, length);
    if (!escape && columns > 0) --columns;
    text.remove_prefix(length);
  }
  return kept;
}

TerminalSize terminal_size(std::FILE* stream) {
  winsize window{};
  if (::ioctl(::fileno(stream), TIOCGWINSZ, &window) == 0 && window.ws_col > 0 && window.ws_row > 0)
    return {window.ws_col, window.ws_row};
  return {number("COLUMNS", 80), number("LINES", 24)};
}

}  // namespace penstock::tools

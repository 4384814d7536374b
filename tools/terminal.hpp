// What a terminal gets and a file does not: colour, and text cut to its width.
#pragma once

#include <cstddef>
#include <cstdio>
#include <string>
#include <string_view>

namespace penstock::tools {

enum class Colour { plain, bold, red, yellow, green };

/// Only on a terminal that is not "dumb", and not where NO_COLOR is set (https://no-color.org).
bool has_colour(std::FILE* stream);
/// `text` as it is where the stream has no colour.
std::string coloured(Colour colour, std::string_view text, std::FILE* stream = stdout);

/// Columns that UTF-8 text takes, of characters of one column each; escape sequences take none.
std::size_t columns_of(std::string_view text);
/// The beginning that fits; escape sequences stay, also behind it, so that colours end.
std::string cut_to(std::string_view text, std::size_t columns);

struct TerminalSize {
  std::size_t columns = 80, rows = 24;
};
/// Of the terminal behind the stream; what COLUMNS and LINES say, or 80 x 24, where there is none.
TerminalSize terminal_size(std::FILE* stream);

}  // namespace penstock::tools

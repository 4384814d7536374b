// Output for terminals only: colour, and text cut to the terminal's width.
#pragma once

#include <cstddef>
#include <cstdio>
#include <string>
#include <string_view>

namespace penstock::tools {

enum class Colour { plain, bold, red, yellow, green };

/// True only on a terminal that is not "dumb", and if NO_COLOR is not set (https://no-color.org).
bool has_colour(std::FILE* stream);
/// Returns `text` unchanged if the stream has no colour.
std::string coloured(Colour colour, std::string_view text, std::FILE* stream = stdout);

/// Columns that UTF-8 text takes, if each character takes one; escape sequences take none.
std::size_t columns_of(std::string_view text);
/// Returns the beginning that fits; keeps all escape sequences, also later ones, so that colours
/// end.
std::string cut_to(std::string_view text, std::size_t columns);

struct TerminalSize {
  std::size_t columns = 80, rows = 24;
};
/// The size of the terminal behind the stream; without a terminal that of COLUMNS and LINES, or 80
/// x 24.
TerminalSize terminal_size(std::FILE* stream);

}  // namespace penstock::tools

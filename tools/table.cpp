#include "table.hpp"

#include <algorithm>

namespace penstock::tools {

std::string Table::text() const {
  std::vector<std::size_t> widths;
  std::vector<Entry> titles;
  for (const Heading& heading : headings_) {
    titles.emplace_back(heading.title, Colour::bold);
    widths.push_back(columns_of(heading.title));
  }
  for (const auto& row : rows_)
    for (std::size_t i = 0; i < row.size(); ++i)
      widths[i] = std::max(widths[i], columns_of(row[i].text));
  std::string text;
  const auto add_line = [&](const std::vector<Entry>& row) {
    std::string line;
    for (std::size_t i = 0; i < row.size(); ++i) {
      const std::string blanks(widths[i] - columns_of(row[i].text), ' ');
      const std::string entry = coloured(row[i].colour, row[i].text);
      if (i > 0) line += "  ";
      line += headings_[i].align == Align::right ? blanks + entry : entry + blanks;
    }
    text += line.substr(0, line.find_last_not_of(' ') + 1) + "\n";
  };
  add_line(titles);
  for (const auto& row : rows_) add_line(row);
  return text;
}

}  // namespace penstock::tools

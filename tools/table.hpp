// Tables for people: each column is as wide as its widest entry.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "terminal.hpp"

namespace penstock::tools {

enum class Align { left, right };

struct Heading {
  std::string title;
  Align align = Align::left;
};

struct Entry {
  Entry(std::string its_text) : text(std::move(its_text)) {}
  Entry(const char* its_text) : text(its_text) {}
  Entry(std::string its_text, Colour its_colour) : text(std::move(its_text)), colour(its_colour) {}
  std::string text;
  Colour colour = Colour::plain;
};

class Table {
 public:
  explicit Table(std::vector<Heading> headings) : headings_(std::move(headings)) {}
  /// `row`: as many entries as there are headings.
  void add(std::vector<Entry> row) { rows_.push_back(std::move(row)); }
  /// Lines that end with a newline, without trailing blanks; colours are for standard output.
  std::string text() const;

 private:
  std::vector<Heading> headings_;
  std::vector<std::vector<Entry>> rows_;
};

}  // namespace penstock::tools

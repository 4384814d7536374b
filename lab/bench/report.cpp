#include "bench/report.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstdio>

#include "base/format.hpp"

namespace penstock::bench {
namespace {

std::string text_of(const Cell& cell, int decimals) {
  if (const auto* text = std::get_if<std::string>(&cell)) return *text;
  if (const auto* number = std::get_if<double>(&cell))
    return fmt::format("{:.{}f}", *number, decimals);
  return "-";
}

std::string quoted(const std::string& text) {
  std::string out = "\"";
  for (const char c : text) {
    if (c == '"' || c == '\\') out += '\\';
    if (static_cast<unsigned char>(c) < 0x20)
      out += fmt::format("\\u{:04x}", static_cast<int>(c));
    else
      out += c;
  }
  return out + "\"";
}

std::string json_of(const Cell& cell) {
  if (const auto* text = std::get_if<std::string>(&cell)) return quoted(*text);
  const auto* number = std::get_if<double>(&cell);
  return number != nullptr && std::isfinite(*number) ? fmt::format("{:.6g}", *number) : "null";
}

void print_table(const Table& table) {
  std::vector<std::vector<std::string>> lines(1);
  for (const Column& column : table.columns) lines[0].push_back(column.title);
  for (const auto& row : table.rows) {
    auto& line = lines.emplace_back();
    for (std::size_t i = 0; i < row.size(); ++i)
      line.push_back(text_of(row[i], table.columns[i].decimals));
  }
  std::vector<std::size_t> widths(table.columns.size(), 0);
  for (const auto& line : lines)
    for (std::size_t i = 0; i < line.size(); ++i) widths[i] = std::max(widths[i], line[i].size());
  fmt::print("\n{}\n", table.title);
  for (const auto& line : lines) {
    for (std::size_t i = 0; i < line.size(); ++i) fmt::print("  {:>{}}", line[i], widths[i]);
    fmt::print("\n");
  }
}

std::string json_of_table(const Table& table) {
  std::string rows;
  for (const auto& row : table.rows) {
    std::string fields;
    for (std::size_t i = 0; i < row.size(); ++i)
      fields +=
          fmt::format("{}{}: {}", i ? ", " : "", quoted(table.columns[i].title), json_of(row[i]));
    rows += fmt::format("{}      {{{}}}", rows.empty() ? "" : ",\n", fields);
  }
  return fmt::format("    {{\"title\": {}, \"rows\": [\n{}\n    ]}}", quoted(table.title), rows);
}

std::string json_of_figure(const Figure& figure, const std::vector<double>& values) {
  const auto number = [](const auto& value) { return value ? fmt::format("{}", *value) : "null"; };
  std::string rounds;
  for (const double value : values)
    rounds += fmt::format("{}{:.6g}", rounds.empty() ? "" : ", ", value);
  return fmt::format(
      "    {{\"series\": {}, \"op\": {}, \"metric\": {}, \"bytes\": {}, \"group\": {}, "
      "\"procs\": {}, \"serialized\": {}, \"values\": [{}]}}",
      quoted(figure.series), quoted(figure.op), quoted(figure.metric), number(figure.bytes),
      figure.group.empty() ? "null" : quoted(figure.group), figure.procs, number(figure.serialized),
      rounds);
}

}  // namespace

void Report::print() const {
  fmt::print("\n== {}", benchmark_);
  for (const auto& [key, value] : notes_) fmt::print(", {} {}", key, text_of(value, 0));
  fmt::print("\n");
  for (const Table& table : tables_) print_table(table);
  std::fflush(stdout);
}

std::string Report::json() const {
  std::string out = fmt::format("  {{\"benchmark\": {}", quoted(benchmark_));
  for (const auto& [key, value] : notes_)
    out += fmt::format(", {}: {}", quoted(key), json_of(value));
  out += ", \"tables\": [\n";
  for (std::size_t i = 0; i < tables_.size(); ++i)
    out += (i ? ",\n" : "") + json_of_table(tables_[i]);
  out += "\n  ], \"figures\": [\n";
  for (std::size_t i = 0; i < figures_.size(); ++i)
    out += (i ? ",\n" : "") + json_of_figure(figures_[i].first, figures_[i].second);
  return out + "\n  ]}";
}

void Report::add(Figure figure, std::vector<double> values, double scale) {
  if (values.empty()) return;
  for (double& value : values) value *= scale;
  figures_.emplace_back(std::move(figure), std::move(values));
}

std::string json_of(const std::vector<Report>& reports) {
  std::string out = "[\n";
  for (std::size_t i = 0; i < reports.size(); ++i) out += (i ? ",\n" : "") + reports[i].json();
  return out + "\n]\n";
}

Cell ratio(std::optional<double> a, std::optional<double> b) {
  if (!a || !b || *b == 0) return {};
  return *a / *b;
}

}  // namespace penstock::bench

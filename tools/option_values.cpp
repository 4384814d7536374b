#include "option_values.hpp"

#include <fmt/ranges.h>
#include <CLI/CLI.hpp>

#include <algorithm>
#include <charconv>
#include <cmath>

#include "base/format.hpp"
#include "base/nearest.hpp"
#include "command_tree.hpp"

namespace penstock::tools {
namespace {

/// Returns "" if the whole text is such a number, and then rewrites the text in the form that the
/// parser reads.
template <class Number>
std::string check_number(std::string& text, const char* needed) {
  Number number = 0;
  const char* const end = text.data() + text.size();
  const auto [stopped, error] = std::from_chars(text.data(), end, number);
  if (error == std::errc::result_out_of_range) return "'" + text + "' is out of range";
  if (error != std::errc() || stopped != end)
    return fmt::format("'{}' is no number: {} is needed", text, needed);
  if constexpr (std::is_floating_point_v<Number>) {
    if (!std::isfinite(number)) return fmt::format("'{}' is no finite number", text);
    if (number < 0) return fmt::format("{} is negative", text);
  } else {
    text = std::to_string(number);  // the parser would read "010" as 8
  }
  return "";
}

std::string check_choice(const std::string& text, const std::vector<std::string>& choices) {
  if (std::find(choices.begin(), choices.end(), text) != choices.end()) return "";
  const std::string meant = base::nearest(text, choices);
  return fmt::format("'{}' is none of {}{}", text, fmt::join(choices, ", "),
                     meant.empty() ? "" : fmt::format("; did you mean {}?", meant));
}

/// A positional that takes all following words is a program and its arguments, which may be empty.
bool may_be_empty(const CLI::Option& option) {
  return option.get_positional() && option.get_items_expected_max() > 1;
}

void check_value(CLI::Option& option) {
  const std::string full = option.get_type_name();
  const std::string type = full.substr(0, full.find(':'));
  const auto check = [&](auto function) {
    option.transform(CLI::Validator(std::move(function), ""));  // runs before all other checks
  };
  if (type == "UINT") {
    check(
        [](std::string& text) { return check_number<std::uint64_t>(text, "a whole one from 0"); });
  } else if (type == "INT") {
    check([](std::string& text) { return check_number<std::int64_t>(text, "a whole one"); });
  } else if (type == "FLOAT") {
    check([](std::string& text) { return check_number<double>(text, "one such as 0.5"); });
  } else if (const auto choices = choices_of(type); !choices.empty()) {
    check([choices](std::string& text) { return check_choice(text, choices); });
  }
  if (may_be_empty(option)) return;
  const char* const refused = option.get_required() ? "is empty: a value is needed"
                                                    : "is empty: give a value, or leave it out";
  check([refused](std::string& text) { return text.empty() ? refused : std::string(); });
}

}  // namespace

void check_values(CLI::App& app) {
  for (CLI::Option* option : app.get_options())
    if (option->get_items_expected_max() > 0) check_value(*option);
  for (CLI::App* command : app.get_subcommands([](const CLI::App*) { return true; }))
    check_values(*command);
}

}  // namespace penstock::tools

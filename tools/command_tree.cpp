#include "command_tree.hpp"

#include <fmt/core.h>
#include <fmt/ranges.h>
#include <CLI/CLI.hpp>

#include <algorithm>
#include <iterator>
#include <map>
#include <memory>
#include <set>
#include <utility>

#include "terminal.hpp"

namespace penstock::tools {
namespace {

/// The values of options with these names in every command, unless another word was given.
const std::map<std::string, std::string> values_by_name = {
    {"--export", "FILE"},        {"--import", "FILE"},     {"--json", "FILE"},
    {"--mpiexec", "FILE"},       {"--group", "GROUP"},     {"--host-is-gone", "HOST"},
    {"--mode", "MODE"},          {"--pool", "SPEC"},       {"--report", "FOLDER"},
    {"--size", "SIZE"},          {"--timeout", "SECONDS"}, {"--missing-after", "SECONDS"},
    {"--traffic", "[=SECONDS]"}, {"--watch", "[=SECONDS]"}};

/// Replaces the parser's words for types by words for readers; the option's meaning states "INT in
/// [2 - 64]".
void name_value(OptionText& text, std::string type) {
  const std::size_t colon = type.find(':');
  const std::string check = colon == std::string::npos ? "" : type.substr(colon + 1);
  type = type.substr(0, colon);
  text.value = type == "UINT" || type == "INT" ? "N" : type == "FLOAT" ? "X" : type;
  const auto known = values_by_name.find(text.names.back());
  if (known != values_by_name.end() && (type == "TEXT" || type == "UINT" || type == "FLOAT"))
    text.value = known->second;
  const std::size_t from = check.find(" in [");
  if (from != std::string::npos)
    text.meaning += fmt::format(" ({})", check.substr(from + 5, check.find(']', from) - from - 5));
}

OptionText describe(const CLI::Option& option) {
  OptionText text;
  text.is_argument = option.get_positional();
  text.required = option.get_required();
  text.meaning = option.get_description();
  text.repeats = option.get_items_expected_max() > 1;
  if (text.is_argument) text.names = {option.get_name(true)};
  for (const std::string& name : option.get_snames()) text.names.push_back("-" + name);
  for (const std::string& name : option.get_lnames()) text.names.push_back("--" + name);
  if (option.get_items_expected_max() > 0) name_value(text, option.get_type_name());
  std::string fallback = option.get_default_str();
  if (fallback.starts_with("[")) fallback = fallback.substr(1, fallback.size() - 2);  // a list
  if (!fallback.empty()) text.meaning += fmt::format(" (default: {})", fallback);
  std::set<std::string> excluded;  // sorted, so that the order does not change
  for (const CLI::Option* other : option.get_excludes()) excluded.insert(other->get_name());
  if (!excluded.empty()) text.meaning += fmt::format("; not with {}", fmt::join(excluded, ", "));
  return text;
}

/// Breaks text into lines that fit, each but the first indented by `indent` blanks. Keeps its own
/// line breaks.
std::string wrapped(std::string_view text, std::size_t indent, std::size_t columns) {
  std::string out;
  std::size_t used = indent;
  while (!text.empty()) {
    const std::size_t end = std::min(text.find_first_of(" \n"), text.size());
    const std::string_view word = text.substr(0, end);
    const bool newline = end < text.size() && text[end] == '\n';
    if (used > indent && used + 1 + columns_of(word) > columns) {
      out += "\n" + std::string(indent, ' ');
      used = indent;
    }
    if (used > indent) out += " ";
    used += (used > indent ? 1 : 0) + columns_of(word);
    out += word;
    text.remove_prefix(std::min(end + 1, text.size()));
    if (newline && !text.empty()) {
      out += "\n" + std::string(indent, ' ');
      used = indent;
    }
  }
  return out;
}

/// "  NAME    MEANING", the meaning in its own column.
std::string row(const std::string& name, const std::string& meaning, std::size_t columns) {
  constexpr std::size_t at = 28;
  std::string line = "  " + name;
  if (meaning.empty()) return line + "\n";
  if (columns_of(line) + 2 > at) line += "\n";
  const std::size_t used = line.ends_with("\n") ? 0 : columns_of(line);
  return line + std::string(at - used, ' ') + wrapped(meaning, at, columns) + "\n";
}

std::string label_of(const OptionText& option) {
  const char* between = option.value.starts_with("[") ? "" : " ";
  const std::string value =
      option.is_argument || option.value.empty() ? "" : between + option.value;
  return fmt::format("{}{}", fmt::join(option.names, ", "), value);
}

class HelpFormatter final : public CLI::FormatterBase {
 public:
  std::string make_help(const CLI::App* app, std::string, CLI::AppFormatMode) const override {
    const std::size_t columns = terminal_size(stdout).columns;
    return help_text(tools::describe(*app), std::clamp<std::size_t>(columns, 60, 100));
  }
};

}  // namespace

std::vector<std::string> choices_of(const std::string& value) {
  std::vector<std::string> words;
  if (value.find('|') == std::string::npos) return words;
  for (std::size_t at = 0; at <= value.size();) {
    const std::size_t end = std::min(value.find('|', at), value.size());
    words.push_back(value.substr(at, end - at));
    at = end + 1;
  }
  return words;
}

std::string CommandText::name(char between) const {
  return fmt::format("{}", fmt::join(words, std::string(1, between)));
}

std::string CommandText::usage() const {
  std::string line = name(' ') + " [OPTIONS]";
  for (const OptionText& option : options) {
    if (!option.is_argument) continue;
    const std::string& its_name = option.names.front();
    if (option.repeats) {
      line += option.choices().empty() ? fmt::format(" [--] {}...", its_name)
                                       : fmt::format(" [{}...]", its_name);
    } else {
      line += option.required ? " " + its_name : fmt::format(" [{}]", its_name);
    }
  }
  if (!subcommands.empty()) line += needs_subcommand ? " SUBCOMMAND" : " | SUBCOMMAND";
  return line;
}

CommandText describe(const CLI::App& command) {
  CommandText text;
  for (const CLI::App* each = &command; each != nullptr; each = each->get_parent())
    text.words.insert(text.words.begin(), each->get_name());
  text.meaning = command.get_description();
  text.footer = command.get_footer();
  text.needs_subcommand = command.get_require_subcommand_min() > 0;
  for (const CLI::Option* option :
       command.get_options([](const CLI::Option* each) { return !each->get_group().empty(); }))
    text.options.push_back(describe(*option));
  std::stable_sort(text.options.begin(), text.options.end(),
                   [](const auto& a, const auto& b) { return a.is_argument > b.is_argument; });
  for (const CLI::App* below :
       command.get_subcommands([](const CLI::App* each) { return !each->get_group().empty(); }))
    text.subcommands.push_back(describe(*below));
  return text;
}

std::vector<const CommandText*> all_of(const CommandText& command) {
  std::vector<const CommandText*> all = {&command};
  for (const CommandText& below : command.subcommands) {
    const auto found = all_of(below);
    all.insert(all.end(), found.begin(), found.end());
  }
  return all;
}

const std::vector<ExitStatus>& exit_statuses() {
  static const std::vector<ExitStatus> statuses = {
      {"0", "done; of doctor: nothing failed, warnings aside"},
      {"1",
       "it could not be done, or doctor found what fails; the reason is on standard error, or the "
       "output could not be written"},
      {"2",
       "the command line is wrong by itself: a word, an option or its value, or a variable of "
       "Penstock; nothing was done"},
      {"128+N", "ended by signal N; of ps --watch: by Ctrl-C it is 0"},
      {"other",
       "of run: the status of the program, as its mpiexec gives it; 1 where that is 0 and a rank "
       "died or none used the pool"}};
  return statuses;
}

std::string help_text(const CommandText& command, std::size_t columns) {
  std::string text = wrapped(command.meaning, 0, columns) + "\n\n";
  text += "Usage: " + wrapped(command.usage(), 7, columns) + "\n";
  const auto add = [&](const char* title, bool arguments) {
    bool first = true;
    for (const OptionText& option : command.options) {
      if (option.is_argument != arguments) continue;
      if (std::exchange(first, false)) text += fmt::format("\n{}:\n", title);
      text +=
          row(label_of(option), option.meaning + (option.required ? " (required)" : ""), columns);
    }
  };
  add("Arguments", true);
  add("Options", false);
  if (!command.subcommands.empty()) text += "\nSubcommands:\n";
  for (const CommandText& below : command.subcommands)
    text += row(below.words.back(), below.meaning, columns);
  if (!command.footer.empty()) text += "\n" + command.footer;
  if (!text.ends_with("\n")) text += "\n";
  return text;
}

void set_help(CLI::App& app) {
  app.formatter(std::make_shared<HelpFormatter>());
  app.get_help_ptr()->description("print this help and exit");
}

}  // namespace penstock::tools

#include "spelling.hpp"

#include <CLI/CLI.hpp>

#include <algorithm>
#include <cctype>

#include "base/format.hpp"
#include "base/nearest.hpp"

namespace penstock::tools {
namespace {

std::vector<std::string> subcommands_of(const CLI::App& app) {
  std::vector<std::string> names;
  for (const CLI::App* each : app.get_subcommands([](const CLI::App*) { return true; }))
    names.push_back(each->get_name());
  return names;
}

const CLI::App* subcommand(const CLI::App& app, const std::string& name) {
  for (const CLI::App* each : app.get_subcommands([](const CLI::App*) { return true; }))
    if (each->get_name() == name) return each;
  return nullptr;
}

/// Does the next word belong to this option?
bool takes_the_next(const CLI::App& command, const std::string& option) {
  const CLI::Option* found = command.get_option_no_throw(option);
  return found != nullptr && found->get_items_expected_max() > 0 &&
         option.find('=') == std::string::npos;
}

/// The first word that names nothing where a subcommand is needed, and what it may have meant.
struct Unknown {
  std::string word, meant;
};

Unknown unknown_word(const CLI::App& app, const std::vector<std::string>& arguments) {
  const CLI::App* command = &app;
  for (const std::string& word : arguments) {
    const auto names = subcommands_of(*command);
    if (names.empty() || command->get_require_subcommand_min() == 0 || word.starts_with("-"))
      return {};
    const CLI::App* next = subcommand(*command, word);
    if (next == nullptr) return {word, base::nearest(word, names)};
    command = next;
  }
  return {};
}

/// `bench run` and its like: another program reads the words behind them, also --help.
bool handed_on(const std::vector<std::string>& arguments) {
  return arguments.size() >= 2 && arguments[0] == "bench" &&
         (arguments[1] == "run" || arguments[1] == "list" || arguments[1] == "compare");
}

}  // namespace

std::vector<std::string> as_parsed(const CLI::App& app, std::vector<std::string> arguments) {
  if (handed_on(arguments)) {
    arguments.insert(arguments.begin() + 2, "--");
    return arguments;
  }
  const CLI::App* run = subcommand(app, "run");
  if (run == nullptr || arguments.empty() || arguments.front() != "run") return arguments;
  for (std::size_t i = 1; i < arguments.size(); ++i) {
    std::string& word = arguments[i];
    if (word == "--" || !word.starts_with("-")) break;  // the program
    if (word == "-np") word = "-n";
    if (takes_the_next(*run, word)) ++i;
  }
  return arguments;
}

std::string about_unknown_word(const CLI::App& app, const std::vector<std::string>& arguments) {
  const auto [word, meant] = unknown_word(app, arguments);
  if (word.empty()) return "";
  return fmt::format("there is no '{}'{}", word,
                     meant.empty() ? "" : fmt::format("; did you mean '{}'?", meant));
}

bool for_eval(const CLI::App& app, const std::vector<std::string>& arguments) {
  const auto means_env = [](std::string word) {
    std::transform(word.begin(), word.end(), word.begin(),
                   [](unsigned char c) { return std::tolower(c); });
    return word.starts_with("env");
  };
  if (arguments.empty()) return false;
  if (unknown_word(app, arguments).meant == "env") return true;
  const auto end = std::find(arguments.begin(), arguments.end(), "--");
  return arguments.front() != "run" && std::any_of(arguments.begin(), end, means_env);
}

}  // namespace penstock::tools

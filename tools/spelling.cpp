#include "spelling.hpp"

#include <unistd.h>
#include <CLI/CLI.hpp>

#include <algorithm>
#include <cctype>
#include <functional>

#include "base/format.hpp"
#include "base/nearest.hpp"

namespace penstock::tools {
namespace {

std::vector<std::string> subcommands_of(const CLI::App& app) {
  std::vector<std::string> names;
  for (const CLI::App* each : app.get_subcommands([](const CLI::App*) { return true; }))
    if (!each->get_group().empty()) names.push_back(each->get_name());
  return names;
}

const CLI::App* subcommand(const CLI::App& app, const std::string& name) {
  for (const CLI::App* each : app.get_subcommands([](const CLI::App*) { return true; }))
    if (each->get_name() == name) return each;
  return nullptr;
}

std::vector<std::string> options_of(const CLI::App& command) {
  std::vector<std::string> names;
  for (const CLI::Option* option :
       command.get_options([](const CLI::Option* each) { return !each->get_group().empty(); })) {
    for (const std::string& name : option->get_lnames()) names.push_back("--" + name);
    for (const std::string& name : option->get_snames()) names.push_back("-" + name);
  }
  return names;
}

std::string name_of(const CLI::App& command) {
  const CLI::App* above = command.get_parent();
  return above == nullptr ? command.get_name() : name_of(*above) + " " + command.get_name();
}

/// Whether the next word belongs to this option.
bool takes_the_next(const CLI::App& command, const std::string& option) {
  const CLI::Option* found = command.get_option_no_throw(option);
  return found != nullptr && found->get_items_expected_max() > 0 &&
         option.find('=') == std::string::npos;
}

/// The first unknown word where a subcommand is needed, and what it may have meant.
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

/// Visits the words up to the program that `run` starts, each with the command to which it belongs.
void walk(const CLI::App& app, const std::vector<std::string>& arguments,
          const std::function<bool(const CLI::App& command, const std::string& word)>& visit) {
  const CLI::App* command = &app;
  for (std::size_t i = 0; i < arguments.size() && arguments[i] != "--"; ++i) {
    const std::string& word = arguments[i];
    if (!visit(*command, word)) return;
    if (word.starts_with("-")) {
      if (takes_the_next(*command, word)) ++i;
    } else if (const CLI::App* next = subcommand(*command, word)) {
      command = next;
    } else if (name_of(*command) == "penstock run") {
      return;
    }
  }
}

bool is_number(const std::string& word) {
  return !word.empty() && word.find_first_not_of("0123456789.") == std::string::npos;
}

std::string suggestion(const std::string& meant) {
  return meant.empty() ? "" : fmt::format("; did you mean '{}'?", meant);
}

/// About the first word that begins with -- and is not an option of its command.
std::string about_unknown_option(const CLI::App& app, const std::vector<std::string>& arguments) {
  std::string text;
  walk(app, arguments, [&](const CLI::App& command, const std::string& word) {
    const std::string name = word.substr(0, word.find('='));
    if (!name.starts_with("--") || command.get_option_no_throw(name) != nullptr) return true;
    text = fmt::format("{} has no option '{}'{}", name_of(command), name,
                       suggestion(base::nearest(name, options_of(command))));
    return false;
  });
  return text;
}

/// "--size=" becomes "--size" and an empty value: the parser would take the next word for it.
std::vector<std::string> with_empty_values(const CLI::App& app,
                                           const std::vector<std::string>& arguments) {
  std::vector<std::size_t> at;
  walk(app, arguments, [&](const CLI::App& command, const std::string& word) {
    if (word.starts_with("--") && word.ends_with("=") &&
        takes_the_next(command, word.substr(0, word.size() - 1)))
      at.push_back(static_cast<std::size_t>(&word - arguments.data()));
    return true;
  });
  std::vector<std::string> split = arguments;
  for (auto position = at.rbegin(); position != at.rend(); ++position) {
    split[*position].pop_back();
    split.insert(split.begin() + static_cast<std::ptrdiff_t>(*position) + 1, "");
  }
  return split;
}

}  // namespace

std::vector<std::string> as_parsed(const CLI::App& app, std::vector<std::string> arguments) {
  if (arguments.empty()) return arguments;
  arguments = with_empty_values(app, arguments);
  if (arguments.front() == "help") {
    arguments.erase(arguments.begin());
    arguments.push_back("--help");
    return arguments;
  }
  if (arguments.front() == "ps") {
    for (std::size_t i = 1; i < arguments.size(); ++i) {
      const bool watch = arguments[i] == "--watch";
      if (!watch && arguments[i] != "--traffic") continue;
      const bool says = i + 1 < arguments.size() && is_number(arguments[i + 1]);
      arguments[i] += says ? "=" + arguments[i + 1] : watch ? "=2" : "=3";
      if (says) arguments.erase(arguments.begin() + static_cast<std::ptrdiff_t>(i) + 1);
    }
  }
  const CLI::App* run = subcommand(app, "run");
  if (run == nullptr || arguments.front() != "run") return arguments;
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
  if (word.empty()) return about_unknown_option(app, arguments);
  return fmt::format("there is no '{}'{}", word, suggestion(meant));
}

std::string about_misspelt_subcommand(const CLI::App& app,
                                      const std::vector<std::string>& arguments) {
  std::string text;
  walk(app, arguments, [&](const CLI::App& command, const std::string& word) {
    if (word.starts_with("-") || subcommand(command, word) != nullptr) return true;
    const bool like_a_pool = word.find_first_of("/:.,") != std::string::npos;
    if (like_a_pool || ::access(word.c_str(), F_OK) == 0) return true;
    const std::string meant = base::nearest(word, subcommands_of(command));
    if (!meant.empty()) text = fmt::format("there is no '{}'{}", word, suggestion(meant));
    return text.empty();
  });
  return text;
}

std::string help_command(const CLI::App& app, const std::vector<std::string>& arguments) {
  const CLI::App* last = &app;
  walk(app, arguments, [&](const CLI::App& command, const std::string& word) {
    const CLI::App* next = word.starts_with("-") ? nullptr : subcommand(command, word);
    last = next != nullptr ? next : &command;
    return true;
  });
  return name_of(*last) + " --help";
}

bool for_eval(const CLI::App& app, const std::vector<std::string>& arguments) {
  const auto means_env = [](std::string word) {
    std::transform(word.begin(), word.end(), word.begin(),
                   [](unsigned char c) { return std::tolower(c); });
    return word.starts_with("env");
  };
  if (arguments.empty()) return false;
  const auto end = std::find(arguments.begin(), arguments.end(), "--");
  if (std::find(arguments.begin(), end, "--json") != end) return false;
  if (unknown_word(app, arguments).meant == "env") return true;
  return arguments.front() != "run" && std::any_of(arguments.begin(), end, means_env);
}

}  // namespace penstock::tools

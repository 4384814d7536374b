// penstock bench run, list, compare: the experiments, which are Python (python/penstock/bench).
#include "bench_experiments.hpp"

#include <fmt/core.h>
#include <fmt/ranges.h>
#include <unistd.h>
#include <CLI/CLI.hpp>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "base/env.hpp"
#include "command.hpp"
#include "experiment_options.hpp"
#include "locations.hpp"

namespace penstock::tools {
namespace {

/// The folder that contains penstock/bench: in a build tree, an installation, or a wheel, where
/// this command lies inside the package.
Result<std::string> python_folder() {
  const std::string prefix = folder_of(own_folder());
  const std::vector<std::string> sought = {prefix + "/python", prefix + "/lib/penstock/python",
                                           folder_of(prefix)};
  for (const std::string& folder : sought)
    if (is_file(folder + "/penstock/bench/__main__.py")) return folder;
  return fail(ErrorCode::not_found,
              "the Python package penstock.bench is absent (sought in {}): install it with 'make "
              "install PREFIX=...' or 'pip install .', or build with 'make build'",
              fmt::join(sought, ", "));
}

Result<std::string> python() {
  if (const std::string named = base::env_text("PENSTOCK_PYTHON"); !named.empty()) {
    if (std::string found = find_on_path(named); !found.empty()) return found;
    return fail(ErrorCode::not_found,
                "PENSTOCK_PYTHON={} is no program: name a Python, or unset it", named);
  }
  const std::string of_the_build = folder_of(own_folder()) + "/python/environment/bin/python3";
  for (const std::string& beside : {own_folder() + "/python3", of_the_build})
    if (is_program(beside)) return beside;
  if (std::string found = find_on_path("python3"); !found.empty()) return found;
  return fail(ErrorCode::not_found,
              "no python3 beside this command or on the PATH, and the experiments need one: apt "
              "install python3, or set PENSTOCK_PYTHON to a Python");
}

/// Returns only if it fails.
Result<void> become_python(const std::vector<std::string>& words) {
  const std::string folder = PENSTOCK_TRY(python_folder()), program = PENSTOCK_TRY(python());
  const char* before = std::getenv("PYTHONPATH");
  const bool has = before != nullptr && *before != '\0';
  setenv("PYTHONPATH", (folder + (has ? std::string(":") + before : "")).c_str(), 1);
  // Neither this process nor its children may leave compiled files in folders that a package
  // manager owns.
  setenv("PYTHONDONTWRITEBYTECODE", "1", 1);
  const std::string own = own_folder() + "/penstock";
  std::vector<std::string> line = {program, "-m", "penstock.bench", "--command", own};
  line.insert(line.end(), words.begin(), words.end());
  std::vector<char*> arguments;
  for (std::string& word : line) arguments.push_back(word.data());
  arguments.push_back(nullptr);
  std::fflush(stdout);
  execv(program.c_str(), arguments.data());
  return fail(ErrorCode::unavailable, "{} does not run: {}", program, std::strerror(errno));
}

/// Adds the option to the parser's tree. Its value is not used.
void describe(CLI::App& command, const nlohmann::ordered_json& option) {
  const auto names = option.at("names").get<std::vector<std::string>>();
  const auto name = fmt::format("{}", fmt::join(names, ","));
  const auto meaning = option.at("meaning").get<std::string>();
  if (!option.contains("kind")) {
    command.add_flag(name, meaning);
    return;
  }
  CLI::Option* added = command.add_option(
      name, [](const CLI::results_t&) { return true; }, meaning);
  added->type_name(option.value("value", "FILE"));
  if (option.at("kind") == "experiment") added->type_name(experiment_names);
  if (option.contains("count")) added->expected(0, CLI::detail::expected_max_vector_size);
  added->required(!name.starts_with("-") && !option.contains("count"));
}

}  // namespace

void add_experiments(CLI::App& bench) {
  const auto verbs = nlohmann::ordered_json::parse(experiment_options);
  for (const auto& [verb, its] : verbs.items()) {
    CLI::App* command = bench.add_subcommand(verb, its.at("meaning").get<std::string>());
    command->footer(its.value("footer", ""));
    for (const auto& option : its.at("options")) describe(*command, option);
  }
}

bool handed_on(const std::vector<std::string>& arguments) {
  const auto has = [&](const char* word) {
    return std::find(arguments.begin(), arguments.end(), word) != arguments.end();
  };
  return arguments.size() >= 2 && arguments[0] == "bench" &&
         nlohmann::json::parse(experiment_options).contains(arguments[1]) && !has("--help") &&
         !has("-h");
}

int hand_on(const std::vector<std::string>& arguments) {
  return report(become_python({arguments.begin() + 1, arguments.end()}).error());
}

}  // namespace penstock::tools

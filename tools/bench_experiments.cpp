// penstock bench run, list, compare: the experiments, which are Python (python/penstock/bench).
#include <fmt/core.h>
#include <fmt/ranges.h>
#include <unistd.h>
#include <CLI/CLI.hpp>

#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "base/env.hpp"
#include "command.hpp"
#include "locations.hpp"

namespace penstock::tools {
namespace {

/// The folder that has penstock/bench in it: of a build tree, an installation, or a wheel, where
/// this command lies within the package.
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
  if (std::string beside = own_folder() + "/python3"; is_program(beside)) return beside;
  if (std::string found = find_on_path("python3"); !found.empty()) return found;
  return fail(ErrorCode::not_found,
              "no python3 beside this command or on the PATH, and the experiments need one: apt "
              "install python3, or set PENSTOCK_PYTHON to a Python");
}

/// Does not come back where it succeeds.
Result<void> become_python(const std::string& verb, const std::vector<std::string>& words) {
  const std::string folder = PENSTOCK_TRY(python_folder()), program = PENSTOCK_TRY(python());
  const char* before = std::getenv("PYTHONPATH");
  const bool has = before != nullptr && *before != '\0';
  setenv("PYTHONPATH", (folder + (has ? std::string(":") + before : "")).c_str(), 1);
  const std::string own = own_folder() + "/penstock";
  // -B: no compiled files are left in folders that a package manager owns.
  std::vector<std::string> line = {program, "-B", "-m", "penstock.bench", "--command", own, verb};
  line.insert(line.end(), words.begin(), words.end());
  std::vector<char*> arguments;
  for (std::string& word : line) arguments.push_back(word.data());
  arguments.push_back(nullptr);
  std::fflush(stdout);
  execv(program.c_str(), arguments.data());
  return fail(ErrorCode::unavailable, "{} does not run: {}", program, std::strerror(errno));
}

}  // namespace

void add_experiments(CLI::App& bench, Action& chosen) {
  const auto words = std::make_shared<std::vector<std::string>>();
  for (const auto& [verb, meaning] :
       {std::pair("run", "run experiments: tables and figures of the papers, and a report"),
        std::pair("list", "list the experiments"),
        std::pair("compare", "compare two runs: penstock bench compare A.json B.json")}) {
    CLI::App* command = bench.add_subcommand(verb, meaning);
    command->add_option("words", *words, "see --help");
    command->callback([&chosen, words, verb = std::string(verb)] {
      chosen = [words, verb] { return report(become_python(verb, *words).error()); };
    });
  }
}

}  // namespace penstock::tools

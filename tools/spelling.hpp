// Interprets user input: other launchers' spellings, and misspelt words.
#pragma once

#include <string>
#include <vector>

namespace CLI {
class App;
}

namespace penstock::tools {

/// Translates the arguments for the parser: `run -np 4`, as for mpiexec, is `run -n 4`. Words after
/// the program's name belong to the program, and those after `bench run` to its Python.
std::vector<std::string> as_parsed(const CLI::App& app, std::vector<std::string> arguments);

/// "there is no 'docter'; did you mean 'doctor'?" for the first word that should be a subcommand
/// and is none; "" when all are.
std::string about_unknown_word(const CLI::App& app, const std::vector<std::string>& arguments);

/// Are these the arguments of `penstock env`, misspelt or not? Its output is for `eval`.
bool for_eval(const CLI::App& app, const std::vector<std::string>& arguments);

}  // namespace penstock::tools

// What people type: other launchers' spellings, and words that are misspelt.
#pragma once

#include <string>
#include <vector>

namespace CLI {
class App;
}

namespace penstock::tools {

/// The arguments as the parser knows them: `run -np 4`, as for mpiexec, is `run -n 4`. What stands
/// behind the program's name is the program's.
std::vector<std::string> as_parsed(const CLI::App& app, std::vector<std::string> arguments);

/// "there is no 'docter'; did you mean 'doctor'?" for the first word that should be a subcommand
/// and is none; "" when all are.
std::string about_unknown_word(const CLI::App& app, const std::vector<std::string>& arguments);

/// Are these the arguments of `penstock env`, misspelt or not? Its output is for `eval`.
bool for_eval(const CLI::App& app, const std::vector<std::string>& arguments);

}  // namespace penstock::tools

// Interprets user input: other launchers' spellings, and misspelt words.
#pragma once

#include <string>
#include <vector>

namespace CLI {
class App;
}

namespace penstock::tools {

/// Translates the arguments for the parser: `run -np 4`, as for mpiexec, is `run -n 4`; `help ps`
/// is `ps --help`; `ps --watch` is `ps --watch=2`, and `ps --watch 5` is `ps --watch=5`; `--size=`
/// is `--size ""`. Words after the program's name belong to the program, and those after `bench
/// run` to Python.
std::vector<std::string> as_parsed(const CLI::App& app, std::vector<std::string> arguments);

/// "there is no 'docter'; did you mean 'doctor'?" for the first word that should be a subcommand
/// and is not; "penstock ps has no option '--jsn'; did you mean '--json'?" for the first unknown
/// option; "" if all are known.
std::string about_unknown_word(const CLI::App& app, const std::vector<std::string>& arguments);

/// The same for a word that was taken for a pool and stands where a subcommand may: `doctor
/// coherance`. "" if it looks like a pool, or is a file.
std::string about_misspelt_subcommand(const CLI::App& app,
                                      const std::vector<std::string>& arguments);

/// "penstock pool create --help": for the command that the arguments name.
std::string help_command(const CLI::App& app, const std::vector<std::string>& arguments);

/// Whether these are the arguments of `penstock env`, misspelt or not: its output is for `eval`,
/// except with --json.
bool for_eval(const CLI::App& app, const std::vector<std::string>& arguments);

}  // namespace penstock::tools

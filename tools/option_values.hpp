// Checks the values of options: none may be empty, numbers must be numbers, and a choice must be
// one of its words.
#pragma once

namespace CLI {
class App;
}

namespace penstock::tools {

/// Makes the parser check the values of all options in this command and all commands below it.
/// Finds numbers and choices by the options' types: no list of them needs upkeep.
void check_values(CLI::App& app);

}  // namespace penstock::tools

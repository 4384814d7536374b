// Checks the values of options: numbers must be numbers, and a choice must be one of its words.
#pragma once

namespace CLI {
class App;
}

namespace penstock::tools {

/// Makes the parser check each option that is bound to a number or lists its choices, in this
/// command and all commands below it. Finds the options by their types: no list of them needs
/// upkeep.
void check_values(CLI::App& app);

}  // namespace penstock::tools

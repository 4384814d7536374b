// Checks the values of options: numbers are numbers, and a choice is one of its words.
#pragma once

namespace CLI {
class App;
}

namespace penstock::tools {

/// Makes the parser check each option that is bound to a number or lists its choices, in this
/// command and all below it. Options are found by their types, so none can be forgotten.
void check_values(CLI::App& app);

}  // namespace penstock::tools

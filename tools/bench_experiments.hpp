// penstock bench run, list and compare: their words stand in the parser's tree, for help and
// completion; Python parses them.
#pragma once

#include <string>
#include <vector>

namespace CLI {
class App;
}

namespace penstock::tools {

void add_experiments(CLI::App& bench);
/// Does Python read these arguments, {"bench", "run", ...}? Of --help it does not.
bool handed_on(const std::vector<std::string>& arguments);
/// Comes back, with an exit status, only where Python does not start.
int hand_on(const std::vector<std::string>& arguments);

}  // namespace penstock::tools

// penstock bench run, list and compare. The parser's tree has their words, for help and completion;
// Python parses them.
#pragma once

#include <string>
#include <vector>

namespace CLI {
class App;
}

namespace penstock::tools {

void add_experiments(CLI::App& bench);
/// Whether Python parses these arguments, {"bench", "run", ...}; it does not get --help.
bool handed_on(const std::vector<std::string>& arguments);
/// Returns, with an exit status, only if Python does not start.
int hand_on(const std::vector<std::string>& arguments);

}  // namespace penstock::tools

// Runs another program for its output.
#pragma once

#include <string>
#include <vector>

namespace penstock::tools {

/// Runs a program with its arguments and without input. Returns what it prints on standard output
/// and standard error, at most 64 KiB and within 10 s; then ends it. "" if it cannot be run.
std::string program_output(std::vector<std::string> command);

}  // namespace penstock::tools

// Facts as JSON: --json prints one document on standard output, and nothing else there.
#pragma once

#include <nlohmann/json.hpp>
#include <string>

#include "base/output_file.hpp"
#include "base/status.hpp"

namespace penstock::tools {

/// Keeps its fields in the order in which they are written.
using Json = nlohmann::ordered_json;

/// Prints over several lines. Replaces bytes that are not UTF-8, as in names of a damaged pool, by
/// U+FFFD. Returns exit_ok.
int print_json(const Json& facts);
/// The same on one line, for repeated output (JSON Lines).
std::string json_line(const Json& facts);
/// Writes into a file. Errors: permission, which names it.
Result<void> write_json(base::OutputFile& file, const Json& facts);

}  // namespace penstock::tools

// Facts as JSON: what --json prints, one document on standard output and nothing else there.
#pragma once

#include <nlohmann/json.hpp>
#include <string>

#include "base/output_file.hpp"
#include "base/status.hpp"

namespace penstock::tools {

/// Its fields keep the order in which they are written.
using Json = nlohmann::ordered_json;

/// Over several lines. Text that is not UTF-8, as names in a damaged pool, gets U+FFFD in its
/// place. Gives exit_ok.
int print_json(const Json& facts);
/// The same as a line, for what is printed again and again (JSON Lines).
std::string json_line(const Json& facts);
/// Into a file. Error: permission, which names it.
Result<void> write_json(base::OutputFile& file, const Json& facts);

}  // namespace penstock::tools

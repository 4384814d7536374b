#include "json.hpp"

#include <fmt/core.h>

#include "command.hpp"

namespace penstock::tools {
namespace {

std::string text_of(const Json& facts, int indent) {
  return facts.dump(indent, ' ', false, Json::error_handler_t::replace);
}

}  // namespace

int print_json(const Json& facts) {
  fmt::print("{}\n", text_of(facts, 2));
  return exit_ok;
}

std::string json_line(const Json& facts) {
  return text_of(facts, -1) + "\n";
}

Result<void> write_json(base::OutputFile& file, const Json& facts) {
  return file.write(text_of(facts, 2) + "\n");
}

}  // namespace penstock::tools

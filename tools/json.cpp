#include "json.hpp"

#include <fmt/core.h>
#include <string.h>

#include <cerrno>
#include <fstream>

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

Result<void> write_json(const std::string& path, const Json& facts) {
  std::ofstream file(path);
  file << text_of(facts, 2) << "\n" << std::flush;
  if (file) return {};
  return fail(ErrorCode::permission, "cannot write {}: {}; name a file in a folder of yours", path,
              strerror(errno));
}

}  // namespace penstock::tools

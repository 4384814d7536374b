// Which shared libraries an ELF file asks for by name (DT_NEEDED), without loading it.
#pragma once

#include <string>
#include <vector>

#include "base/status.hpp"

namespace penstock::tools {

/// Errors: not_found; wrong_format when it is not a 64-bit little-endian ELF file with a dynamic
/// section.
Result<std::vector<std::string>> elf_needs(const std::string& path);

}  // namespace penstock::tools

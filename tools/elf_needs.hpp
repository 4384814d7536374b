// The shared libraries that an ELF file names (DT_NEEDED), found without loading it.
#pragma once

#include <string>
#include <vector>

#include "base/status.hpp"

namespace penstock::tools {

/// Errors: not_found; wrong_format if it is not a 64-bit little-endian ELF file with a dynamic
/// section.
Result<std::vector<std::string>> elf_needs(const std::string& path);

}  // namespace penstock::tools

// Reads the libraries, symbols and loader that an ELF file names, without running the file.
// code.
#pragma once

#include <string>
#include <vector>

#include "base/status.hpp"

namespace penstock::tools {

/// The shared libraries that the file names (DT_NEEDED). Errors: not_found; wrong_format if it is
/// not a 64-bit little-endian ELF file with a dynamic section.
Result<std::vector<std::string>> elf_needs(const std::string& path);

/// The names of the symbols that the file takes from libraries. Empty without a symbol table, or if
/// the file cannot be read.
std::vector<std::string> elf_imports(const std::string& path);

/// A library that the loader would map for a program.
struct SharedLibrary {
  std::string name;       ///< as its user names it, such as libmpi.so.12
  std::string path;       ///< "" if it is unknown
  bool absent = false;    ///< the loader does not find it
  std::string needed_by;  ///< a file that names it: the program, or another library
};

/// All libraries that the program would load at its start, those of libraries included, as glibc's
/// loader finds them in this environment. Without glibc: those that the program itself names,
/// without their paths. Errors: as elf_needs; wrong_format also for a program without a loader.
Result<std::vector<SharedLibrary>> shared_libraries(const std::string& program);

}  // namespace penstock::tools

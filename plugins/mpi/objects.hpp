// The objects that are loaded in this process: its program and shared libraries.
#pragma once

#include <string>
#include <vector>

namespace penstock::mpi {

/// Where an address lies: the file, and the base that tells two loaded copies apart.
struct Place {
  std::string file;
  const void* base = nullptr;  ///< null: in no object
};
Place place_of(const void* address);

/// True for addresses in this library.
bool is_ours(const void* address);

/// A handle of an object that is already loaded; null for others, and for the program itself.
void* open_loaded(const std::string& file);
/// A symbol of such an object, or of what it needs. Null for others.
void* symbol_of(const std::string& file, const char* name);

std::vector<std::string> loaded_files();

/// Of the object at this address; "" if it has none.
std::string soname_of(const void* address);

/// The C library's dlsym: in this process ours may stand before it (lookups.hpp).
using LookUp = void*(void* handle, const char* name);
LookUp* look_up();
/// Its answer to a call from this library.
void* symbol_in(void* handle, const char* name);

}  // namespace penstock::mpi

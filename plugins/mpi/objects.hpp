// The objects loaded in this process: its program and shared libraries.
#pragma once

#include <string>
#include <vector>

namespace penstock::mpi {

/// The object that contains an address: its file, and its base address, which distinguishes two
/// loaded copies.
struct Place {
  std::string file;
  const void* base = nullptr;  ///< null: the address is in no object
};
Place place_of(const void* address);

/// True for addresses in this library.
bool is_ours(const void* address);

/// Opens an object that is already loaded; null for other files and for the program itself.
void* open_loaded(const std::string& file);
/// A symbol of a loaded object or of its dependencies; null if there is none.
void* symbol_of(const std::string& file, const char* name);

std::vector<std::string> loaded_files();

/// The soname of the object at this address; "" if it has none.
std::string soname_of(const void* address);

/// The type of dlsym. In this process our own may precede the C library's (lookups.hpp).
using LookUp = void*(void* handle, const char* name);
LookUp* look_up();
/// Calls the C library's dlsym from this library.
void* symbol_in(void* handle, const char* name);

}  // namespace penstock::mpi

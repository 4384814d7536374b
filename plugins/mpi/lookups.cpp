#include "lookups.hpp"

#include <dlfcn.h>

#include <algorithm>
#include <cstring>
#include <map>
#include <mutex>
#include <string>
#include <vector>

#include "objects.hpp"
#include "pmpi.hpp"

namespace penstock::mpi {

namespace {

/// The name without its MPI_ or PMPI_ prefix; null if it has neither.
const char* name_in_mpi(const char* name) {
  for (const char* const prefix : {"MPI_", "PMPI_"}) {
    const std::size_t length = std::strlen(prefix);
    if (std::strncmp(name, prefix, length) == 0) return name + length;
  }
  return nullptr;
}

/// Looks up `name` as dlsym does for RTLD_NEXT and code at `caller`.
void* next_after(const void* caller, const char* name) {
  const Place own = place_of(caller);
  const std::vector<std::string> files = loaded_files();
  bool behind = std::find(files.begin(), files.end(), own.file) == files.end();  // the program
  for (const std::string& file : files) {
    if (!behind) {
      behind = file == own.file;
      continue;
    }
    void* const handle = open_loaded(file);
    void* const symbol = handle != nullptr ? symbol_in(handle, name) : nullptr;
    const bool its_own = symbol != nullptr && place_of(symbol).file == file;
    if (handle != nullptr) ::dlclose(handle);
    if (its_own) return symbol;
  }
  return nullptr;
}

/// True if the symbol is in the process's only MPI. False if there are two: we serve neither.
bool lies_in_the_mpi(const void* symbol) {
  static std::mutex mutex;
  static auto* const known = new std::map<const void*, bool>;  // by base; usable in exit handlers
  const Place place = place_of(symbol);
  {
    const std::lock_guard<std::mutex> guard(mutex);
    const auto found = known->find(place.base);
    if (found != known->end()) return found->second;
  }
  // Without the mutex: this takes the loader's lock, which a constructor that calls dlsym holds.
  const bool is = is_the_only_mpi(place);
  const std::lock_guard<std::mutex> guard(mutex);
  return (*known)[place.base] = is;
}

}  // namespace

void* our_symbol(void* handle, const char* name, const void* caller) {
  const char* const in_mpi = name != nullptr ? name_in_mpi(name) : nullptr;
  if (in_mpi == nullptr || handle == RTLD_DEFAULT) return nullptr;
  const void* const symbol =
      handle == RTLD_NEXT ? next_after(caller, name) : symbol_in(handle, name);
  if (symbol == nullptr || is_ours(symbol) || !lies_in_the_mpi(symbol)) return nullptr;
  const Place us = place_of(reinterpret_cast<const void*>(&our_symbol));
  void* const ours = symbol_of(us.file, (std::string("PMPI_") + in_mpi).c_str());
  return ours != nullptr && is_ours(ours) ? ours : nullptr;
}

}  // namespace penstock::mpi

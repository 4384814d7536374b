#include "pmpi.hpp"

#include <dlfcn.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cstring>
#include <mutex>
#include <vector>

#include "base/format.hpp"
#include "base/log.hpp"
#include "objects.hpp"

namespace penstock::mpi {

namespace {

/// The MPI that a search has found.
struct Mpi {
  Library library;
  Pmpi functions;
  Abi abi = Abi::mpich;
  Constants constants;
  Handle (*window_of_fortran)(int) = nullptr;  ///< null in some ABIs; see window_from_fortran
};

/// Guards the variables below. Never held while calling the dynamic linker: a thread that loads a
/// library holds the linker's lock while the library's constructors may call MPI.
std::mutex finding;
std::atomic<bool> found{false};  // stored with release order, after the others
bool tried = false;
Error failure;
Mpi chosen;

std::atomic<void*> scope{nullptr};  // the dlsym scope of the MPI's functions

/// The MPI's PMPI_Init; null if the look-up finds ours, which has the same name.
void* mpi_init_in(void* handle) {
  void* const init = symbol_in(handle, "PMPI_Init");
  return init != nullptr && !is_ours(init) ? init : nullptr;
}

/// The loaded objects that define PMPI_Init, each once.
std::vector<Place> loaded_mpis() {
  std::vector<Place> mpis;
  for (const std::string& file : loaded_files()) {
    void* handle = open_loaded(file);
    if (handle == nullptr) continue;
    const Place place = place_of(mpi_init_in(handle));
    ::dlclose(handle);
    if (place.base == nullptr) continue;
    const bool known = std::any_of(mpis.begin(), mpis.end(),
                                   [&](const Place& mpi) { return mpi.base == place.base; });
    if (!known) mpis.push_back(place);
  }
  return mpis;
}

/// PMPI_Init of the MPI that `caller` calls. Searches the caller's object and its dependencies
/// first: an MPI loaded with RTLD_LOCAL is in no other scope.
void* find_init(const void* caller) {
  if (void* own = open_loaded(place_of(caller).file)) {
    void* const init = mpi_init_in(own);
    ::dlclose(own);
    if (init != nullptr) return init;
  }
  if (void* init = mpi_init_in(RTLD_NEXT)) return init;
  if (void* init = mpi_init_in(RTLD_DEFAULT)) return init;
  for (const Place& mpi : loaded_mpis()) {
    if (void* handle = open_loaded(mpi.file)) return mpi_init_in(handle);
  }
  return nullptr;
}

/// The dlsym scope of the MPI's own library, since a plain look-up would find our PMPI_* first.
/// Null if there is none. The first scope found is kept.
void* scope_of(const void* caller) {
  void* known = scope.load();
  if (known != nullptr) return known;
  void* const init = find_init(caller);
  if (init == nullptr) return nullptr;
  void* const library = open_loaded(place_of(init).file);
  void* const own = library != nullptr ? library : RTLD_NEXT;
  return scope.compare_exchange_strong(known, own) ? own : known;
}

std::string version_text(int (*get)(char*, int*)) {
  std::array<char, 16384> text{};  // MPIs write at most 8192
  int length = 0;
  if (get == nullptr || get(text.data(), &length) != 0) return "of unknown version";
  text.back() = '\0';
  const std::string all = text.data();
  std::string first = all.substr(0, all.find('\n'));
  // Collapses spaces, as in "MPICH Version:      5.0.2".
  std::replace(first.begin(), first.end(), '\t', ' ');
  first.erase(
      std::unique(first.begin(), first.end(), [](char a, char b) { return a == ' ' && b == ' '; }),
      first.end());
  return first;
}

bool starts_with(const std::string& text, const char* start) {
  return text.compare(0, std::strlen(start), start) == 0;
}

/// Checks for the standard ABI first, since such a library may wrap one with Open MPI's symbols;
/// then for Open MPI before MPICH, since both have used libmpi.so.12.
Result<Abi> detect_abi(void* in, const Library& library) {
  if (starts_with(library.soname, "libmpi_abi.so")) return Abi::standard;
  if (symbol_in(in, "ompi_mpi_comm_world") != nullptr) return Abi::open_mpi;
  for (const char* family : {"MPICH", "Intel(R) MPI", "MVAPICH"}) {
    if (library.version.find(family) != std::string::npos) return Abi::mpich;
  }
  if (library.soname == "libmpi.so.12") return Abi::mpich;
  return fail(
      ErrorCode::mismatch,
      "the MPI of this process is {} ({}, soname '{}'), whose binary interface is unknown; known "
      "are MPICH's (libmpi.so.12), Open MPI's (libmpi.so.40) and the standard one "
      "(libmpi_abi.so): build the program with one of these, or start it without "
      "libpenstock-mpi.so in LD_PRELOAD",
      library.file, library.version, library.soname);
}

struct Entry {
  const char* name;
  bool needed;
  void (*set)(Pmpi& functions, void* address);
};
constexpr Entry entries[] = {
#define PENSTOCK_NEEDED(name, arguments)                               \
  {"PMPI_" #name, true, [](Pmpi& functions, void* address) {           \
     functions.name = reinterpret_cast<decltype(Pmpi::name)>(address); \
   }},
#define PENSTOCK_OPTIONAL(name, arguments)                             \
  {"PMPI_" #name, false, [](Pmpi& functions, void* address) {          \
     functions.name = reinterpret_cast<decltype(Pmpi::name)>(address); \
   }},
#include "pmpi_table.inc"
#undef PENSTOCK_NEEDED
#undef PENSTOCK_OPTIONAL
};

Result<void> take_functions(void* in, Mpi& mpi) {
  for (const Entry& entry : entries) {
    void* address = symbol_in(in, entry.name);
    if (address == nullptr && entry.needed) {
      return fail(ErrorCode::mismatch,
                  "{} ({}) has no {}, which every MPI since 3.1 has: use a newer MPI, or start the "
                  "program without libpenstock-mpi.so in LD_PRELOAD",
                  mpi.library.file, mpi.library.version, entry.name);
    }
    entry.set(mpi.functions, address);
  }
  return {};
}

/// The address of the MPI's data in use. A program that is no PIE contains copies of them (copy
/// relocations), which the library uses too. The global scope finds these copies, since it starts
/// with the program.
void* data_symbol(void* in, const char* name) {
  void* global = symbol_in(RTLD_DEFAULT, name);
  return global != nullptr ? global : symbol_in(in, name);
}

Result<void> refuse_second(const Mpi& mpi) {
  for (const Place& other : loaded_mpis()) {
    if (other.base == place_of(reinterpret_cast<const void*>(mpi.functions.Init)).base) continue;
    return fail(
        ErrorCode::mismatch,
        "two MPI libraries are in this process, {} and {}: build the program and its libraries "
        "with one of them (ldd tells which wants which), or start it without "
        "libpenstock-mpi.so in LD_PRELOAD",
        mpi.library.file, other.file);
  }
  return {};
}

Result<Mpi> search(const void* caller) {
  void* const in = scope_of(caller);
  if (in == nullptr) {
    return fail(
        ErrorCode::not_found,
        "no MPI library is loaded in this process (nothing defines PMPI_Init): link the program "
        "with a shared MPI library, or start it without libpenstock-mpi.so in LD_PRELOAD");
  }
  Mpi mpi;
  const void* init = symbol_in(in, "PMPI_Init");
  mpi.library.file = place_of(init).file;
  mpi.library.soname = soname_of(init);
  mpi.library.version = version_text(
      reinterpret_cast<int (*)(char*, int*)>(symbol_in(in, "PMPI_Get_library_version")));
  mpi.abi = PENSTOCK_TRY(detect_abi(in, mpi.library));
  PENSTOCK_TRY(take_functions(in, mpi));
  PENSTOCK_TRY(refuse_second(mpi));
  mpi.constants = PENSTOCK_TRY(constants_of(
      mpi.abi, [in](const char* name) { return data_symbol(in, name); }, mpi.library.version));
  const char* const conversion = mpi.abi == Abi::standard ? "PMPI_Win_fromint" : "PMPI_Win_f2c";
  mpi.window_of_fortran = reinterpret_cast<Handle (*)(int)>(symbol_in(in, conversion));
  return mpi;
}

}  // namespace

const Pmpi& pmpi() {
  return chosen.functions;
}

const Library& library() {
  return chosen.library;
}

Result<void> find_mpi(const void* caller) {
  if (found.load(std::memory_order_acquire)) return {};
  {
    const std::lock_guard<std::mutex> guard(finding);
    if (tried && !found.load(std::memory_order_relaxed)) return unexpected(failure);
  }
  auto mpi = search(caller);
  const std::lock_guard<std::mutex> guard(finding);
  if (found.load(std::memory_order_relaxed)) return {};
  if (tried) return unexpected(failure);
  // If no MPI was found, a plug-in may still load one: search again next time.
  tried = mpi || mpi.error().code != ErrorCode::not_found;
  if (!mpi) {
    failure = mpi.error();
    return unexpected(failure);
  }
  chosen = *std::move(mpi);
  use_abi(chosen.abi, chosen.constants);
  found.store(true, std::memory_order_release);
  base::log(base::Level::debug, "the MPI is {} ({}), {}", chosen.library.file,
            chosen.library.version, abi_name(chosen.abi));
  return {};
}

void* mpi_symbol(const char* name, const void* caller) {
  const std::string wanted = std::string("PMPI_") + name;
  void* const in = scope_of(caller);
  return in != nullptr ? symbol_in(in, wanted.c_str()) : nullptr;
}

void* next_symbol(const char* name, const void* caller) {
  if (void* next = symbol_in(RTLD_NEXT, name)) return next;
  void* own = open_loaded(place_of(caller).file);  // see find_init
  void* symbol = own != nullptr ? symbol_in(own, name) : nullptr;
  return symbol != nullptr && !is_ours(symbol) ? symbol : nullptr;
}

void* library_symbol(const char* name) {
  return symbol_of(chosen.library.file, name);
}

bool is_the_only_mpi(const Place& object) {
  const std::vector<Place> all = loaded_mpis();
  return all.size() == 1 && all.front().base == object.base;
}

bool has_world() {
  int begun = 0, ended = 0;
  chosen.functions.Initialized(&begun);
  chosen.functions.Finalized(&ended);
  return begun != 0 && ended == 0;
}

Handle window_from_fortran(int handle) {
  if (abi() == Abi::mpich || chosen.window_of_fortran == nullptr)
    return static_cast<std::uint32_t>(handle);
  return chosen.window_of_fortran(handle);
}

}  // namespace penstock::mpi

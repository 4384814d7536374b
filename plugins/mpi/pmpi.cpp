#include "pmpi.hpp"

#include <dlfcn.h>
#include <link.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cstring>
#include <mutex>
#include <vector>

#include "base/format.hpp"
#include "base/log.hpp"

namespace penstock::mpi {

namespace {

std::mutex finding;
std::atomic<bool> found{false};  // released after everything below was written
bool tried = false;
Error failure;
Pmpi functions;
Library chosen;
void* scope = nullptr;  // the dlsym scope of the MPI's functions

/// Functions and data of Fortran's handles, which not every ABI has; see from_fortran.
struct Conversions {
  Handle (*from[7])(int) = {};
  int (*to[7])(Handle) = {};
};
Conversions conversions;

/// The place where dlsym found a symbol: the file, and the address that tells two loaded copies
/// apart.
struct PoolMapping {
  std::string file;
  const void* base = nullptr;
};

PoolMapping place_of(const void* address) {
  Dl_info info{};
  if (address == nullptr || ::dladdr(address, &info) == 0) return {};
  return {info.dli_fname != nullptr ? info.dli_fname : "", info.dli_fbase};
}

/// A handle of an object that is already loaded; dlopen knows no name of the program itself.
void* open_loaded(const std::string& file) {
  if (!file.empty()) {
    if (void* handle = ::dlopen(file.c_str(), RTLD_LAZY | RTLD_NOLOAD)) return handle;
  }
  return nullptr;
}

bool has_mpi(void* handle) {
  return ::dlsym(handle, "PMPI_Init") != nullptr;
}

std::vector<std::string> loaded_files() {
  std::vector<std::string> files;
  ::dl_iterate_phdr(
      [](dl_phdr_info* info, std::size_t, void* list) {
        if (info->dlpi_name != nullptr && info->dlpi_name[0] != '\0') {
          static_cast<std::vector<std::string>*>(list)->emplace_back(info->dlpi_name);
        }
        return 0;
      },
      &files);
  return files;
}

/// The loaded objects that themselves define PMPI_Init, each once.
std::vector<PoolMapping> loaded_mpis() {
  std::vector<PoolMapping> mpis;
  for (const std::string& file : loaded_files()) {
    void* handle = open_loaded(file);
    if (handle == nullptr) continue;
    const PoolMapping place = place_of(::dlsym(handle, "PMPI_Init"));
    ::dlclose(handle);
    if (place.base == nullptr) continue;
    const bool known = std::any_of(mpis.begin(), mpis.end(),
                                   [&](const PoolMapping& mpi) { return mpi.base == place.base; });
    if (!known) mpis.push_back(place);
  }
  return mpis;
}

/// The dlsym scope for functions of the MPI that `caller` calls. Its own object and the
/// dependencies of that come first: an MPI loaded RTLD_LOCAL is in no other scope.
void* find_scope(const void* caller) {
  if (void* own = open_loaded(place_of(caller).file)) {
    if (has_mpi(own)) return own;
    ::dlclose(own);
  }
  if (has_mpi(RTLD_NEXT)) return RTLD_NEXT;
  if (has_mpi(RTLD_DEFAULT)) return RTLD_DEFAULT;
  for (const PoolMapping& mpi : loaded_mpis()) {
    if (void* handle = open_loaded(mpi.file)) return handle;
  }
  return nullptr;
}

const ElfW(Dyn) * dynamic_of(const void* address) {
  Dl_info info{};
  link_map* map = nullptr;
  if (::dladdr1(address, &info, reinterpret_cast<void**>(&map), RTLD_DL_LINKMAP) == 0)
    return nullptr;
  return map != nullptr ? map->l_ld : nullptr;
}

std::string soname_of(const void* address) {
  const ElfW(Dyn)* dynamic = dynamic_of(address);
  if (dynamic == nullptr) return "";
  const char* strings = nullptr;
  std::size_t soname = 0;
  bool named = false;
  for (; dynamic->d_tag != DT_NULL; ++dynamic) {
    if (dynamic->d_tag == DT_STRTAB) strings = reinterpret_cast<const char*>(dynamic->d_un.d_ptr);
    if (dynamic->d_tag == DT_SONAME) {
      soname = dynamic->d_un.d_val;
      named = true;
    }
  }
  return named && strings != nullptr ? strings + soname : "";
}

std::string version_text(int (*get)(char*, int*)) {
  std::array<char, 16384> text{};  // the longest of all MPIs is 8192
  int length = 0;
  if (get == nullptr || get(text.data(), &length) != 0) return "of unknown version";
  text.back() = '\0';
  const std::string all = text.data();
  std::string first = all.substr(0, all.find('\n'));
  // "MPICH Version:      5.0.2"
  std::replace(first.begin(), first.end(), '\t', ' ');
  first.erase(
      std::unique(first.begin(), first.end(), [](char a, char b) { return a == ' ' && b == ' '; }),
      first.end());
  return first;
}

bool starts_with(const std::string& text, const char* start) {
  return text.compare(0, std::strlen(start), start) == 0;
}

/// Checks the standard ABI first: such a library may wrap one with Open MPI's symbols. Then Open
/// MPI before MPICH: both had libmpi.so.12.
Result<Abi> tell_abi(const Library& library) {
  if (starts_with(library.soname, "libmpi_abi.so")) return Abi::standard;
  if (::dlsym(scope, "ompi_mpi_comm_world") != nullptr) return Abi::open_mpi;
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
  void (*set)(void* address);
};
constexpr Entry entries[] = {
#define PENSTOCK_NEEDED(name, arguments) \
  {"PMPI_" #name, true,                  \
   [](void* address) { functions.name = reinterpret_cast<decltype(Pmpi::name)>(address); }},
#define PENSTOCK_OPTIONAL(name, arguments) \
  {"PMPI_" #name, false,                   \
   [](void* address) { functions.name = reinterpret_cast<decltype(Pmpi::name)>(address); }},
#include "pmpi_table.inc"
#undef PENSTOCK_NEEDED
#undef PENSTOCK_OPTIONAL
};

Result<void> take_functions() {
  for (const Entry& entry : entries) {
    void* address = ::dlsym(scope, entry.name);
    if (address == nullptr && entry.needed) {
      return fail(ErrorCode::mismatch,
                  "{} ({}) has no {}, which every MPI since 3.1 has: use a newer MPI, or start the "
                  "program without libpenstock-mpi.so in LD_PRELOAD",
                  chosen.file, chosen.version, entry.name);
    }
    entry.set(address);
  }
  return {};
}

void take_conversions() {
  // In the order of Kind.
  static constexpr const char* kinds[] = {"Win", "Type", "Op", "Info", "Comm", "Group", "Request"};
  const bool standard = abi() == Abi::standard;
  for (std::size_t n = 0; n < std::size(kinds); ++n) {
    const std::string name = std::string("PMPI_") + kinds[n];
    conversions.from[n] = reinterpret_cast<Handle (*)(int)>(
        ::dlsym(scope, (name + (standard ? "_fromint" : "_f2c")).c_str()));
    conversions.to[n] = reinterpret_cast<int (*)(Handle)>(
        ::dlsym(scope, (name + (standard ? "_toint" : "_c2f")).c_str()));
  }
}

/// The address of the MPI's data in use: a program that is no PIE holds copies of them (copy
/// relocations), which the library uses too. The global scope, which starts with the program,
/// finds them.
void* data_symbol(const char* name) {
  void* global = ::dlsym(RTLD_DEFAULT, name);
  return global != nullptr ? global : ::dlsym(scope, name);
}

Result<void> refuse_second() {
  for (const PoolMapping& mpi : loaded_mpis()) {
    if (mpi.base == place_of(reinterpret_cast<const void*>(functions.Init)).base) continue;
    return fail(
        ErrorCode::mismatch,
        "two MPI libraries are in this process, {} and {}: build the program and its libraries "
        "with one of them (ldd tells which wants which), or start it without "
        "libpenstock-mpi.so in LD_PRELOAD",
        chosen.file, mpi.file);
  }
  return {};
}

Result<void> find(const void* caller) {
  if (scope == nullptr) scope = find_scope(caller);
  if (scope == nullptr) {
    return fail(
        ErrorCode::not_found,
        "no MPI library is loaded in this process (nothing defines PMPI_Init): link the program "
        "with a shared MPI library, or start it without libpenstock-mpi.so in LD_PRELOAD");
  }
  const void* init = ::dlsym(scope, "PMPI_Init");
  chosen.file = place_of(init).file;
  chosen.soname = soname_of(init);
  chosen.version = version_text(
      reinterpret_cast<int (*)(char*, int*)>(::dlsym(scope, "PMPI_Get_library_version")));
  const auto told = PENSTOCK_TRY(tell_abi(chosen));
  if (auto taken = take_functions(); !taken) return taken;
  if (auto one = refuse_second(); !one) return one;
  if (auto used = use_abi(told, data_symbol, chosen.version); !used) return used;
  base::log(base::Level::debug, "the MPI is {} ({}), {}", chosen.file, chosen.version,
            abi_name(told));
  take_conversions();
  return {};
}

}  // namespace

const Pmpi& pmpi() {
  return functions;
}

const Library& library() {
  return chosen;
}

Result<void> find_mpi(const void* caller) {
  if (found.load(std::memory_order_acquire)) return {};
  const std::lock_guard<std::mutex> guard(finding);
  if (found.load(std::memory_order_relaxed)) return {};
  if (tried) return unexpected(failure);
  auto done = find(caller);
  // Without any MPI one may still be loaded, by a plug-in.
  tried = done || done.error().code != ErrorCode::not_found;
  if (!done) {
    failure = done.error();
    return done;
  }
  found.store(true, std::memory_order_release);
  return {};
}

void* mpi_symbol(const char* name, const void* caller) {
  const std::string wanted = std::string("PMPI_") + name;
  const std::lock_guard<std::mutex> guard(finding);
  if (scope == nullptr) scope = find_scope(caller);
  return scope != nullptr ? ::dlsym(scope, wanted.c_str()) : nullptr;
}

void* next_symbol(const char* name, const void* caller) {
  if (void* next = ::dlsym(RTLD_NEXT, name)) return next;
  void* own = open_loaded(place_of(caller).file);  // see find_scope
  void* symbol = own != nullptr ? ::dlsym(own, name) : nullptr;
  const void* us = place_of(reinterpret_cast<const void*>(&next_symbol)).base;
  return place_of(symbol).base != us ? symbol : nullptr;
}

void* library_symbol(const char* name) {
  static void* const handle = open_loaded(chosen.file);
  return handle != nullptr ? ::dlsym(handle, name) : nullptr;
}

Handle from_fortran(Kind kind, int handle) {
  const auto convert = conversions.from[static_cast<std::size_t>(kind)];
  if (abi() == Abi::mpich || convert == nullptr) return static_cast<std::uint32_t>(handle);
  return convert(handle);
}

int to_fortran(Kind kind, Handle handle) {
  const auto convert = conversions.to[static_cast<std::size_t>(kind)];
  if (abi() == Abi::mpich || convert == nullptr) return static_cast<int>(handle);
  return convert(handle);
}

}  // namespace penstock::mpi

#include "objects.hpp"

#include <dlfcn.h>
#include <link.h>

#include <atomic>
#include <cstddef>

namespace penstock::mpi {

Place place_of(const void* address) {
  Dl_info info{};
  if (address == nullptr || ::dladdr(address, &info) == 0) return {};
  return {info.dli_fname != nullptr ? info.dli_fname : "", info.dli_fbase};
}

// Results of the dynamic linker are cached in atomics, not in local statics. Initializing a static
// holds a lock while it waits for the linker's lock; a thread that loads a library may hold that
// one and call MPI, which would deadlock.

bool is_ours(const void* address) {
  static std::atomic<const void*> known{nullptr};
  const void* us = known.load(std::memory_order_relaxed);
  if (us == nullptr) known = us = place_of(reinterpret_cast<const void*>(&is_ours)).base;
  return place_of(address).base == us;
}

void* open_loaded(const std::string& file) {
  return file.empty() ? nullptr : ::dlopen(file.c_str(), RTLD_LAZY | RTLD_NOLOAD);
}

void* symbol_of(const std::string& file, const char* name) {
  void* const handle = open_loaded(file);
  if (handle == nullptr) return nullptr;
  void* const symbol = symbol_in(handle, name);
  ::dlclose(handle);
  return symbol;
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

std::string soname_of(const void* address) {
  Dl_info info{};
  link_map* map = nullptr;
  if (::dladdr1(address, &info, reinterpret_cast<void**>(&map), RTLD_DL_LINKMAP) == 0 ||
      map == nullptr)
    return "";
  const char* strings = nullptr;
  std::size_t soname = 0;
  bool named = false;
  for (const ElfW(Dyn)* entry = map->l_ld; entry->d_tag != DT_NULL; ++entry) {
    if (entry->d_tag == DT_STRTAB) strings = reinterpret_cast<const char*>(entry->d_un.d_ptr);
    if (entry->d_tag == DT_SONAME) {
      soname = entry->d_un.d_val;
      named = true;
    }
  }
  return named && strings != nullptr ? strings + soname : "";
}

LookUp* look_up() {
  static std::atomic<LookUp*> known{nullptr};
  if (LookUp* const found = known.load(std::memory_order_relaxed)) return found;
    // With a version, since without one we would find our own dlsym. The oldest version comes
    // first, since every glibc has it: a failed look-up allocates, and the caller may be an
    // allocator that is not ready yet.
#if defined(__x86_64__)
  constexpr const char* oldest = "GLIBC_2.2.5";
#else
  constexpr const char* oldest = "GLIBC_2.17";
#endif
  for (const char* const version : {oldest, "GLIBC_2.34"}) {
    if (void* const theirs = ::dlvsym(RTLD_NEXT, "dlsym", version)) {
      known = reinterpret_cast<LookUp*>(theirs);
      break;
    }
  }
  return known;
}

void* symbol_in(void* handle, const char* name) {
  LookUp* const look = look_up();
  return look != nullptr ? look(handle, name) : nullptr;
}

}  // namespace penstock::mpi

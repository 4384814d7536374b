#include "f08_caller.hpp"

#include <dlfcn.h>
#include <link.h>

#include <atomic>
#include <cstring>

#include "fortran.hpp"

namespace penstock::mpi {

namespace {

/// The object at `base` has itself an mpi_f08.
bool has_f08(const Dl_info& object) {
  static std::atomic<const void*> with{nullptr}, without{nullptr};
  if (object.dli_fbase == with.load(std::memory_order_relaxed)) return true;
  if (object.dli_fbase == without.load(std::memory_order_relaxed)) return false;
  void* const handle = ::dlopen(object.dli_fname, RTLD_LAZY | RTLD_NOLOAD);
  void* const symbol = handle != nullptr ? ::dlsym(handle, "mpi_wait_f08_") : nullptr;
  if (handle != nullptr) ::dlclose(handle);
  Dl_info of_symbol{};
  const bool has = symbol != nullptr && ::dladdr(symbol, &of_symbol) != 0 &&
                   of_symbol.dli_fbase == object.dli_fbase;
  (has ? with : without).store(object.dli_fbase, std::memory_order_relaxed);
  return has;
}

bool is_called_by_f08(const void* caller) {
  Dl_info object{};
  const ElfW(Sym)* symbol = nullptr;
  if (::dladdr1(caller, &object, const_cast<void**>(reinterpret_cast<const void**>(&symbol)),
                RTLD_DL_SYMENT) == 0 ||
      !has_f08(object))
    return false;
  // The functions of mpif.h are all seen from outside; those between are perhaps not.
  const char* const begin = static_cast<const char*>(object.dli_saddr);
  const bool seen = object.dli_sname != nullptr && symbol != nullptr &&
                    static_cast<const char*>(caller) <= begin + symbol->st_size;
  return !seen || std::strstr(object.dli_sname, "cdesc") != nullptr ||
         std::strstr(object.dli_sname, "f08") != nullptr;
}

}  // namespace

bool ends_at_the_mpi(const void* caller) {
  return !fortran::serves_f08_logical(caller) && is_called_by_f08(caller);
}

}  // namespace penstock::mpi

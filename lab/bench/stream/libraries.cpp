#include "bench/stream/libraries.hpp"

#include <dlfcn.h>

#include "base/format.hpp"

namespace penstock::bench::stream {

namespace {

/// Sets `function` to the first library's function of that name; an error names it if none has one.
template <class Function>
const char* find(Function& function, const char* name, void* library, void* other = nullptr) {
  void* symbol = dlsym(library, name);
  if (symbol == nullptr && other != nullptr) symbol = dlsym(other, name);
  function = reinterpret_cast<Function>(symbol);
  return symbol == nullptr ? name : nullptr;
}

Result<void> lacks(const char* library, const char* function, const char* package) {
  return fail(ErrorCode::not_found, "{} has no function {}: install a newer {}", library, function,
              package);
}

Result<NumaLibrary> load_numa() {
  void* const handle = dlopen("libnuma.so.1", RTLD_NOW | RTLD_LOCAL);
  if (handle == nullptr)
    return fail(ErrorCode::not_found, "libnuma cannot be loaded ({}): apt-get install libnuma1",
                dlerror());
  NumaLibrary library;
  const char* missing = nullptr;
#define PENSTOCK_STREAM_NUMA(result, name, arguments) \
  if (missing == nullptr) missing = find(library.name, #name, handle);
#include "bench/stream/library_tables.inc"
#undef PENSTOCK_STREAM_NUMA
  if (missing != nullptr)
    if (auto checked = lacks("libnuma.so.1", missing, "libnuma1"); !checked)
      return unexpected(checked.error());
  if (library.numa_available() < 0)
    return fail(ErrorCode::unavailable,
                "the kernel binds no memory to NUMA nodes here: in a container allow mbind "
                "(--cap-add SYS_NICE), or use the target memory");
  library.numa_set_bind_policy(1);  // on this node or not at all
  return library;
}

Result<PmemLibrary> load_pmem() {
  void* const handle = dlopen("libpmemobj.so.1", RTLD_NOW | RTLD_LOCAL);
  void* const below = handle == nullptr ? nullptr : dlopen("libpmem.so.1", RTLD_NOW | RTLD_LOCAL);
  if (below == nullptr)
    return fail(ErrorCode::not_found,
                "libpmemobj cannot be loaded ({}): apt-get install libpmemobj1", dlerror());
  PmemLibrary library;
  library.library = handle;
  const char* missing = nullptr;
#define PENSTOCK_STREAM_PMEM(result, name, arguments) \
  if (missing == nullptr) missing = find(library.name, #name, handle, below);
#include "bench/stream/library_tables.inc"
#undef PENSTOCK_STREAM_PMEM
  library.invalidated = static_cast<const int*>(dlsym(handle, "_pobj_cache_invalidate"));
  if (missing == nullptr && library.invalidated == nullptr) missing = "_pobj_cache_invalidate";
  if (missing == nullptr && dlsym(handle, "_pobj_cached_pool") == nullptr)
    missing = "_pobj_cached_pool";
  if (missing != nullptr)
    if (auto checked = lacks("libpmemobj.so.1", missing, "libpmemobj1"); !checked)
      return unexpected(checked.error());
  return library;
}

}  // namespace

PmemPoolCache& PmemLibrary::cache() const {
  return *static_cast<PmemPoolCache*>(dlsym(library, "_pobj_cached_pool"));
}

Result<const NumaLibrary*> numa_library() {
  static const Result<NumaLibrary> loaded = load_numa();
  if (!loaded) return unexpected(loaded.error());
  return &*loaded;
}

Result<const PmemLibrary*> pmem_library() {
  static const Result<PmemLibrary> loaded = load_pmem();
  if (!loaded) return unexpected(loaded.error());
  return &*loaded;
}

}  // namespace penstock::bench::stream

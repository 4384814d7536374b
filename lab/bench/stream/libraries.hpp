// libnuma and libpmemobj, loaded at first use: no product needs them to be built or to start.
// Signatures are those of numa.h 2.0 and libpmemobj.h 1.12; libraries_test compares them if these
// headers are installed.
#pragma once

#include <setjmp.h>

#include <cstddef>
#include <cstdint>

#include "base/status.hpp"

struct pmemobjpool;

namespace penstock::bench::stream {

/// PMEMoid: identifies an object by its pool and its place in it.
struct PmemObject {
  std::uint64_t pool = 0, offset = 0;
};
/// _pobj_pcache: the pool that the calling thread translated last.
struct PmemPoolCache {
  pmemobjpool* pool;
  std::uint64_t id;
  int invalidated;
};

struct NumaLibrary {
#define PENSTOCK_STREAM_NUMA(result, name, arguments) result(*name) arguments = nullptr;
#include "bench/stream/library_tables.inc"
#undef PENSTOCK_STREAM_NUMA
};

struct PmemLibrary {
#define PENSTOCK_STREAM_PMEM(result, name, arguments) result(*name) arguments = nullptr;
#include "bench/stream/library_tables.inc"
#undef PENSTOCK_STREAM_PMEM

  /// Read by pmemobj_direct's inline code: the calling thread's cache, and the count of pools
  /// closed since.
  const volatile int* invalidated = nullptr;
  PmemPoolCache& cache() const;
  void* library = nullptr;
};

/// Errors: not_found, which names the package to install; unavailable if the kernel has no NUMA.
Result<const NumaLibrary*> numa_library();
/// Errors: not_found, which names the package to install.
Result<const PmemLibrary*> pmem_library();

}  // namespace penstock::bench::stream

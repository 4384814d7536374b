// Our declarations of libnuma and libpmemobj match their headers, if these are installed.
#include "bench/stream/libraries.hpp"

#include <gtest/gtest.h>

#include <cstddef>
#include <type_traits>

#if __has_include(<numa.h>)
#include <numa.h>
#define SAME_NUMA(name) \
  static_assert(        \
      std::is_same_v<decltype(&::name), decltype(penstock::bench::stream::NumaLibrary::name)>)
SAME_NUMA(numa_available);
SAME_NUMA(numa_set_bind_policy);
SAME_NUMA(numa_alloc_onnode);
SAME_NUMA(numa_free);
SAME_NUMA(numa_move_pages);
#endif

#if __has_include(<libpmemobj.h>) && __has_include(<libpmem.h>)
#include <libpmem.h>
#include <libpmemobj.h>
#define SAME_PMEM(name) \
  static_assert(        \
      std::is_same_v<decltype(&::name), decltype(penstock::bench::stream::PmemLibrary::name)>)
SAME_PMEM(pmemobj_create);
SAME_PMEM(pmemobj_close);
SAME_PMEM(pmemobj_errormsg);
SAME_PMEM(pmemobj_flush);
SAME_PMEM(pmemobj_drain);
SAME_PMEM(pmemobj_tx_begin);
SAME_PMEM(pmemobj_tx_xadd_range_direct);
SAME_PMEM(pmemobj_tx_commit);
SAME_PMEM(pmemobj_tx_end);
SAME_PMEM(pmem_is_pmem);
SAME_PMEM(pmem_has_auto_flush);
using penstock::bench::stream::PmemObject;
using penstock::bench::stream::PmemPoolCache;
static_assert(sizeof(PmemObject) == sizeof(PMEMoid));
static_assert(offsetof(PmemObject, pool) == offsetof(PMEMoid, pool_uuid_lo));
static_assert(offsetof(PmemObject, offset) == offsetof(PMEMoid, off));
static_assert(sizeof(PmemPoolCache) == sizeof(struct _pobj_pcache));
static_assert(offsetof(PmemPoolCache, id) == offsetof(struct _pobj_pcache, uuid_lo));
static_assert(offsetof(PmemPoolCache, invalidated) == offsetof(struct _pobj_pcache, invalidate));
static_assert(POBJ_XADD_NO_SNAPSHOT == 1 << 2);
#endif

namespace penstock::bench::stream {
namespace {

TEST(StreamLibraries, AreThereOrSayWhatToInstall) {
  const auto numa = numa_library();
  if (!numa && numa.error().code == ErrorCode::not_found) {
    EXPECT_NE(numa.error().message.find("apt-get install libnuma1"), std::string::npos);
  }
  const auto pmem = pmem_library();
  if (!pmem) {
    EXPECT_NE(pmem.error().message.find("apt-get install libpmemobj1"), std::string::npos);
  }
}

}  // namespace
}  // namespace penstock::bench::stream

// The symbol that libfabric looks for, and one for libpenstock-mpi.so.
#include <rdma/providers/fi_prov.h>

#include "domain.hpp"
#include "info.hpp"
#include "lib.hpp"

namespace {

void cleanup() {}

fi_provider provider = {
    .version = penstock::ofi::provider_version,
    .fi_version = 0,
    .context = {},
    .name = penstock::ofi::provider_name,
    .getinfo = penstock::ofi::getinfo,
    .fabric = penstock::ofi::open_fabric,
    .cleanup = cleanup,
};

}  // namespace

/// The number of domains that this process has opened so far. It tells libpenstock-mpi.so whether
/// the MPI uses this provider.
extern "C" __attribute__((visibility("default"))) unsigned penstock_provider_domains(void) {
  return penstock::ofi::domains_opened();
}

extern "C" __attribute__((visibility("default"))) fi_provider* fi_prov_ini(void) {
  // Report the version of the library that loads us: it skips providers that are older than the
  // version that an application asks for.
  provider.fi_version = fi_version();
  penstock::ofi::use_library_log(&provider);
  return &provider;
}

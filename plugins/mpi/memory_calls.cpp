// MPI_Alloc_mem and MPI_Free_mem.
#include "attachment.hpp"
#include "base/log.hpp"
#include "export.hpp"

namespace {

using namespace penstock::mpi;

void say_full_once(const penstock::Error& error) {
  static std::atomic<bool> said{false};
  if (!said.exchange(true))
    penstock::base::log(penstock::base::Level::warn, "MPI_Alloc_mem gives the MPI's own memory: {}",
                        error.message);
}

}  // namespace

PENSTOCK_MPI(Alloc_mem, (Aint size, Handle info, void* base), (size, info, base)) {
  Attachment* const at = usable(caller) ? attachment() : nullptr;
  if (at != nullptr && size > 0) {
    const auto given = at->memory.allocate(static_cast<std::uint64_t>(size));
    if (given) {
      *static_cast<void**>(base) = *given;
      return constants().success;
    }
    say_full_once(given.error());
  }
  return PENSTOCK_PASS(Alloc_mem, (size, info, base));
}

PENSTOCK_MPI(Free_mem, (void* base), (base)) {
  Attachment* const at = usable(caller) ? attachment() : nullptr;
  if (at != nullptr && at->memory.free(base)) return constants().success;
  return PENSTOCK_PASS(Free_mem, (base));
}

/// The libfabric provider looks for this symbol. It says that the program does not know that its
/// memory lies in a pool, so peers must not write there behind the program's caches.
PENSTOCK_EXPORT const int mpi_penstock_gives_pool_memory = 1;

// The calls that free communicators; and MPI_Comm_split_type by the shared pool, with
// "penstock_pool" as info key or as resource type of MPI_COMM_TYPE_HW_GUIDED.
#include <vector>

#include "attachment.hpp"
#include "export.hpp"
#include "info.hpp"
#include "pool_comms.hpp"
#include "taking_part.hpp"

namespace {

using namespace penstock::mpi;

constexpr const char* key_name = "penstock_pool";

bool wants_pool(int type, Handle info) {
  if (info_says_true(info, key_name)) return true;
  const bool guided = type != absent && (type == constants().comm_type_hw_guided ||
                                         type == constants().comm_type_resource_guided);
  return guided && info_value(info, "mpi_hw_resource_type") == key_name;
}

/// Splits `comm` by pool. Collective. Ranks without a pool get MPI_COMM_NULL.
int split_by_pool(Handle comm, int type, int key, void* part) {
  const Constants& mpi = constants();
  const Attachment* const at = attachment();
  int size = 0;
  if (const int status = pmpi().Comm_size(comm, &size); status != mpi.success) return status;
  const std::uint64_t own = at != nullptr && type != mpi.undefined ? at->pool().info().id : 0;
  std::vector<std::uint64_t> all(static_cast<std::size_t>(size));
  const int status =
      pmpi().Allgather(&own, sizeof own, mpi.byte, all.data(), sizeof own, mpi.byte, comm);
  if (status != mpi.success) return status;
  int color = mpi.undefined;
  for (int rank = size - 1; own != 0 && rank >= 0; --rank) {
    if (all[static_cast<std::size_t>(rank)] == own) color = rank;
  }
  return pmpi().Comm_split(comm, color, key, part);
}

/// Frees the communicator by `end`, one of the MPI's functions.
int while_it_ends(void* comm, int (*end)(void* comm)) {
  const Handle handle = load(comm);
  begin_to_free(handle);
  const int status = end(comm);
  end_to_free(handle);
  return status;
}

}  // namespace

PENSTOCK_MPI(Comm_split_type, (Handle comm, int type, int key, Handle info, void* part),
             (comm, type, key, info, part)) {
  if (usable(caller) && wants_pool(type, incoming(info)) &&
      all_take_part(incoming(comm), Shared::windows))
    return split_by_pool(incoming(comm), type, key, part);
  return PENSTOCK_PASS(Comm_split_type, (comm, type, key, info, part));
}

PENSTOCK_MPI(Comm_free, (void* comm), (comm)) {
  if (!usable(caller)) return PENSTOCK_PASS(Comm_free, (comm));
  return while_it_ends(comm, pmpi().Comm_free);
}

PENSTOCK_MPI(Comm_disconnect, (void* comm), (comm)) {
  if (!usable(caller)) return PENSTOCK_PASS(Comm_disconnect, (comm));
  return while_it_ends(comm, pmpi().Comm_disconnect);
}

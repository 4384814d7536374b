// Communicators whose collectives go through the pool. Each belongs to a communicator of the MPI,
// and ends with it, by an attribute.
#pragma once

#include <atomic>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "abi.hpp"
#include "arena/arena.hpp"
#include "coll/queue.hpp"
#include "collective_arguments.hpp"

namespace penstock::mpi {

struct PoolComm : std::enable_shared_from_this<PoolComm> {
  Handle handle = 0;
  /// Where the MPI is asked to go on while this rank waits, and told of errors of calls that did
  /// not block: MPI_COMM_WORLD, once the communicator is being freed.
  std::atomic<Handle> alive = 0;
  std::unique_ptr<coll::Communicator> core;
  std::optional<coll::CallQueue> queue;
  std::vector<arena::Object> areas;  ///< of rank 0, which owns them
  CollectiveArguments arguments;     ///< of blocking calls
  std::string tuning_origin;
  /// Freed by the program; this rank leaves it when all its calls are over.
  std::atomic<bool> ended{false};
  std::mutex asking;  ///< held while the MPI is asked on `alive`

  std::uint32_t ranks() const { return core->ranks(); }
  std::uint32_t self() const { return core->self(); }
};

/// Whether a call may wait for the other ranks: not a nonblocking one.
enum class MayWait : std::uint8_t { no, yes };

/// To be called in every collective call that could go through the pool, on all ranks. The
/// communicator's first calls go to the MPI, so that one that lives shortly costs nothing; then its
/// ranks agree whether the pool serves them: at once in a call that may wait, else while further
/// calls go to the MPI. Null: the call goes to the MPI. Valid until the communicator is freed, or
/// as long as it is shared.
PoolComm* pool_comm(Handle comm, MayWait may_wait);
/// Leaves those that the program has freed and whose calls are over meanwhile.
void leave_ended_comms();

/// Round MPI_Comm_free and MPI_Comm_disconnect: in between the communicator's calls go to the MPI.
void begin_to_free(Handle comm);
void end_to_free(Handle comm);

/// This rank has finished all its collectives (MPI_Finalize). Waits for the other ranks of those
/// communicators whose space it owns.
void leave_all_comms();
/// The same without a wait, for a process that ends without MPI_Finalize.
void drop_all_comms();

}  // namespace penstock::mpi

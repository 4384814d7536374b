// Communicators whose collectives go through the pool. Each belongs to a communicator of the MPI;
// an attribute there ends it together with the MPI's communicator.
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
  /// The MPI communicator to probe while this rank waits, and to report errors of nonblocking calls
  /// on. MPI_COMM_WORLD once `handle` is being freed.
  std::atomic<Handle> alive = 0;
  std::unique_ptr<coll::Communicator> core;
  std::optional<coll::CallQueue> queue;
  std::vector<arena::Object> areas;  ///< the memory; only on rank 0, which owns it
  CollectiveArguments arguments;     ///< arguments of blocking calls
  std::string tuning_origin;
  /// The program has freed the communicator; this rank leaves it when its calls have ended.
  std::atomic<bool> ended{false};
  std::mutex asking;  ///< held while the MPI is probed on `alive`

  std::uint32_t ranks() const { return core->ranks(); }
  std::uint32_t self() const { return core->self(); }
};

/// Whether a call may wait for the other ranks. Nonblocking calls may not.
enum class MayWait : std::uint8_t { no, yes };

/// Returns the pool's communicator, or null if the call goes to the MPI. All ranks must call this
/// in every collective call that could go through the pool. The first calls go to the MPI, so that
/// short-lived communicators cost nothing. Then the ranks agree whether the pool serves them: at
/// once in a call that may wait, otherwise while further calls go to the MPI. The result is valid
/// until the communicator is freed, or while a shared_ptr to it exists.
PoolComm* pool_comm(Handle comm, MayWait may_wait);
/// Leaves the communicators that the program has freed and whose calls have ended.
void leave_ended_comms();

/// Bracket MPI_Comm_free and MPI_Comm_disconnect. In between, the communicator's calls go to the
/// MPI.
void begin_to_free(Handle comm);
void end_to_free(Handle comm);

/// Leaves all communicators after this rank's last collective (MPI_Finalize). Waits for the other
/// ranks of communicators whose memory this rank owns.
void leave_all_comms();
/// Drops all communicators without waiting, in a process that ends without MPI_Finalize.
void drop_all_comms();

}  // namespace penstock::mpi

// Communicators whose collectives go through the pool. Each belongs to a communicator of the MPI,
// and ends with it, by an attribute.
#pragma once

#include <memory>
#include <optional>

#include "abi.hpp"
#include "arena/arena.hpp"
#include "coll/communicator.hpp"

namespace penstock::mpi {

/// `elements` of a type at an offset from a buffer's address.
struct Piece {
  std::int64_t at = 0;
  std::uint64_t elements = 0;
};

/// Of a call's input or output. Kept, so that a call allocates nothing once it was made before.
struct SideMemory {
  std::vector<Piece> pieces;
  std::vector<std::byte> packed;
};

struct PoolComm {
  Handle handle = 0;
  Handle probed = 0;  ///< where the MPI is asked to go on while this rank waits
  std::unique_ptr<coll::Communicator> core;
  std::optional<arena::Object> area;  ///< of rank 0, which owns it
  coll::Problem problem;              ///< of the call in progress
  SideMemory input, output;

  std::uint32_t ranks() const { return core->ranks(); }
  std::uint32_t self() const { return core->self(); }
};

/// To be called in every blocking collective call that could go through the pool, on all ranks. The
/// communicator's first calls go to the MPI, so that one that lives shortly costs nothing; then its
/// ranks agree whether the pool serves them. Null: the call goes to the MPI. Valid until the
/// communicator is freed.
PoolComm* pool_comm(Handle comm);

/// Round MPI_Comm_free and MPI_Comm_disconnect: in between the communicator's calls go to the MPI.
void begin_to_free(Handle comm);
void end_to_free(Handle comm);

/// This rank has finished all its collectives (MPI_Finalize). Waits for the other ranks of those
/// communicators whose space it owns.
void leave_all_comms();
/// The same without a wait, for a process that ends without MPI_Finalize.
void drop_all_comms();

}  // namespace penstock::mpi

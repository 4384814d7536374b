// Advances nonblocking collective calls: in calls of the program, and in a thread while the program
// computes or is in other calls of the MPI. The thread never calls the MPI, and sleeps while no
// call is outstanding.
#pragma once

#include <memory>

#include "pool_comms.hpp"

namespace penstock::mpi {

/// Advances the communicator's outstanding calls until they have ended.
void drive(const std::shared_ptr<PoolComm>& comm);
/// Polls all outstanding calls once. Cheap if there are none.
void advance_queues();
/// Stops the thread, before the pool is detached.
void end_queue_thread();

/// Held while a thread of the program waits and drives all queues itself.
class DrivingHere {
 public:
  DrivingHere();
  ~DrivingHere();
  DrivingHere(const DrivingHere&) = delete;
  DrivingHere& operator=(const DrivingHere&) = delete;
};

}  // namespace penstock::mpi

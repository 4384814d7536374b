// Goes on with collective calls that do not block, in calls of the program and in a thread of its
// own while the program computes, or is in calls of the MPI that are not ours. The thread never
// calls the MPI. It sleeps while nothing is outstanding.
#pragma once

#include <memory>

#include "pool_comms.hpp"

namespace penstock::mpi {

/// The communicator has calls outstanding: goes on with them until they are over.
void drive(const std::shared_ptr<PoolComm>& comm);
/// One look at all calls that are outstanding. Cheap where there are none.
void advance_queues();
/// Stops the thread, before the pool is detached.
void end_queue_thread();

/// Held while a thread of the program waits, and so drives all queues itself.
class DrivingHere {
 public:
  DrivingHere();
  ~DrivingHere();
  DrivingHere(const DrivingHere&) = delete;
  DrivingHere& operator=(const DrivingHere&) = delete;
};

}  // namespace penstock::mpi

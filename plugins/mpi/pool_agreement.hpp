// How the ranks of a communicator agree that its collectives go through the pool.
#pragma once

#include <memory>
#include <optional>
#include <vector>

#include "attachment.hpp"
#include "coll/agreement.hpp"
#include "pool_comms.hpp"

namespace penstock::mpi {

/// True if the pool may serve the communicator: it has at least two ranks, all of them take part,
/// and the program called MPI_Init. The same on all ranks.
bool may_be_ours(Handle comm);

class Agreement {
 public:
  explicit Agreement(Handle comm);
  Agreement(const Agreement&) = delete;
  Agreement& operator=(const Agreement&) = delete;

  void exchange();
  /// Starts exchange() without waiting. This object and the communicator must live until it is
  /// over.
  void begin_to_exchange();
  bool is_exchanged();
  void wait_until_exchanged();

  /// Makes the communicator in the pool, after the exchange. Null, on all ranks, if the MPI serves
  /// it.
  std::shared_ptr<PoolComm> make();
  /// Defers the reclaim of the offered memory, for a process that ends before make().
  void drop();

 private:
  void offer();
  bool acceptable() const;
  std::shared_ptr<PoolComm> open();

  Attachment* at_;
  Handle comm_;
  int size_ = 0, rank_ = 0;
  std::optional<coll::Agreement> agreement_;
  coll::Offer own_;
  std::vector<coll::Offer> offers_;  ///< exchanged in one MPI_Allgather
  Slot request_;
};

}  // namespace penstock::mpi

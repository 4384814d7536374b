// How the ranks of a communicator agree that its collectives go through the pool.
#pragma once

#include <memory>
#include <optional>
#include <vector>

#include "attachment.hpp"
#include "coll/agreement.hpp"
#include "pool_comms.hpp"

namespace penstock::mpi {

/// Two ranks or more that all take part, in a program of MPI_Init; the same on all ranks.
bool may_be_ours(Handle comm);

class Agreement {
 public:
  explicit Agreement(Handle comm);
  Agreement(const Agreement&) = delete;
  Agreement& operator=(const Agreement&) = delete;

  void exchange();
  /// The same without a wait. Until it is over the object stays, and the communicator too.
  void begin_to_exchange();
  bool is_exchanged();
  void wait_until_exchanged();

  /// Once it is exchanged. Null: the MPI serves the communicator. The same on all ranks.
  std::shared_ptr<PoolComm> make();
  /// Of a process that ends before that.
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

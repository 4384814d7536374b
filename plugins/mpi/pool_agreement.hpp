// How the ranks of a communicator agree that its collectives go through the pool.
#pragma once

#include <array>
#include <memory>
#include <optional>
#include <vector>

#include "attachment.hpp"
#include "pool_comms.hpp"

namespace penstock::mpi {

/// A rank's contribution, exchanged in one MPI_Allgather.
struct Offer {
  std::uint64_t pool_id = 0;  ///< 0: this rank has no pool
  std::uint64_t token = 0;
  std::uint64_t area = ~std::uint64_t{0};  ///< of rank 0; else, or without one, this
  std::uint64_t slot_bytes = 0, eager_bytes = 0;
  std::uint64_t node = 0;
  std::uint64_t tuning_bytes = 0;  ///< rank 0: of its table; 0: the built-in one
};
static_assert(sizeof(Offer) == 56);

/// Two ranks or more, in a program of MPI_Init; the same on all ranks.
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
  void make_area();
  std::shared_ptr<const coll::Tuning> received_tuning();
  bool acceptable() const;
  std::shared_ptr<PoolComm> open();

  Attachment* at_;
  Handle comm_;
  int size_ = 0, rank_ = 0;
  Offer own_;
  std::vector<Offer> offers_;
  std::array<Slot, 2> requests_;
  std::optional<arena::Object> made_;
  std::vector<std::byte> table_;  ///< of plans, rank 0's
  bool table_came_ = false;       ///< with the exchange
};

}  // namespace penstock::mpi

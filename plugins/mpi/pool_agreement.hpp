// How the ranks of a communicator agree that its collectives go through the pool.
#pragma once

#include <array>
#include <memory>
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
  std::uint64_t tuning_bytes = 0;             ///< rank 0: of its table; 0: the built-in one
  std::uint64_t plan = 0;                     ///< a hash of PENSTOCK_COLL_PLAN
  std::uint32_t devices = 1, area_slots = 0;  ///< of coll::Shape
};
static_assert(sizeof(Offer) == 72);

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
  void make_areas();
  bool make_areas(const coll::Shape& shape, const arena::Stats& stats);
  void give_back();
  std::uint32_t ranks() const { return static_cast<std::uint32_t>(size_); }
  std::shared_ptr<const coll::Tuning> received_tuning();
  std::vector<std::uint64_t> received_slot_areas(std::size_t count);
  bool acceptable() const;
  std::shared_ptr<PoolComm> open();

  Attachment* at_;
  Handle comm_;
  int size_ = 0, rank_ = 0;
  Offer own_;
  std::vector<Offer> offers_;
  std::array<Slot, 3> requests_;
  std::vector<arena::Object> made_;  ///< the words first; then slots, where they lie apart
  /// Rank 0's: offsets of the slots that lie apart.
  static constexpr std::size_t max_slot_areas = 128;
  std::array<std::uint64_t, max_slot_areas> slot_areas_{};
  std::vector<std::byte> table_;  ///< of plans, rank 0's
  bool rest_came_ = false;        ///< both, with the exchange
};

}  // namespace penstock::mpi

// How ranks that can exchange a few bytes agree on a communicator: rank 0 makes its memory, and
// each tells what must be the same on all.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "arena/arena.hpp"
#include "coll/communicator.hpp"
#include "coll/placement.hpp"

namespace penstock::coll {

struct Devices;

/// What a rank tells the others.
struct Offer {
  static constexpr std::uint64_t none = ~std::uint64_t{0};
  std::uint64_t pool_id = 0;  ///< 0: this rank has no pool
  std::uint64_t token = 0, node = 0;
  std::uint64_t area = none;  ///< of rank 0; else, or where there is no room, `none`
  std::uint64_t slot_bytes = 0, eager_bytes = 0;
  std::uint64_t tuning_bytes = 0;  ///< of rank 0's table, behind the words; 0: the built-in one
  std::uint64_t plan = 0;          ///< a hash of PENSTOCK_COLL_PLAN
  std::uint32_t devices = 1, area_slots = 0;
  std::uint64_t check = 0;   ///< Options::check
  std::uint64_t direct = 0;  ///< a GPU that keeps the protocol by itself, if all ranks' do; 0: none
  std::uint64_t switch_region = none;  ///< of rank 0, where a switch serves it
  std::uint32_t communicator = 0;      ///< offload::Shape::communicator
  std::uint32_t switch_leaves = 0;
  std::uint32_t always_in_switch = 0;  ///< Options::always_in_switch
  std::uint32_t by_gpu = 0;            ///< Wishes::by_gpu
  std::uint64_t late_slots = 0;        ///< of rank 0: Shape::late_slots
};
static_assert(sizeof(Offer) == 120);

class Agreement {
 public:
  /// Where memory comes from: on a part of the pool, if one is named.
  struct Space {
    arena::Arena& arena;
    std::function<Result<arena::Object>(std::uint64_t bytes, std::optional<std::uint32_t> part)>
        make;
    std::function<void(const arena::Object&)> give_back;
  };
  struct Wishes {
    std::uint64_t slot_bytes = 0;  ///< 0: by the pool's size
    bool check = false;            ///< Options::check
    /// Shape::direct, where the pool and the others allow it: a number of this rank's GPU, not 0.
    std::uint64_t direct = 0;
    bool by_gpu = false;               ///< a GPU moves this rank's data
    std::uint32_t max_pool_parts = 1;  ///< no more of the pool is in use than 1 / this
    bool late_slots = false;           ///< Shape::late_slots, where that can be
  };

  Agreement(std::uint32_t ranks, std::uint32_t self) : ranks_(ranks), self_(self) {}

  /// This rank's offer. Rank 0 makes the memory: on several devices where the pool has them and
  /// there is room. Errors: of rank 0 alone, those of `space.make`; the offer is to be sent also
  /// then.
  Result<void> offer(Space space, const Wishes& wishes);
  const Offer& own() const { return own_; }

  /// Whether the ranks' offers fit together. Errors, the same on all: mismatch, which names two
  /// ranks; no_space, where rank 0 found no room. `noun`: of the communicator.
  Result<void> check(const std::vector<Offer>& offers, const char* noun) const;
  /// What to open the communicator with, once they do. Reads what rank 0 has put behind the words.
  Options options(pool::Pool& pool, const std::vector<Offer>& offers) const;

  /// The communicator's memory but for a region of the switch and late slots: the words first.
  /// Errors: wrong_format.
  Result<std::vector<arena::Object>> areas(const std::vector<Offer>& offers) const;

  /// Of rank 0: the memory has an owner now, or is freed. A region of the switch is the last one.
  std::vector<arena::Object> take_areas() { return std::exchange(made_, {}); }
  void give_back();

 private:
  Shape shape_on(const Devices& devices, const Wishes& wishes) const;
  void ask_switch(const Wishes& wishes);
  Result<void> make_areas(const Shape& shape, const Wishes& wishes);
  void publish(const Shape& shape, const std::vector<std::byte>& tuning);
  std::function<Result<TakenSlots>()> taker_of_slots() const;

  std::uint32_t ranks_, self_;
  std::optional<Space> space_;
  bool fixed_slots_ = false;  ///< Wishes::slot_bytes
  Offer own_;
  std::vector<arena::Object> made_;  ///< the words first; then slots, where they lie apart
  std::shared_ptr<offload::Registration> registration_;  ///< of the last of made_
};

/// An object that another rank has told of; nullopt: it is gone.
std::optional<arena::Object> find_area(const arena::Arena& arena, const AreaRecord& record);

/// Objects of this process, whose names begin so.
Agreement::Space space_in(arena::Arena& arena, std::string name);

}  // namespace penstock::coll

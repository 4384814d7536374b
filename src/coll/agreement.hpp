// How ranks that can exchange a few bytes agree on a communicator: rank 0 allocates its memory, and
// each rank publishes the settings that must be equal on all.
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
#include "schedule/placement.hpp"

namespace penstock::coll {

struct Devices;
class SwitchPort;

/// The settings that one rank sends to the others.
struct Offer {
  static constexpr std::uint64_t none = ~std::uint64_t{0};
  std::uint64_t pool_id = 0;  ///< 0: this rank has no pool
  std::uint64_t token = 0, node = 0;
  std::uint64_t area = none;  ///< set by rank 0; `none` on other ranks, or if there is no room
  std::uint64_t slot_bytes = 0, eager_bytes = 0;
  std::uint64_t tuning_bytes = 0;  ///< of rank 0's table, after the words; 0: the built-in table
  std::uint64_t plan = 0;          ///< a hash of PENSTOCK_COLL_PLAN
  std::uint32_t devices = 1, area_slots = 0;
  std::uint32_t check = 0;             ///< Options::check
  std::uint32_t flagged_bytes = 0;     ///< Wishes::flagged_bytes
  std::uint64_t direct = 0;            ///< Wishes::direct, if this rank's pool and calls allow it
  std::uint64_t switch_region = none;  ///< set by rank 0 if a switch serves the communicator
  std::uint32_t communicator = 0;      ///< by which the switch knows it
  std::uint32_t switch_leaves = 0;
  std::uint32_t always_in_switch = 0;  ///< Options::always_in_switch
  std::uint32_t by_gpu = 0;            ///< Wishes::by_gpu
  std::uint32_t late_slots = 0;        ///< set by rank 0: Shape::late_slots
  std::uint16_t knows_switches = 0;    ///< this rank's program carries the executor for a switch
  std::uint16_t flagged_anyhow = 0;    ///< Wishes::flagged_anyhow
  std::uint64_t gpu = 0;               ///< Wishes::gpu
};
static_assert(sizeof(Offer) == 128);

class Agreement {
 public:
  /// Allocates and frees memory; `part` names a device of the pool, or is empty for any.
  struct Space {
    arena::Arena& arena;
    std::function<Result<arena::Object>(std::uint64_t bytes, std::optional<std::uint32_t> part)>
        make;
    std::function<void(const arena::Object&)> give_back;
  };
  struct Wishes {
    std::uint64_t slot_bytes = 0;  ///< 0: by the pool's size
    bool check = false;            ///< Options::check
    /// Number of this rank's GPU for Shape::direct; 0: none. Used if the pool and all other ranks
    /// allow it.
    std::uint64_t direct = 0;
    /// With `direct`: the longest block of flagged calls that this rank can make. The least of all
    /// ranks counts. If ranks share a GPU, none are made unless all ranks set `flagged_anyhow`.
    std::uint32_t flagged_bytes = 0;
    bool flagged_anyhow = false;
    bool by_gpu = false;               ///< a GPU moves this rank's data
    std::uint64_t gpu = 0;             ///< number of that GPU; 0: unknown
    std::uint32_t max_pool_parts = 1;  ///< pool use must stay below 1 / this
    bool late_slots = false;           ///< Shape::late_slots, if possible
  };

  /// `port`: for a program whose calls a switch may do (offload/switch_port.hpp).
  Agreement(std::uint32_t ranks, std::uint32_t self, std::shared_ptr<SwitchPort> port = nullptr)
      : ranks_(ranks), self_(self), switch_(std::move(port)) {}

  /// Makes this rank's offer. Rank 0 also allocates the memory, on several devices if the pool has
  /// them and there is room. Errors (rank 0 only): those of `space.make`. Send the offer to the
  /// other ranks even after an error, so that they learn of it.
  Result<void> offer(Space space, const Wishes& wishes);
  const Offer& own() const { return own_; }

  /// Checks that the offers of all ranks agree. `noun`: what messages call the communicator.
  /// Errors, the same on all ranks: mismatch, which names two ranks; no_space, if rank 0 found no
  /// room.
  Result<void> check(const std::vector<Offer>& offers, const char* noun) const;
  /// The options to open the communicator with, once check() has passed. Reads the data that rank 0
  /// has stored after the words.
  Options options(pool::Pool& pool, const std::vector<Offer>& offers) const;

  /// All memory of the communicator except the switch's region and late slots; the words come
  /// first. Errors: wrong_format.
  Result<std::vector<arena::Object>> areas(const std::vector<Offer>& offers) const;

  /// For rank 0. take_areas() passes ownership of the memory to the caller; the switch's region, if
  /// any, comes last. give_back() frees it.
  std::vector<arena::Object> take_areas() { return std::exchange(made_, {}); }
  void give_back();

 private:
  Shape shape_on(const Devices& devices, const Wishes& wishes) const;
  bool wants_switch() const;
  void ask_switch(const Wishes& wishes);
  Result<void> make_areas(const Shape& shape, const Wishes& wishes);
  void publish(const Shape& shape, const std::vector<std::byte>& tuning);
  std::function<Result<TakenSlots>()> taker_of_slots() const;

  std::uint32_t ranks_, self_;
  std::shared_ptr<SwitchPort> switch_;
  std::optional<Space> space_;
  bool fixed_slots_ = false;  ///< Wishes::slot_bytes
  Offer own_;
  std::vector<arena::Object> made_;  ///< the words first, the memory of a switch last
};

/// Finds an object by the record that another rank sent; nullopt: it no longer exists.
std::optional<arena::Object> find_area(const arena::Arena& arena, const AreaRecord& record);

/// Allocates objects of this process whose names begin with `name`.
Agreement::Space space_in(arena::Arena& arena, std::string name);

}  // namespace penstock::coll

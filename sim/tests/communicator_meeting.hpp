// How the ranks of a scenario get a communicator: space for it, and the tokens of all.
#pragma once

#include <memory>
#include <vector>

#include "coll/communicator.hpp"
#include "sim/tests/simulated_pool.hpp"
#include "sim/tests/stops.hpp"

namespace penstock::sim {

/// Small, so that few bytes need several chunks, and few calls reuse all slots and blocks.
inline constexpr coll::Shape small_shape{
    .slots = 4, .slot_bytes = 4 * 64, .eager_blocks = 4, .eager_bytes = 3 * 56};

/// On several devices, with areas that are shorter than one device's part.
inline coll::Shape on_devices(std::uint32_t devices) {
  coll::Shape shape = small_shape;
  shape.devices = devices;
  shape.area_slots = 5;
  shape.sequential = true;
  return shape;
}

/// Bytes of a communicator, with its areas for slots one behind the other.
inline std::uint64_t bytes_of(std::uint32_t ranks, const coll::Shape& shape) {
  std::uint64_t bytes = coll::Communicator::bytes(ranks, shape);
  for (const auto& area : coll::Communicator::slot_areas(ranks, shape)) bytes += area.bytes;
  return bytes;
}

/// A pool with space for a communicator, on up to 3 devices. Its slots and releases hold an earlier
/// communicator's contents.
inline std::uint64_t place_communicator(SimulatedPool& pool, std::uint32_t ranks,
                                        const coll::Shape& shape = on_devices(3)) {
  std::uint64_t area = 0;
  pool.format_arena();
  pool.once([&](World& world) {
    const auto attached = pool.attach(world);
    const auto arena = SimulatedPool::open_arena(world, *attached);
    auto object = arena->create("communicator", bytes_of(ranks, shape));
    world.require(object.has_value(), object ? "" : object.error().message);
    area = object->offset;
    const std::uint64_t zeroed = coll::Communicator::zeroed_bytes(ranks, shape);
    const std::vector<std::byte> left(object->bytes - zeroed, std::byte{0x5A});
    attached->memory().publish_bulk(object->data + zeroed, left.data(), left.size());
    attached->memory().full_fence();
  });
  return area;
}

/// For the owner of the space when all have left: nothing of theirs may arrive there any more.
inline void expect_it_stays(World& world, const pool::Pool& pool, std::uint64_t area,
                            std::uint32_t ranks, const coll::Shape& shape = small_shape) {
  const std::uint64_t bytes = bytes_of(ranks, shape);
  const std::vector<std::byte> mark(bytes, std::byte{0x77});
  std::vector<std::byte> found(bytes);
  pool.memory().publish_bulk(pool.base() + area, mark.data(), bytes);
  pool.memory().full_fence();
  world.sleep(20'000'000);
  world.evict_all_dirty();
  pool.memory().observe_bulk(found.data(), pool.base() + area, bytes);
  world.require(found == mark, "a store arrived after all ranks had left");
}

/// Shared by the ranks of one run.
struct Meeting {
  Meeting(std::uint64_t the_area, std::uint32_t ranks) : area(the_area), tokens(ranks) {}

  std::uint64_t area;
  std::vector<std::uint64_t> tokens;
  std::uint32_t opened = 0;
  coll::Shape shape = small_shape;
  std::uint64_t flagged_bytes = 0;          ///< with Shape::flagged_bytes
  std::vector<std::uint64_t> node_of = {};  ///< by rank, if given

  std::unique_ptr<pool::Pool> attach(World& world, const SimulatedPool& simulated,
                                     std::uint32_t self) {
    auto pool = simulated.attach(world, {.rank = static_cast<std::int32_t>(self), .job = "sim"});
    tokens[self] = pool->token();
    ++opened;
    return pool;
  }
  bool all_came() const { return opened == tokens.size(); }
  struct Wishes {
    bool check = false;
    std::uint64_t zero_copy_bytes = coll::default_zero_copy_bytes;
    bool mixed = false;
    std::uint64_t long_call_bytes = coll::default_long_call_bytes;
  };
  std::unique_ptr<coll::Communicator> open(World& world, pool::Pool& pool, std::uint32_t self,
                                           const Wishes& wishes) const {
    coll::Options options{.area = area,
                          .tokens = tokens,
                          .self = self,
                          .nodes = node_of,
                          .shape = shape,
                          .check = wishes.check,
                          .direct = shape.direct,
                          .flagged_bytes = flagged_bytes,
                          .mixed = wishes.mixed,
                          .zero_copy_bytes = wishes.zero_copy_bytes,
                          .long_call_bytes = wishes.long_call_bytes};
    const auto ranks = static_cast<std::uint32_t>(tokens.size());
    std::uint64_t at = area + coll::Communicator::bytes(ranks, shape);
    for (const auto& slots : coll::Communicator::slot_areas(ranks, shape)) {
      options.slot_areas.push_back(at);
      at += slots.bytes;
    }
    auto comm = coll::Communicator::open(pool, options);
    world.require(comm.has_value(), comm ? "" : comm.error().message);
    return std::move(*comm);
  }
  std::unique_ptr<coll::Communicator> open(World& world, pool::Pool& pool, std::uint32_t self,
                                           bool check = false) const {
    return open(world, pool, self, Wishes{.check = check});
  }
};

/// A rank of a plan, which is a Meeting.
template <class Plan>
class PlanRank {
 public:
  PlanRank(World& world, const SimulatedPool& simulated, Plan& plan, std::uint32_t self)
      : world_(world), plan_(plan), self_(self), pool_(plan.attach(world, simulated, self)) {}

 protected:
  /// Or was stopped, and may have been taken for dead.
  bool somebody_died() const {
    const Process* const victim = world_.victim();
    return victim != nullptr && (victim->dead || was_stopped(*victim));
  }
  /// Waits for all ranks. False: one has died before it came.
  bool await_all_ranks() {
    wait_until(world_, "the ranks", [&] { return plan_.all_came() || somebody_died(); });
    return plan_.all_came();
  }

  World& world_;
  Plan& plan_;
  std::uint32_t self_;
  std::unique_ptr<pool::Pool> pool_;
};

/// Runs each rank of the plan in a process of its own, dealt to the nodes in turn; `victim` may
/// die.
template <class Rank, class Plan>
void spawn_ranks(World& world, const SimulatedPool& pool, const std::shared_ptr<Plan>& plan,
                 std::uint32_t nodes, std::uint32_t victim) {
  for (std::uint32_t self = 0; self < plan->tokens.size(); ++self) {
    Process& process = world.spawn(self % nodes, [&world, &pool, plan, self] {
      Rank rank(world, pool, *plan, self);
      rank.call_all();
    });
    if (self == victim) world.mark_victim(process);
  }
}

}  // namespace penstock::sim

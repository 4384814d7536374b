// One rank's side of collectives through the pool. Nothing is sent: a rank publishes data in its
// own slots, and the other ranks read it there. Protocol: docs/protocols/collectives.md.
// Source: CCCL, section 4.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/status.hpp"
#include "coll/plan_override.hpp"
#include "pool/pool.hpp"
#include "schedule/arithmetic.hpp"
#include "schedule/problem.hpp"

namespace penstock::coll {

/// The memory that a communicator takes in the pool for each rank. The same on all ranks.
struct Shape {
  std::uint32_t slots = 4;              ///< in each half; 4 or 5
  std::uint64_t slot_bytes = 1 << 17;   ///< whole lines
  std::uint32_t eager_blocks = 8;       ///< at least 4
  std::uint64_t eager_bytes = 74 * 56;  ///< payload of a block: whole tagged lines of 56 bytes
  /// Number of devices that hold the slots. With one, the slots follow the words in Options::area.
  std::uint32_t devices = 1;
  std::uint32_t area_slots = 0;  ///< with several devices: most slots in one area; at least 1
  bool sequential = false;       ///< with several devices: make room for the variant naive too
  bool direct = false;           ///< add the words by which GPUs run the protocol (direct.hpp)
  /// With `direct`: payload of a flagged block, by flagged_bytes_for(); 0: there are none.
  std::uint64_t flagged_bytes = 0;
  /// Slots are allocated at the first call that needs them (late_slots.hpp), with at most
  /// `slot_bytes` each. Needs one device, and no switch.
  bool late_slots = false;
  bool operator==(const Shape&) const = default;
};

struct Tuning;

/// An object of the arena, as one rank names it to another.
struct AreaRecord {
  std::uint64_t offset = 0, generation = 0, slot = 0;
};

/// Slots that were allocated late.
struct TakenSlots {
  AreaRecord area;
  std::uint64_t slot_bytes = 0;
};

/// In calls that move at least as many bytes between this rank and the pool by a Mover, the thread
/// that keeps the protocol sleeps while chunks move.
inline constexpr std::uint64_t default_long_call_bytes = 8 << 20;

/// Zero copy is used only for parts of at least this size, in calls whose input or output on this
/// rank has at least 128 times as many bytes.
inline constexpr std::uint64_t default_zero_copy_bytes = 16 << 10;

class State;
class SwitchExecutor;

/// A switch that computes, as the module that knows it offers it (switch_interface.hpp).
struct SwitchService {
  std::uint64_t offset = 0, bytes = 0;  ///< the memory that ranks and switch share, in the pool
  /// `inlines`: packets may hold short data.
  std::function<std::unique_ptr<SwitchExecutor>(State& state, bool inlines)> open;
};

struct Options {
  std::uint64_t area = 0;  ///< offset of Communicator::bytes() bytes, of which the first
                           ///< zeroed_bytes() are zero and published
  /// With several devices: offsets of the areas in Communicator::slot_areas(), in the same order.
  std::vector<std::uint64_t> slot_areas = {};
  /// For rank 0, with Shape::late_slots: allocates the slots. Errors: no_space, which all ranks
  /// report.
  std::function<Result<TakenSlots>()> take_slots = {};
  std::vector<std::uint64_t> tokens;  ///< by rank: pool::Pool::token() of its process
  std::uint32_t self = 0;
  /// By rank: pool::Pool::node() of its process, or other numbers below 2^32 that are equal only
  /// for ranks of one node. The same on all ranks. Empty: the pool supplies the nodes, and
  /// two_level is not available.
  std::vector<std::uint64_t> nodes = {};
  Shape shape;
  PlanOverride plan_override = {};  ///< for plan(); the same on all ranks
  /// Called between two polls of a wait, to make progress elsewhere.
  std::function<void()> idle;
  std::string noun = "communicator";  ///< its name in messages
  /// Compare each call with those of all other ranks before it begins. Without this, a difference
  /// shows only when ranks need something from each other. Makes every collective as slow as a
  /// barrier. The same on all ranks.
  bool check = false;
  /// The GPUs of all ranks use the words of Shape::direct. The same on all ranks.
  bool direct = false;
  bool shares_gpu = false;  ///< another rank uses this rank's GPU too
  /// With Shape::flagged_bytes: the longest block of a flagged call (flagged_program.hpp). The same
  /// on all ranks.
  std::uint64_t flagged_bytes = 0;
  /// GPUs move the data of some ranks, but not of all. Then all data goes through slots, where GPUs
  /// can read it. The same on all ranks.
  bool mixed = false;
  /// GPUs move the data of some ranks at least: plan() then gives the plans of GPUs. The same on
  /// all ranks.
  bool by_gpus = false;
  /// A chunk stays in place if its parts lie in the pool in whole lines and have at least this many
  /// bytes. Other ranks read it there, and the call ends when all have. May differ between ranks.
  std::uint64_t zero_copy_bytes = default_zero_copy_bytes;
  std::uint64_t long_call_bytes = default_long_call_bytes;  ///< may differ between ranks
  /// The table that plan() uses; the same on all ranks. Null: default_tuning().
  std::shared_ptr<const Tuning> tuning;
  /// Set if a switch that computes serves the communicator. All ranks have it, or none; not with
  /// `direct`.
  std::optional<SwitchService> in_switch = {};
  /// Use the switch for everything that it can do, whatever `tuning` says. The same on all ranks.
  bool always_in_switch = false;
  /// For the rank that asked the switch: asks it to let go of the communicator, and returns whether
  /// it has. Does not wait. Called before all_left() returns true.
  std::function<bool()> is_switch_withdrawn = {};
};

struct Prepared;
class Direct;
class Mover;

/// Memory for slots on one device.
struct SlotArea {
  std::uint32_t device = 0;
  std::uint64_t bytes = 0;
};

/// A collective call of this rank.
struct Call {
  const char* name = "a collective";  ///< in messages: "MPI_Allreduce"
  const Problem* problem = nullptr;
  Plan plan;                         ///< `slots` and `slot_bytes` are those of the communicator
  const std::byte* input = nullptr;  ///< in place: same as output. Both may lie in the pool
  std::byte* output = nullptr;
  const Arithmetic* arithmetic = nullptr;  ///< for reductions
  /// For reductions: reduction_word(). Must be the same on all ranks, like the collective, its root
  /// and, if all ranks know it, its size.
  std::uint64_t fingerprint = 0;
  /// Moves the data by the program of prepare_moved(). `input` and `output` are then ignored.
  Mover* mover = nullptr;
  // For run():
  std::uint64_t timeout_ns = 0;  ///< 0: none. Time in which this process was stopped is not counted
  const volatile int* cancelled = nullptr;  ///< another thread cancels the wait by a nonzero value
};

/// One rank's part in a communicator. All ranks make the same calls in the same order, with plans
/// that agree; collectives run one after the other. Threads: one at a time. Ordering: the others
/// receive the input as this rank stored it before the call; nothing else is ordered.
///
///     auto comm = Communicator::open(pool, {.area = at, .tokens = tokens, .self = rank});
///     Problem problem{.collective = Collective::allreduce, .ranks = 2, .rank = rank,
///                     .element_bytes = 4, .input = {{0, bytes}}, .output = {{0, bytes}}};
///     const auto sum = *Reduction::make(Datatype::float32, Operation::sum, 2);
///     const PredefinedArithmetic arithmetic(sum);
///     auto done = (*comm)->run({.name = "sum", .problem = &problem,
///                               .plan = (*comm)->plan(problem), .input = in, .output = out,
///                               .arithmetic = &arithmetic});
class Communicator {
 public:
  static std::uint64_t bytes(std::uint32_t ranks, const Shape& shape);
  /// Bytes at the start of the area that must be zero. open() clears the rest.
  static std::uint64_t zeroed_bytes(std::uint32_t ranks, const Shape& shape);
  /// Memory that a communicator needs besides bytes(), by device; empty with one device.
  static std::vector<SlotArea> slot_areas(std::uint32_t ranks, const Shape& shape);
  /// Errors: invalid_argument, for an impossible shape or an area outside the pool.
  static Result<std::unique_ptr<Communicator>> open(pool::Pool& pool, Options options);
  ~Communicator();

  /// A plan for the problem; the same on all ranks that know the same about it.
  Plan plan(const Problem& problem) const;
  /// Blocks until this rank's part is done: its output is there, and its input may be changed.
  /// Errors:
  /// - peer_dead: names the dead rank; every later call fails with it too, on all ranks.
  /// - invalid_argument: those of build(); nothing was done, and all ranks fail alike.
  /// - mismatch: another rank's call differs, or an earlier one did (fingerprint.hpp).
  /// - deadline, unavailable: the call timed out or was cancelled; names the awaited ranks.
  /// - no_space: the first call that needs slots found no room. All ranks fail alike, and every
  ///   later call fails with it too.
  Result<void> run(const Call& call);
  /// run() in parts: call begin() once, then advance() until it returns true. Begin no other call
  /// before that. The problem, the arithmetic and the buffers must not change until then.
  Result<void> begin(const Call& call);
  Result<bool> advance();
  /// Makes the schedule of a call that begins later, even while another call is in progress.
  /// `call.problem` is not kept. Errors: those of build().
  Result<std::shared_ptr<const Prepared>> prepare(const Call& call);
  /// Like prepare(), for a call whose data a Mover moves: its plan is not eager. Uses the switch if
  /// the plan says so and the switch can do it; then Prepared::switch_packets is not 0.
  Result<std::shared_ptr<const Prepared>> prepare_moved(const Call& call);
  /// Like prepare(), for a call that GPUs run by themselves. Needs Shape::direct.
  Result<std::shared_ptr<const Prepared>> prepare_direct(const Call& call);
  /// The data that a GPU needs to run the protocol by itself. direct.hpp says who may call it, and
  /// when.
  Direct& direct();
  /// Address of chunk `chunk` of `rank` in the `number`-th collective, counted from 1. Through the
  /// switch: in the collective whose first packet is the `number`-th, counted from 0.
  std::byte* chunk_of(const Prepared& prepared, std::uint64_t number, std::uint32_t rank,
                      std::uint64_t chunk) const;
  /// Number of collectives begun.
  std::uint64_t begun() const;
  /// Number of packets sent to the switch.
  std::uint64_t packets() const;
  /// run() for a prepared call.
  Result<void> run(const Call& call, const Prepared& prepared);
  /// Begins a prepared call. Errors: that of an earlier call; after it, no call is done.
  Result<void> begin(const Call& call, const Prepared& prepared);
  /// awaited(): the ranks that the last advance() waited for. position(): a number that changes as
  /// the call progresses.
  const std::vector<std::uint32_t>& awaited() const;
  std::uint64_t position() const;
  /// With Shape::late_slots: waits until the slots exist, so that a GPU can use them. All ranks
  /// call it before their first call. Errors: no_space and peer_dead, as for run().
  Result<void> await_slots(const char* what);
  /// Call it before a GPU first stores to this rank's slots. Drops the copies of them that this
  /// host's caches hold from an earlier owner of the memory: the store of a part of a line is
  /// merged with such a copy, and the simulated mode overlooks the store of the same bytes.
  void drop_copies_of_own_slots();
  /// Call it after the last store of a GPU to this rank's slots, before leave(): their memory may
  /// have another owner then. The host's caches may still hold data that only this node has read.
  void write_back_own_slots();
  /// The slots that were allocated late. The answer is final once rank 0 has left. A device access.
  std::optional<TakenSlots> taken_slots() const;
  /// Calls `look` until `missing` is empty, like group::Group::wait(). Several threads may wait at
  /// once.
  Result<void> wait(const char* what, std::vector<std::uint32_t>& missing,
                    const std::function<void()>& look);

  /// For ranks that switch to this communicator from another path at the same one of their calls,
  /// without waiting for a late rank. Offers to switch from crossing `first` on, counted from 1.
  /// Call it once, before the first call here.
  void offer_change(std::uint64_t first);
  /// Call this once at each crossing from `first` on. Returns whether all ranks switch here: the
  /// same on all.
  bool all_change(const char* what, std::uint64_t crossing);

  /// This rank makes no more calls, because of `error`. Other ranks' calls that need it fail. Do
  /// not call this while a call of the host is in progress. `idle`: no call of a GPU is or will be
  /// in progress either, so calls that need nothing more from this rank still succeed.
  void give_up(const Error& error, bool idle);
  /// Reports whether another rank has failed with calls in progress. Data that its GPU has moved
  /// since, and everything read from it, is undefined. A result is valid only if this call, made
  /// after it, finds no failure. Any thread; a device access. Errors: peer_dead, unavailable.
  Result<void> check_others(const char* what) const;
  /// Records a call that all ranks make by other means, after their calls here. `idle`: the earlier
  /// calls have ended, so this rank can tell a rank that makes a call here instead.
  void note_elsewhere(bool idle);
  /// This rank makes no more calls. The memory can be freed when all ranks have left: by its owner,
  /// which waits for that, or by ending.hpp.
  void leave();
  /// The other ranks that have not left. Call it only after leave(). A device access.
  const std::vector<std::uint32_t>& remaining();
  /// Call this when all ranks have left. Describes a difference between their last calls that none
  /// of them could notice. A device access.
  std::optional<Error> difference_of_last() const;
  /// Call this when all ranks have left. True if the switch has released its region, or there is
  /// none. Does not wait.
  bool is_switch_withdrawn();
  /// True if all other ranks have left and the switch has released its region. Does not wait. Only
  /// for the owner of the area, after leave().
  bool all_left();
  /// Waits until all_left(). Errors: peer_dead; deadline, if the switch does not release its
  /// region: it is stopped, and may store there when it resumes.
  Result<void> await_all_left(const char* what);

  std::uint32_t ranks() const;
  std::uint32_t self() const;
  const Shape& shape() const;
  bool is_direct() const;  ///< Options::direct
  bool has_flagged_calls() const;
  /// Address of the block that `rank` writes in the `call`-th flagged call.
  std::byte* flagged_block_of(std::uint32_t rank, std::uint64_t call) const;
  bool shares_gpu() const;  ///< Options::shares_gpu

  struct Impl;
  explicit Communicator(std::unique_ptr<Impl> impl);

 private:
  std::unique_ptr<Impl> impl_;
};

}  // namespace penstock::coll

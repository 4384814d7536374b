// Collectives of a group of ranks through the pool: one rank's side. Nothing is sent: a rank
// publishes in its own slots, and the others read there. Protocol: docs/protocols/collectives.md.
// Source: CCCL, section 4; papers/4-collectives.md, 4.6 to 4.10.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/status.hpp"
#include "coll/arithmetic.hpp"
#include "coll/plan_override.hpp"
#include "coll/problem.hpp"
#include "offload/registration.hpp"
#include "pool/pool.hpp"

namespace penstock::coll {

/// What a communicator takes in the pool for each rank. The same on all ranks.
struct Shape {
  std::uint32_t slots = 4;              ///< of each half; 4 or 5
  std::uint64_t slot_bytes = 1 << 17;   ///< whole lines
  std::uint32_t eager_blocks = 8;       ///< at least 4
  std::uint64_t eager_bytes = 74 * 56;  ///< payload of a block: whole tagged lines of 56 bytes
  /// Devices that the slots lie on. With one they follow the words, in Options::area.
  std::uint32_t devices = 1;
  std::uint32_t area_slots = 0;  ///< of an area of several devices, at most; at least 1
  bool sequential = false;       ///< several devices: room for the variant naive too
  bool direct = false;           ///< with words by which GPUs keep the protocol (direct.hpp)
  /// The slots come at the first call that needs them (late_slots.hpp), with `slot_bytes` at most.
  /// With one device, and without a switch.
  bool late_slots = false;
  bool operator==(const Shape&) const = default;
};

struct Tuning;

/// An object of the arena, as ranks tell each other of it.
struct AreaRecord {
  std::uint64_t offset = 0, generation = 0, slot = 0;
};

/// Slots that a communicator has taken late.
struct TakenSlots {
  AreaRecord area;
  std::uint64_t slot_bytes = 0;
};

/// Parts of a chunk shorter than this are copied, wherever they lie, and so are those of a call
/// that gives or gets this rank fewer bytes than 128 such parts.
inline constexpr std::uint64_t default_zero_copy_bytes = 16 << 10;

struct Options {
  std::uint64_t area = 0;  ///< offset of Communicator::bytes(), of which the first zeroed_bytes()
                           ///< are zero and published
  /// Several devices: offsets of Communicator::slot_areas(), in its order.
  std::vector<std::uint64_t> slot_areas = {};
  /// Of rank 0, with Shape::late_slots: takes them. Errors: no_space, which all ranks get.
  std::function<Result<TakenSlots>()> take_slots = {};
  std::vector<std::uint64_t> tokens;  ///< by rank: pool::Pool::token() of its process
  std::uint32_t self = 0;
  /// By rank: pool::Pool::node() of its process, or other numbers below 2^32 that are equal for
  /// ranks of one node alone. The same on all ranks; empty: the pool is asked, and there is no
  /// two_level.
  std::vector<std::uint64_t> nodes = {};
  Shape shape;
  PlanOverride plan_override = {};  ///< of plan(); the same on all ranks
  /// Called between two looks of a wait, to make progress elsewhere.
  std::function<void()> idle;
  std::string noun = "communicator";  ///< its name in messages
  /// Each call is first compared with those of all other ranks. Without this a difference shows
  /// only when ranks need something of each other. Makes every collective as slow as a barrier. The
  /// same on all ranks.
  bool check = false;
  /// The GPUs of all ranks go by the words of Shape::direct. The same on all ranks.
  bool direct = false;
  bool shares_gpu = false;  ///< with another rank; of `direct`
  /// GPUs move the data of some ranks, not of all: all data goes through slots, where GPUs find it.
  /// The same on all ranks.
  bool mixed = false;
  /// Chunks whose parts have so many bytes or more, and lie in the pool in whole lines, stay there:
  /// other ranks read them where they are, and a call ends when all have. This rank's alone.
  std::uint64_t zero_copy_bytes = default_zero_copy_bytes;
  /// What plan() goes by; the same on all ranks. Null: default_tuning().
  std::shared_ptr<const Tuning> tuning;
  /// Where a switch that computes serves the communicator; the same on all ranks, not with
  /// `direct`.
  std::optional<offload::Region> switch_region = {};
  /// All that the switch can do goes there, whatever `tuning` says; the same on all ranks.
  bool always_in_switch = false;
  /// Of who made the switch's region: withdrawn before all_left() is true.
  std::shared_ptr<offload::Registration> registration = nullptr;
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
  Plan plan;                         ///< `slots` and `slot_bytes` are the communicator's
  const std::byte* input = nullptr;  ///< in place: the output. Both may lie in the pool
  std::byte* output = nullptr;
  const Arithmetic* arithmetic = nullptr;  ///< of reductions
  /// Of reductions: reduction_word(). It must be the same on all ranks, like the collective, its
  /// root and its size where all know it.
  std::uint64_t fingerprint = 0;
  /// Moves the data by the program of prepare_moved(); `input` and `output` do not count then.
  Mover* mover = nullptr;
  // Of run():
  std::uint64_t timeout_ns = 0;  ///< 0: none; time in which this process was stopped does not count
  const volatile int* cancelled = nullptr;  ///< another thread stores what is not 0 to end the wait
};

/// One rank's part in a communicator. All ranks make the same calls in the same order, with plans
/// that agree; collectives are done one after the other. One thread at a time. Ordering: what a
/// rank stored to its input before a call is what the others get; nothing else is ordered.
///
///     auto comm = Communicator::open(pool, {.area = at, .tokens = tokens, .self = rank});
///     Problem problem{.collective = Collective::allreduce, .ranks = 2, .rank = rank,
///                     .element_bytes = 4, .input = {{0, bytes}}, .output = {{0, bytes}}};
///     const auto sum = *Reduction::make(Datatype::float32, Operation::sum, 2);
///     const PredefinedArithmetic arithmetic(sum);
///     auto done = (*comm)->run({.name = "sum", .problem = &problem, .plan =
///     (*comm)->plan(problem),
///                               .input = in, .output = out, .arithmetic = &arithmetic});
class Communicator {
 public:
  static std::uint64_t bytes(std::uint32_t ranks, const Shape& shape);
  /// The rest is cleared by open().
  static std::uint64_t zeroed_bytes(std::uint32_t ranks, const Shape& shape);
  /// What a communicator needs besides bytes(), by device; nothing with one device.
  static std::vector<SlotArea> slot_areas(std::uint32_t ranks, const Shape& shape);
  /// Errors: invalid_argument, a shape that cannot be or an area that is not inside the pool.
  static Result<std::unique_ptr<Communicator>> open(pool::Pool& pool, Options options);
  ~Communicator();

  /// A plan for the problem; the same on all ranks that know the same of it.
  Plan plan(const Problem& problem) const;
  /// Blocks until this rank's part is done: its output is there, its input may be changed. Errors:
  /// peer_dead, which names the rank, after which every later call fails with it on all ranks;
  /// invalid_argument, those of build(): then nothing was done, and on all ranks alike; mismatch,
  /// where another rank's call differs, or one before did (fingerprint.hpp); deadline and
  /// unavailable, at the call's timeout or when it was cancelled, which name the ranks that were
  /// waited for; no_space, where the call is the first that needs slots, and there is no room: on
  /// all ranks alike, after which every later call fails with it.
  Result<void> run(const Call& call);
  /// The same in parts: begin() once, then advance() until it returns true. No other call is begun
  /// before. The problem, the arithmetic and the buffers stay as they are until then.
  Result<void> begin(const Call& call);
  Result<bool> advance();
  /// The schedule of a call that begins later, whatever is in progress now; `call.problem` need not
  /// stay. Errors: those of build().
  Result<std::shared_ptr<const Prepared>> prepare(const Call& call);
  /// The same for a call whose data is moved by a Mover: its plan is not eager. Through the switch,
  /// where the plan says so and it can be: then Prepared::in_switch is there.
  Result<std::shared_ptr<const Prepared>> prepare_moved(const Call& call);
  /// The same for a call that GPUs do by themselves, where Shape::direct is set.
  Result<std::shared_ptr<const Prepared>> prepare_direct(const Call& call);
  /// What a GPU needs to keep the protocol by itself. Its own rules say who may call it when.
  Direct& direct();
  /// Where chunk `chunk` of `rank` lies in the `number`-th collective, counted from 1; through the
  /// switch, in the collective whose first packet is the `number`-th, counted from 0.
  std::byte* chunk_of(const Prepared& prepared, std::uint64_t number, std::uint32_t rank,
                      std::uint64_t chunk) const;
  /// Collectives that were begun.
  std::uint64_t begun() const;
  /// Packets to the switch of these.
  std::uint64_t packets() const;
  /// run() of a call that was prepared.
  Result<void> run(const Call& call, const Prepared& prepared);
  /// Begins such a call. Errors: that of an earlier call, after which none is done.
  Result<void> begin(const Call& call, const Prepared& prepared);
  /// The ranks that the last advance() waited for, and a number that changes as the call goes on.
  const std::vector<std::uint32_t>& awaited() const;
  std::uint64_t position() const;
  /// With Shape::late_slots: waits until the slots are there, where a GPU will look for them. All
  /// ranks call it, before their first call. Errors: no_space and peer_dead, as run().
  Result<void> await_slots(const char* what);
  /// The slots that were taken late. Once rank 0 has left it is known whether there are any. A
  /// device access.
  std::optional<TakenSlots> taken_slots() const;
  /// Calls `look` until `missing` is empty, as group::Group::wait; several threads may be in it.
  Result<void> wait(const char* what, std::vector<std::uint32_t>& missing,
                    const std::function<void()>& look);

  /// For ranks that begin to use the communicator instead of something else, at the same one of
  /// their calls, without a wait for a rank that is late. This rank could from crossing `first` on
  /// (counted from 1); said once, before the first call here.
  void offer_change(std::uint64_t first);
  /// At each crossing from `first` on, once: whether all ranks begin here. The same on all ranks.
  bool all_change(const char* what, std::uint64_t crossing);

  /// This rank makes no more calls, because of `error`: the others' calls that need it fail. Not
  /// while a call of the host is in progress. `idle`: nor is one of its GPU, and none will be, so
  /// that what waits for nothing more of this rank is done right.
  void give_up(const Error& error, bool idle);
  /// Whether another rank has failed with calls under way: what its GPU has moved since, and what
  /// was read of it, is undefined. A result counts when this, asked then, finds none. Any thread; a
  /// device access. Errors: peer_dead, unavailable.
  Result<void> check_others(const char* what) const;
  /// All ranks make a call by other means than this communicator, after the calls that they made
  /// here. `idle`: these have ended, so a rank that makes a call here instead can be told.
  void note_elsewhere(bool idle);
  /// This rank makes no more calls. The memory is given back when all have left: by its owner, who
  /// waits for that, or as ending.hpp does it.
  void leave();
  /// The other ranks that have not left. Only who has left asks. A device access.
  const std::vector<std::uint32_t>& remaining();
  /// When all have left: the ranks' last calls differed, which none of them could notice. A device
  /// access.
  std::optional<Error> difference_of_last() const;
  /// When all have left: true when the switch has let go of its region, or there is none; no wait.
  bool is_switch_withdrawn();
  /// True when all other ranks have left, and the switch has let go of its region; no wait. Only
  /// who owns the area asks, once it has left.
  bool all_left();
  /// Waits for it. Errors: peer_dead; deadline, where the switch does not let go: it is stopped,
  /// and may store there when it goes on.
  Result<void> await_all_left(const char* what);

  std::uint32_t ranks() const;
  std::uint32_t self() const;
  const Shape& shape() const;
  bool is_direct() const;   ///< Options::direct
  bool shares_gpu() const;  ///< Options::shares_gpu

  struct Impl;
  explicit Communicator(std::unique_ptr<Impl> impl);

 private:
  std::unique_ptr<Impl> impl_;
};

}  // namespace penstock::coll

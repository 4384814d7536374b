// The interfaces by which collectives reach a switch that computes. src/offload implements them. A
// program that offers Agreement no SwitchPort carries nothing of that module. Protocol:
// docs/protocols/switch.md.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>

#include "arena/arena.hpp"
#include "coll/agreement.hpp"
#include "coll/executor.hpp"

namespace penstock::coll {

/// Runs calls by a switch. The switch may be lost in the middle of a call. Then this executor
/// stops, and the plain pool does the rest of the call as part of the same collective.
class SwitchExecutor : public Executor {
 public:
  using Executor::Executor;

  /// Whether the call goes through the switch. False once all ranks know that it is lost. A call
  /// whose data a Mover moves goes where it was prepared for.
  virtual bool takes(const Call& call, const Prepared& prepared) const = 0;
  /// After advance() has returned false: whether the rest goes through the plain pool. If so,
  /// call() is the call to continue with, without the first done_bytes() bytes of each block.
  virtual bool has_stopped() const = 0;
  virtual std::uint64_t done_bytes() const = 0;
  /// Call this when the call is done, here or by the plain pool: stores data that the Mover did not
  /// move where it belongs. Errors: those of the Mover.
  virtual Result<void> give_staged() = 0;

  // For calls whose data a Mover moves. Any thread may call the first three.
  /// Number of packets that such a call takes; 0: it does not go through the switch.
  virtual std::uint64_t packets_of_moved(const Call& call) const = 0;
  /// Its steps. `call`: one that takes packets.
  virtual Schedule schedule_of_moved(const Call& call) const = 0;
  /// Address of chunk `chunk` of such a call whose first packet is `first`. For this rank: its slot
  /// for the operand. For the rank after the last: the switch's slot for the result.
  virtual std::byte* moved_chunk(std::uint64_t first, std::uint32_t rank,
                                 std::uint64_t chunk) const = 0;
  /// As Communicator::drop_copies_of_own_slots(), for the slots of this rank's operands.
  virtual void drop_copies_of_operands() = 0;
  /// Packets of the calls begun.
  virtual std::uint64_t packets() const = 0;
};

/// How the ranks of a communicator agree that a switch serves it. An object for each Agreement.
class SwitchPort {
 public:
  virtual ~SwitchPort() = default;

  // For rank 0:
  /// Whether the user wants a switch for communicators that are made now.
  virtual bool is_wanted(arena::Arena& arena) const = 0;
  /// Whether the user wants it for every call that it can do, and one serves the pool.
  virtual bool does_all(arena::Arena& arena) const = 0;
  /// Asks the switches of the pool to serve `ranks` ranks with slots as in `offer`, and adds to it
  /// what the other ranks must know. Returns the memory that it took, at most `max_bytes`; the
  /// switches may store there until is_withdrawn(). Nullopt: nothing was taken. If they do not
  /// serve, logs why.
  virtual std::optional<arena::Object> ask(const Agreement::Space& space, std::uint32_t ranks,
                                           std::uint64_t max_bytes, Offer& offer) = 0;
  /// Waits until the switches have let go of that memory. False if they do not in 2 s.
  virtual bool withdraw() = 0;

  /// For all ranks: completes the options by what rank 0 has offered.
  virtual void complete(Options& options, const Offer& first) const = 0;
};

}  // namespace penstock::coll

// One launch for a small call of the direct form, whose data carries its own flags
// (schedule/flagged_units.hpp): a rank stores its payload into its own block of the pool, and polls
// the data of the others there, without a doorbell, a fence or a second read in between. Compiled
// for the GPU by flagged.cu, for the host by the stand-in GPU, and for simulated nodes by their
// tests. Protocol: docs/protocols/flagged-calls.md. Source: PTX ISA 8.8, "Memory consistency
// model".
#pragma once

#include "gpu/fused.hpp"
#include "schedule/flagged_units.hpp"

/// Keeps an array in registers.
#ifdef __CUDA_ARCH__
#define PENSTOCK_UNROLL _Pragma("unroll")
#else
#define PENSTOCK_UNROLL
#endif

namespace penstock::gpu {

inline constexpr std::uint32_t max_flagged_ranks = 48;  ///< as coll::max_flagged_ranks
/// Shared memory for what a call reads before it reduces; as coll::max_flagged_read.
inline constexpr std::uint32_t flagged_staging_bytes = 32 << 10;

/// State in memory of the GPU, zero at first, of the flagged calls so far. Launches of a
/// communicator run one after the other.
struct FlaggedState {
  std::uint64_t calls = 0;
  std::uint64_t used[coll::flagged_blocks] = {};   ///< by block: the last collective that used it
  std::uint64_t finished[max_flagged_ranks] = {};  ///< by rank: the last call known to be finished
};

struct FlaggedUnit {
  std::uint64_t half[2];
};

/// Arguments of one launch. Pointers are the GPU's.
struct FlaggedCall : LaunchWords {
  static constexpr bool reduces_in_pool = false;
  static constexpr std::uint32_t max_parts = max_flagged_ranks, max_moves = 8,
                                 max_operands = max_flagged_ranks + max_moves;
  /// Payload for other ranks.
  struct Put {
    const void* from;
    std::uint32_t unit;  ///< the first one in the block
    std::uint32_t bytes;
  };
  /// Payload of another rank.
  struct Take {
    const FlaggedUnit* from;  ///< in the first block
    void* to;                 ///< null: to the staging memory
    std::uint32_t bytes;
    std::uint32_t staged_at;
  };
  /// An operand of a move; `at` null: in the staging memory.
  struct Operand {
    const void* at;
    std::uint64_t staged_at;
  };

  FlaggedState* state = nullptr;
  std::uint64_t turn = 0;   ///< number of the collective, unless the launch counts it
  std::uint64_t calls = 0;  ///< which flagged call it is, from 1; 0: the launch counts
  double factor = 1;
  const void* factor_at = nullptr;
  FlaggedUnit* own = nullptr;         ///< this rank's first block
  std::uint64_t* finished = nullptr;  ///< by rank: its word "finished" for this rank
  std::uint64_t* tells = nullptr;     ///< this rank's word for rank 0
  std::uint64_t hears = 0;            ///< by rank, a bit: this rank takes data of it
  std::uint32_t tells_stride = 0;     ///< words to that for the next rank
  std::uint32_t block_units = 0;      ///< from one block of a rank to the next
  std::uint32_t ranks = 1, self = 0;
  coll::Operation operation = coll::Operation::sum;
  bool awaits_readers = true;  ///< false: all are known to have finished the block's last call
  std::uint8_t keeps = 0;      ///< the first moves: they are done before the puts
  std::uint8_t puts = 0, takes = 0, moves = 0, operands = 0;
  Put put[max_parts] = {};
  Take take[max_parts] = {};
  FusedCall::Move move[max_moves] = {};
  Operand operand[max_operands] = {};
};
static_assert(sizeof(FlaggedCall) <= 4096);

/// Walks through the units of several parts as one list: this thread's units are every `stride`-th.
template <class Part>
class UnitWalk {
 public:
  PENSTOCK_HOST_DEVICE UnitWalk(const Part* parts, std::uint32_t count, std::uint32_t first)
      : parts_(parts), count_(count), unit_(first) {
    find_part();
  }
  PENSTOCK_HOST_DEVICE bool is_over() const { return part_ == count_; }
  PENSTOCK_HOST_DEVICE const Part& part() const { return parts_[part_]; }
  PENSTOCK_HOST_DEVICE std::uint32_t unit() const { return unit_; }
  /// Payload in the unit.
  PENSTOCK_HOST_DEVICE std::uint32_t bytes() const {
    const std::uint32_t left = part().bytes - unit_ * coll::unit_payload;
    return left < coll::unit_payload ? left : coll::unit_payload;
  }
  PENSTOCK_HOST_DEVICE void advance(std::uint32_t stride) {
    unit_ += stride;
    find_part();
  }

 private:
  PENSTOCK_HOST_DEVICE void find_part() {
    while (part_ < count_ && unit_ >= coll::units_of(parts_[part_].bytes))
      unit_ -= coll::units_of(parts_[part_++].bytes);
  }

  const Part* const parts_;
  const std::uint32_t count_;
  std::uint32_t part_ = 0, unit_;
};

// Bytes one by one. Calls: addresses are seldom odd, and a kernel has this code in many places.
PENSTOCK_HOST_DEVICE inline __attribute__((noinline)) std::uint64_t load_bytes(
    const void* from, std::uint32_t bytes) {
  std::uint64_t payload = 0;
  for (std::uint32_t i = 0; i < bytes; ++i)
    payload |= std::uint64_t{static_cast<const unsigned char*>(from)[i]} << 8 * i;
  return payload;
}
PENSTOCK_HOST_DEVICE inline __attribute__((noinline)) void store_bytes(void* to,
                                                                       std::uint64_t payload,
                                                                       std::uint32_t bytes) {
  for (std::uint32_t i = 0; i < bytes; ++i)
    static_cast<unsigned char*>(to)[i] = static_cast<unsigned char>(payload >> 8 * i);
}

/// Up to 8 bytes at any address.
PENSTOCK_HOST_DEVICE inline std::uint64_t load_payload(const void* from, std::uint32_t bytes) {
  const auto address = reinterpret_cast<std::uintptr_t>(from);
  if (bytes == 8 && address % 8 == 0) return *static_cast<const std::uint64_t*>(from);
  if (bytes != 8 || address % 4 != 0) return load_bytes(from, bytes);
  const auto* const words = static_cast<const std::uint32_t*>(from);
  return std::uint64_t{words[1]} << 32 | words[0];
}
PENSTOCK_HOST_DEVICE inline void store_payload(void* to, std::uint64_t payload,
                                               std::uint32_t bytes) {
  const auto address = reinterpret_cast<std::uintptr_t>(to);
  if (bytes == 8 && address % 8 == 0) {
    *static_cast<std::uint64_t*>(to) = payload;
  } else if (bytes == 8 && address % 4 == 0) {
    static_cast<std::uint32_t*>(to)[0] = static_cast<std::uint32_t>(payload);
    static_cast<std::uint32_t*>(to)[1] = static_cast<std::uint32_t>(payload >> 32);
  } else {
    store_bytes(to, payload, bytes);
  }
}

/// `Block`: that of CarryingOut, and
///
///     peek(word)                a load in any order; the thread goes on until it uses the value
///     store_unit(to, unit), load_unit(from)   in any order, also of the two halves
///     has_arrived(unit, flag)   whether both halves have the flag
///     may_reuse(told, wanted)   whether a rank has told that it has finished a collective
///     must_clear(call)          coll::clears_block()
///     staging(), operands()     memory of the block: flagged_staging_bytes, and
///                               FlaggedCall::max_operands pointers
template <class Format, class Block>
class CarryingFlagged {
 public:
  PENSTOCK_HOST_DEVICE CarryingFlagged(const FlaggedCall& call, const Block& block)
      : call_(call), block_(block) {}

  PENSTOCK_HOST_DEVICE void carry_out() {
    const std::uint64_t stopped = block_.peek(call_.stops);
    number_ = call_.calls != 0 ? call_.calls : call_.state->calls + 1;
    flag_ = coll::flag_of(number_);
    const bool clears = block_.must_clear(number_);
    const bool writes = call_.puts != 0 || clears;
    bool goes_on = true;
    find_operands();
    if (writes && call_.awaits_readers) goes_on = block_.sync_and(readers_are_done());
    if (goes_on && clears) clear();
    if (goes_on) put_all();
    if (call_.begins != 0 && block_.thread() == block_.threads() - 1) number_call(call_, block_);
    goes_on = goes_on && take_all(stopped);
    if (!writes && call_.awaits_readers) goes_on = readers_are_done() && goes_on;
    if (call_.moves != 0 && stopped != 0) goes_on = false;  // a call that takes nothing
    goes_on = block_.sync_and(goes_on);
    turn_ = call_.begins != 0 ? call_.epoch->turn.number : call_.turn;
    if (goes_on) tell_all();
    if (goes_on) move_all();
    // After all stores and words of the block: the host then takes the call for done.
    block_.sync_threads();
    if (block_.thread() != 0) return;
    block_.release_fence();
    block_.store(call_.done, turn_);
  }

 private:
  PENSTOCK_HOST_DEVICE std::uint32_t block_of_call() const {
    return static_cast<std::uint32_t>(number_ % coll::flagged_blocks);
  }
  PENSTOCK_HOST_DEVICE FlaggedUnit* own_units() const {
    return call_.own + std::size_t{block_of_call()} * call_.block_units;
  }

  PENSTOCK_HOST_DEVICE void find_operands() {
    for (std::uint32_t i = block_.thread(); i < call_.operands; i += block_.threads()) {
      const FlaggedCall::Operand& operand = call_.operand[i];
      block_.operands()[i] =
          operand.at != nullptr ? operand.at : block_.staging() + operand.staged_at;
    }
  }

  /// Waits until the others have finished the call that used the block last. A rank whose data came
  /// in the call before this one has.
  PENSTOCK_HOST_DEVICE bool readers_are_done() {
    const std::uint64_t used = call_.state->used[block_of_call()];
    for (std::uint32_t rank = block_.thread(); rank < call_.ranks; rank += block_.threads()) {
      const bool known = call_.state->finished[rank] + coll::flagged_blocks >= number_;
      if (rank == call_.self || used == 0 || known) continue;
      if (!await_finished(rank, used)) return false;
    }
    return true;
  }
  PENSTOCK_HOST_DEVICE bool await_finished(std::uint32_t rank, std::uint64_t collective) const {
    const std::uint64_t wanted = collective << word_low_bits;
    for (std::uint32_t looks = 1;; ++looks) {
      const std::uint64_t told = block_.load(call_.finished + rank);
      if (block_.may_reuse(told, wanted)) return told < released_word;
      if (looks % looks_between_stops == 0 && block_.load(call_.stops) != 0) return false;
      block_.pause();
    }
  }

  /// Clears the whole block of this rank, from its end: so a unit that is written again is mostly
  /// another thread's, and tests show that the fence is needed.
  PENSTOCK_HOST_DEVICE void clear() {
    for (std::uint32_t i = block_.thread(); i < call_.block_units; i += block_.threads())
      block_.store_unit(own_units() + (call_.block_units - 1 - i), {});
    block_.sync_threads();
    block_.release_fence();
  }

  /// Copies data that is published later. Threads have found the operands, each some of them.
  PENSTOCK_HOST_DEVICE void keep() {
    block_.sync_threads();
    std::uint32_t taken = 0;
    for (std::uint32_t i = 0; i < call_.keeps; ++i) {
      const FusedCall::Move& move = call_.move[i];
      block_.copy(move, block_.operands()[move.first], first_of(move, taken));
    }
    block_.sync_threads();
  }

  PENSTOCK_HOST_DEVICE void put_all() {
    if (call_.keeps != 0) keep();
    using Walk = UnitWalk<FlaggedCall::Put>;
    for (Walk at(call_.put, call_.puts, block_.thread()); !at.is_over();
         at.advance(block_.threads())) {
      const FlaggedCall::Put& put = at.part();
      const auto* const from = static_cast<const unsigned char*>(put.from);
      const std::uint64_t payload =
          load_payload(from + std::size_t{at.unit()} * coll::unit_payload, at.bytes());
      block_.store_unit(own_units() + put.unit + at.unit(),
                        {coll::unit_half(static_cast<std::uint32_t>(payload), flag_),
                         coll::unit_half(static_cast<std::uint32_t>(payload >> 32), flag_)});
    }
  }

  /// A unit that this thread takes, and its place.
  struct Wanted {
    const FlaggedUnit* from;
    unsigned char* to;
    std::uint32_t bytes;
  };
  static constexpr std::uint32_t at_once = 8;  ///< loads on their way

  /// False: the host has stopped the launch. Nothing is stored then, if it had done so before.
  PENSTOCK_HOST_DEVICE bool take_all(std::uint64_t stopped) {
    UnitWalk<FlaggedCall::Take> at(call_.take, call_.takes, block_.thread());
    while (!at.is_over()) {
      Wanted wanted[at_once];
      std::uint32_t count = 0;
      PENSTOCK_UNROLL
      for (std::uint32_t k = 0; k < at_once; ++k) {
        if (at.is_over()) continue;
        wanted[k] = want(at);
        at.advance(block_.threads());
        count = k + 1;
      }
      if (!take(wanted, count, stopped)) return false;
    }
    return true;
  }

  PENSTOCK_HOST_DEVICE Wanted want(const UnitWalk<FlaggedCall::Take>& at) const {
    const FlaggedCall::Take& take = at.part();
    auto* const to = take.to != nullptr ? static_cast<unsigned char*>(take.to)
                                        : block_.staging() + take.staged_at;
    return {take.from + std::size_t{block_of_call()} * call_.block_units + at.unit(),
            to + std::size_t{at.unit()} * coll::unit_payload, at.bytes()};
  }

  /// A look at all units, then at one that was missing until it is there, then at all others again:
  /// so waiting for a late rank costs the bus one load of each thread at a time.
  PENSTOCK_HOST_DEVICE bool take(const Wanted (&wanted)[at_once], std::uint32_t count,
                                 std::uint64_t stopped) const {
    FlaggedUnit units[at_once];
    std::uint32_t missing = (1u << count) - 1;  // by unit, a bit
    for (;;) {
      PENSTOCK_UNROLL
      for (std::uint32_t k = 0; k < at_once; ++k)
        if ((missing >> k & 1) != 0) units[k] = block_.load_unit(wanted[k].from);
      const FlaggedUnit* awaited = nullptr;
      PENSTOCK_UNROLL
      for (std::uint32_t k = 0; k < at_once; ++k) {
        if ((missing >> k & 1) == 0) continue;
        if (block_.has_arrived(units[k], flag_))
          missing &= ~(1u << k);
        else
          awaited = wanted[k].from;
      }
      if (missing == 0) break;
      FlaggedUnit unit;
      if (!await_unit(awaited, unit)) return false;
      PENSTOCK_UNROLL
      for (std::uint32_t k = 0; k < at_once; ++k) {
        if ((missing >> k & 1) == 0 || wanted[k].from != awaited) continue;
        units[k] = unit;
        missing &= ~(1u << k);
      }
      if (missing == 0) break;
    }
    if (stopped != 0) return false;
    PENSTOCK_UNROLL
    for (std::uint32_t k = 0; k < at_once; ++k) {
      if (k >= count) break;
      const std::uint64_t payload = (units[k].half[0] & 0xffffffff) | units[k].half[1] << 32;
      store_payload(wanted[k].to, payload, wanted[k].bytes);
    }
    return true;
  }

  PENSTOCK_HOST_DEVICE bool await_unit(const FlaggedUnit* from, FlaggedUnit& unit) const {
    for (std::uint32_t looks = 1;; ++looks) {
      block_.pause();
      unit = block_.load_unit(from);
      if (block_.has_arrived(unit, flag_)) return true;
      if (looks % looks_between_stops == 0 && block_.load(call_.stops) != 0) return false;
    }
  }

  /// This rank needs nothing more of the others, and all its data has left.
  PENSTOCK_HOST_DEVICE void tell_all() {
    if (block_.thread() < call_.ranks) block_.release_fence();
    for (std::uint32_t rank = block_.thread(); rank < call_.ranks; rank += block_.threads()) {
      if (rank == call_.self) continue;
      block_.store(call_.tells + std::size_t{rank} * call_.tells_stride, turn_ << word_low_bits);
      const bool heard = (call_.hears >> rank & 1) != 0;
      if (heard) call_.state->finished[rank] = number_ - 1;
    }
    if (block_.thread() != 0) return;
    call_.state->calls = number_;
    call_.state->used[block_of_call()] = turn_;
  }

  PENSTOCK_HOST_DEVICE void move_all() {
    const void* const* const operands = block_.operands();
    std::uint32_t taken = 0;
    for (std::uint32_t i = call_.keeps; i < call_.moves; ++i) {
      const FusedCall::Move& move = call_.move[i];
      const std::uint32_t first = first_of(move, taken);
      const Values values{move.to, move.bytes / sizeof(typename Format::Word),
                          operands + move.first, move.operands, call_.ranks};
      if (move.combines)
        block_.template combine<Format>(call_, values, first);
      else
        block_.copy(move, operands[move.first], first);
    }
  }
  /// This thread's first unit of a move, whose first unit is the next thread's after the last one's
  /// of the move before. `taken`: units so far.
  PENSTOCK_HOST_DEVICE std::uint32_t first_of(const FusedCall::Move& move,
                                              std::uint32_t& taken) const {
    constexpr std::uint32_t unit = 16;
    const std::uint32_t threads = block_.threads();
    const std::uint32_t first = (block_.thread() + threads - taken % threads) % threads;
    taken += (move.bytes + unit - 1) / unit;
    return first;
  }

  const FlaggedCall& call_;
  const Block& block_;
  std::uint64_t number_ = 0;  ///< of the flagged call
  std::uint64_t turn_ = 0;
  std::uint32_t flag_ = 0;
};

}  // namespace penstock::gpu

#undef PENSTOCK_UNROLL

// One launch for a small call: one block of threads carries out the rounds of
// coll/fused_program.hpp. It waits for words, copies and reduces straight between the pool and the
// GPU's memory, and writes words, without a launch, an event or another stream in between. The
// words are those of the pool in the direct form, and the proxy's in the other. Compiled for the
// GPU by fused.cu, for the host by the stand-in GPU, and for simulated nodes by their tests.
// Protocol: docs/protocols/one-launch.md. The order of data and words follows the release and
// acquire patterns and the barriers of its source. Source: PTX ISA 8.8, "Memory consistency model".
#pragma once

#include "gpu/combine.hpp"
#include "gpu/word_ops.hpp"

namespace penstock::gpu {

/// Arguments of one launch. Pointers are the GPU's.
struct FusedCall : LaunchWords {
  static constexpr bool reduces_in_pool = true;
  static constexpr std::uint32_t max_words = 128, max_moves = 40, max_operands = 112,
                                 max_rounds = 24;
  struct Move {
    void* to;
    std::uint32_t bytes;
    std::uint8_t first, operands;  ///< a range of `operand`; a copy has one
    bool combines;
    bool behind;  ///< the moves before it must be complete
  };
  struct Round {
    std::uint8_t waits, moves, signals;  ///< how many of each list belong to this round
  };

  CallTurn turn;  ///< unless the launch counts the call
  double factor = 1;
  const void* factor_at = nullptr;
  std::uint32_t ranks = 1;
  coll::Operation operation = coll::Operation::sum;
  std::uint8_t rounds = 0, words = 0, moves = 0, operands = 0;
  WordOp word[max_words] = {};
  Move move[max_moves] = {};
  const void* operand[max_operands] = {};
  Round round[max_rounds] = {};
};
static_assert(sizeof(FusedCall) <= 4096);
/// The operands of a move that reduces.
inline PENSTOCK_HOST_DEVICE Values values_of(const FusedCall& call, const FusedCall::Move& move,
                                             std::uint32_t element_bytes) {
  return {move.to, move.bytes / element_bytes, call.operand + move.first, move.operands,
          call.ranks};
}
/// Threads in the one block.
inline constexpr unsigned fused_threads = 512;

/// `Block`: a thread of the block, and the block.
///
///     thread(), threads()   this thread's index, and their number
///     load(word)            acquire, system scope
///     store(word, value)    relaxed, system scope
///     pause()               between two loads of a wait
///     sync_threads()        a barrier of the block: earlier accesses of its threads are complete
///     sync_and(goes_on)     the same; whether the argument was true for all
///     release_fence()       earlier accesses of all threads come before this thread's later
///                           stores, also as hosts and other GPUs see them
///     copy(move, from, first)            this thread's part: units first, first + threads(), ...
///     combine<Format>(call, values, first) the same for a reduction
template <class Format, class Block>
class CarryingOut {
 public:
  PENSTOCK_HOST_DEVICE CarryingOut(const FusedCall& call, const Block& block)
      : call_(call), block_(block) {}

  PENSTOCK_HOST_DEVICE void carry_out() {
    if (call_.begins != 0) {
      if (block_.thread() == 0) begin_call(call_, block_);
      block_.sync_threads();
    }
    turn_ = call_.begins != 0 ? call_.epoch->turn : call_.turn;
    bool goes_on = true;
    for (std::uint32_t i = 0; i < call_.rounds && goes_on; ++i) goes_on = round(call_.round[i]);
    // After all stores and words of the block: the host then takes the call for done.
    block_.sync_threads();
    if (block_.thread() != 0) return;
    block_.release_fence();
    block_.store(call_.done, turn_.number);
  }

 private:
  /// False: the call was released by its host. Nothing of it is moved or told then.
  PENSTOCK_HOST_DEVICE bool round(FusedCall::Round round) {
    bool goes_on = true;
    for (std::uint32_t i = block_.thread(); i < round.waits; i += block_.threads())
      goes_on = await_one(turn_, call_.word[word_ + i], call_.stops, block_) && goes_on;
    if (round.waits != 0 && !block_.sync_and(goes_on)) return false;
    word_ += round.waits;
    move_all(round.moves);
    if (round.signals != 0) signal_all(round.signals);
    return true;
  }

  PENSTOCK_HOST_DEVICE void move_all(std::uint32_t count) {
    constexpr std::uint32_t unit = 16;
    std::uint32_t begin = 0;  // units so far: the next move begins with the thread after the last
                              // one's
    for (std::uint32_t i = 0; i < count; ++i, ++move_) {
      const FusedCall::Move& move = call_.move[move_];
      if (move.behind) block_.sync_threads();
      const std::uint32_t first =
          (block_.thread() + block_.threads() - begin % block_.threads()) % block_.threads();
      if (move.combines)
        block_.template combine<Format>(
            call_, values_of(call_, move, sizeof(typename Format::Word)), first);
      else
        block_.copy(move, call_.operand[move.first], first);
      begin += (move.bytes + unit - 1) / unit;
    }
  }

  PENSTOCK_HOST_DEVICE void signal_all(std::uint32_t count) {
    block_.sync_threads();
    if (block_.thread() < count) block_.release_fence();
    for (std::uint32_t i = block_.thread(); i < count; i += block_.threads())
      signal_one(turn_, call_.word[word_ + i], block_);
    word_ += count;
  }

  const FusedCall& call_;
  const Block& block_;
  CallTurn turn_;
  std::uint32_t word_ = 0, move_ = 0;  ///< the next ones in the lists
};

}  // namespace penstock::gpu

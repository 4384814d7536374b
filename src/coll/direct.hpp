// The host's side of collectives that its GPU runs by itself (direct_program.hpp): their numbers
// and, for the watchdog, the ranks that the GPU waits for. The host moves no data, and no call
// needs it to progress. But a GPU's streams cannot see that a rank has died: they wait until their
// host raises the words that they wait for. Protocol: docs/protocols/collectives.md.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "coll/prepared.hpp"
#include "coll/state.hpp"

namespace penstock::coll {

/// More ranks would need words that fill much of a pool, and that a GPU would poll for long.
inline constexpr std::uint32_t max_direct_ranks = 256;

/// Returned by Communicator::direct(). Threads: the thread that enqueues calls next() and note();
/// the watchdog calls the rest. Call none of them while the host makes a call.
class Direct {
 public:
  static constexpr std::uint64_t gone = 1ull << 62;  ///< greater than any value that a wait needs

  explicit Direct(State& state) : s_(state), finished_(state.group.ranks()) {}

  /// Shares two words with the GPU. `number`: the last collective that a host or the GPU has begun;
  /// this call sets it. `done`: the last one that the GPU has finished. Call it before the first
  /// call.
  void count_in(std::uint64_t* number, const std::uint64_t* done) { s_.count_in(number, done); }

  /// Stops the use of these words.
  void count_by_itself() { s_.count_by_itself(); }
  /// Numbers the next call, for a host that numbers calls as it enqueues them.
  DirectTurn next(const Prepared& prepared);
  /// The half of the slots for the next call, for a GPU that numbers calls as it reaches them.
  std::uint64_t take_half() { return calls_++ % halves; }
  /// Whether a call that the host has numbered needs `op`. It does not if `rank` is known to have
  /// finished the awaited collective.
  bool is_needed(const DirectOp& op, const DirectTurn& turn) const {
    if (op.kind == DirectOp::Kind::resume) return turn.resumes;
    return op.kind != DirectOp::Kind::free || finished_[op.rank] < turn.free;
  }
  /// Whether all other ranks are known to have finished the flagged call that used the block last.
  bool is_block_free(const DirectTurn& turn) const;
  /// Records that the call was enqueued.
  void note(const Prepared& prepared, const DirectTurn& turn);

  /// Checks whether another rank has failed, or a rank that the call waits for is dead. `prepared`:
  /// the call in progress; null if unknown, and then the GPU waits for every rank that has not
  /// finished it. `missing`: the ranks that it waits for. Errors: those of Communicator::run().
  /// Several device accesses.
  Result<void> look(const char* what, const Prepared* prepared, const DirectTurn& turn,
                    Missing& missing);
  /// Checks whether another rank has failed. Called after a call is done, it reports every failure
  /// that could have given that call wrong data, because a rank publishes its failure before it
  /// releases its GPU. A rank that gave up with no work left is not reported here; only calls that
  /// wait for it fail.
  Result<void> look_for_failures(const char* what);
  std::string names(const Missing& missing) const { return s_.group.names(missing); }
  group::Group& group() const { return s_.group; }
  /// Address of the word by which `rank` tells `to` of its last finished collective.
  const std::byte* finished_word(std::uint32_t rank, std::uint32_t to) const {
    return s_.at(s_.layout.direct_finished(rank, to));
  }
  /// Address of the word that `op` waits for or writes.
  std::byte* word_at(const DirectOp& op) const { return s_.at(op.at); }
  /// Releases the GPU from all waits in this communicator. A word that another GPU writes later may
  /// be lower again, so repeat the call until the streams have drained.
  void release_gpu();

 private:
  bool is_over(const DirectOp& op, const DirectTurn& turn) const;
  void find_missing(const std::vector<DirectOp>& program, const DirectTurn& turn,
                    Missing& missing) const;
  const std::byte* flagged_units_of(const EagerRead& read, std::uint64_t call) const;
  bool has_arrived(const EagerRead& read, std::uint64_t call) const;
  void find_missing_data(const Prepared& prepared, const DirectTurn& turn, Missing& missing) const;
  bool has_finished(std::uint32_t rank, std::uint64_t collective) const;
  void observe_awaited(const Prepared* prepared, const DirectTurn& turn, Missing& missing) const;

  State& s_;
  std::uint64_t calls_ = 0, flagged_calls_ = 0, last_ = 0;
  std::array<std::uint64_t, halves> used_{};
  std::array<std::uint64_t, flagged_blocks> block_used_{};
  std::vector<std::uint64_t> finished_;  ///< by rank: the last collective known to be finished
  Missing idle_;  ///< ranks that had given up with no work left, at the last look
};

}  // namespace penstock::coll

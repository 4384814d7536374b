// What the host of a rank knows of collectives that its GPU does by itself (direct_program.hpp):
// their numbers, and, for its watchdog, whom the GPU waits for. It moves nothing, and no call needs
// it to go on; but a GPU's streams cannot see that a rank has died, and wait until their host
// raises the words that they wait for. Protocol: docs/protocols/collectives.md.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "coll/prepared.hpp"
#include "coll/state.hpp"

namespace penstock::coll {

/// More have words that fill much of a pool, and words that a GPU would look at for long.
inline constexpr std::uint32_t max_direct_ranks = 256;

/// Of Communicator::direct(). next(), heard() and note() are of the thread that enqueues, the rest
/// of whoever watches; not while a host makes a call.
class Direct {
 public:
  static constexpr std::uint64_t gone = 1ull << 62;  ///< more than any wait is for

  explicit Direct(State& state) : s_(state), heard_(state.group.ranks()) {}

  /// Words of this host that the GPU writes too, or reads: the number of the last collective that
  /// was begun, by a host or the GPU, and of the last one that the GPU has finished. Before the
  /// first call. `number` gets what it must have.
  void count_in(std::uint64_t* number, const std::uint64_t* done) { s_.count_in(number, done); }

  /// These words go.
  void count_by_itself() { s_.count_by_itself(); }
  /// The next call, where the host numbers them as they are enqueued.
  DirectTurn next();
  /// The half of the slots of the next call, where the GPU numbers them as it comes to them.
  std::uint64_t take_half() { return calls_++ % halves; }
  /// Whether a call that the host has numbered needs it: a rank may be known to have finished the
  /// collective, once the GPU comes to the next call.
  bool is_needed(const DirectOp& op, const DirectTurn& turn) const {
    if (op.kind == DirectOp::Kind::resume) return turn.resumes;
    return op.kind != DirectOp::Kind::free || heard_[op.rank] < turn.free;
  }
  /// The call was enqueued.
  void note(const std::vector<DirectOp>& program, const DirectTurn& turn);

  /// Has another rank failed, or is one dead that a call waits for? `program`: the call in
  /// progress, where it is known; else the GPU waits for any rank that has not finished it.
  /// `missing`: whom it waits for. Errors: those of Communicator::run(). Some device accesses.
  Result<void> look(const char* what, const std::vector<DirectOp>* program, const DirectTurn& turn,
                    Missing& missing);
  /// Has another rank failed? Who asks when a call is done learns of every failure before which
  /// that call could have got wrong data: a rank that lets its GPU go has told of it before. One
  /// that had done all by then has told of nothing wrong, and only who waits for it has failed.
  Result<void> look_for_failures(const char* what);
  std::string names(const Missing& missing) const { return s_.group.names(missing); }
  group::Group& group() const { return s_.group; }
  /// A word of direct_program.hpp.
  std::byte* word_at(const DirectOp& op) const { return s_.at(op.at); }
  /// The GPU waits for nothing of this communicator any more. A word that another GPU tells later
  /// may be less again: until the streams have run out, call it again.
  void let_go();

 private:
  bool is_over(const DirectOp& op, const DirectTurn& turn) const;
  void find_missing(const std::vector<DirectOp>& program, const DirectTurn& turn,
                    Missing& missing) const;
  void observe_own_words(const std::vector<DirectOp>* program, const DirectTurn& turn,
                         Missing& missing) const;

  State& s_;
  std::uint64_t calls_ = 0, last_ = 0;
  std::array<std::uint64_t, halves> used_{};
  std::vector<std::uint64_t> heard_;  ///< by rank: it has finished this collective
  Missing idle_;                      ///< gave up when they had done all, as was last seen
};

}  // namespace penstock::coll

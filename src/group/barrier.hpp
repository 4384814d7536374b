// A barrier of a group, as a tree of nodes: the ranks of a node gather at its first rank, their
// leader; the leaders meet; then each releases its own node. After it each rank observes what the
// others published before it. Lines, accesses and deaths: docs/protocols/barrier.md.
#pragma once

#include <functional>
#include <vector>

#include "group/group.hpp"

namespace penstock::group {

/// Selects the form of a barrier. The same on all ranks.
struct BarrierForm {
  std::uint32_t flat_up_to = 16;  ///< up to this number of ranks, all poll each other, without
                                  ///< leaders
  std::uint32_t fan_in = 16;      ///< lines that a rank reads at each step, roughly; at least 2
};

class Barrier : private Culprits {
 public:
  /// Bytes of each rank in the pool, zeroed and published before the first use.
  static constexpr std::uint64_t bytes_of_rank = coherence::line_bytes;
  using LineOf = std::function<std::byte*(std::uint32_t rank)>;
  Barrier(Group& group, LineOf line_of, BarrierForm form = {});

  /// Announces this rank without waiting. Writes one line.
  void arrive();
  /// Waits until all ranks have called arrive() as often as this one. Errors: peer_dead.
  Result<void> await_others(const char* what);
  Result<void> meet(const char* what) {
    arrive();
    return await_others(what);
  }
  /// Call it between arrive() and await_others(), if that time may be long: others may wait for
  /// what this rank passes on. Does not wait; does nothing while a thread is in await_others().
  void pass_on();

 private:
  /// Words of a rank's line. Each is the number of the last barrier in which the event happened.
  enum Word : std::uint32_t {
    arrived = 0,   ///< the rank itself has arrived
    gathered = 1,  ///< and all that gather at it have arrived
    first_step = 2,
    released = 7  ///< a leader: all have arrived
  };
  static constexpr std::uint32_t step_limit = released - first_step;

  /// A round ends when `word` of all `awaited` ranks has the number; then `signals` of its own line
  /// get it.
  struct Round {
    Missing awaited;
    std::uint32_t word = arrived;
    bool in_node = false;                ///< all awaited ranks are on this rank's node
    std::vector<std::uint32_t> signals;  ///< may be empty
  };
  /// A rank that others may still wait for.
  struct Behind {
    std::uint32_t rank;
    bool has_arrived;
  };

  void plan(const BarrierForm& form);
  void plan_gathering(const std::vector<std::uint32_t>& mates, std::uint32_t place,
                      std::uint32_t fan_in);
  void plan_steps(const std::vector<std::uint32_t>& leaders, std::uint32_t place,
                  std::uint32_t steps, std::uint32_t radix);
  void signal(const std::vector<std::uint32_t>& words);
  void look();
  void end_round();
  bool over() const { return round_ == rounds_.size(); }
  bool reached(std::uint64_t word) const { return word > number_; }
  Missing some(bool to_name) override;
  bool is_still(std::uint32_t rank) override;
  std::size_t drop_those_through(std::size_t most);

  Group& group_;
  const LineOf line_of_;
  std::vector<Round> rounds_;
  std::vector<std::uint32_t> arrival_;   ///< words that arrive() writes
  std::vector<std::uint8_t> last_word_;  ///< by rank: the word that it writes last; after that no
                                         ///< rank waits for it
  bool flat_ = true;
  std::uint64_t number_ = 0;  ///< barriers passed
  std::size_t round_ = 0;
  bool in_round_ = false;  ///< missing_ belongs to this round
  bool waiting_ = false;   ///< a thread is in await_others()
  Missing missing_;
  std::uint64_t words_[coherence::line_bytes / 8] = {};  ///< this rank's line
  std::vector<Behind> behind_;                           ///< found by slow waits
  std::uint64_t behind_of_ = ~std::uint64_t{0};          ///< the barrier that behind_ belongs to
};

}  // namespace penstock::group

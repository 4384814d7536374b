// State that the forms of a collective share: the communicator's words in the pool, and what this
// rank knows of the others from them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "coll/communicator.hpp"
#include "coll/fingerprint.hpp"
#include "coll/layout.hpp"
#include "coll/own_words.hpp"
#include "coll/slots.hpp"
#include "group/group.hpp"

namespace penstock::coll {

using group::Missing;

/// The readers of this rank's data in a collective. It may be overwritten when they have finished.
struct Use {
  std::uint64_t collective = 0;
  std::vector<std::uint32_t> consumers;

  void set(std::uint64_t number, const std::vector<std::uint32_t>& by) {
    collective = number;
    consumers.assign(by.begin(), by.end());
  }
};

class State {
 public:
  State(pool::Pool& pool, const Options& options);

  group::Group group;
  const Shape shape;
  const Layout layout;
  Slots slots;

  OwnWords own;

  std::byte* at(std::uint64_t offset) const { return area_ + offset; }
  /// The memory to use for polling words that `rank` publishes.
  const coherence::Memory& memory_of(std::uint32_t rank) const {
    return group.apart(rank) ? group.memory : near_;
  }
  /// The memory to use for polling lines that several ranks write.
  const coherence::Memory& memory_of_all() const { return any_apart_ ? group.memory : near_; }
  std::uint32_t self() const { return group.self(); }

  /// Number of the collective that this rank is in or has finished last; the first is 1.
  std::uint64_t number = 0;

  /// Begins the next collective. If a GPU numbers some by itself, this one follows its last.
  std::uint64_t begin_next() {
    number = begun() + 1;
    if (shared_number_ != nullptr) __atomic_store_n(shared_number_, number, __ATOMIC_RELEASE);
    return number;
  }
  /// Begins the next collective for a call whose data the host moves.
  void begin_call(const CallFacts& facts, std::uint64_t reduction) {
    fingerprints.begin(facts, reduction);
    opening_ = opening_word(begin_next(), fingerprints.current());
  }
  Fingerprints fingerprints;
  /// The opening word of this rank's call.
  std::uint64_t opening() const { return opening_; }
  std::uint64_t doorbell_word(std::uint64_t chunk) const {
    if (chunk < shape.slots) return opening_;
    return later_doorbell(number, chunk, fingerprint_of(opening_));
  }
  /// Whether a doorbell shows that its producer has rung for `chunk` in a call like this rank's.
  /// The producer cannot ring there again before this rank has released the chunk, unless it is in
  /// another call.
  bool has_rung(std::uint64_t doorbell, std::uint64_t chunk) const {
    return (doorbell & ~zero_copy_bit) == doorbell_word(chunk);
  }
  std::uint64_t begun() const {
    return shared_number_ == nullptr ? number : __atomic_load_n(shared_number_, __ATOMIC_ACQUIRE);
  }
  /// The last collective that this rank's GPU has run by itself (direct.hpp); 0: none.
  std::uint64_t last_direct() const {
    return direct_done_ == nullptr ? last_direct_ : __atomic_load_n(direct_done_, __ATOMIC_ACQUIRE);
  }
  void count_by_itself() {
    number = begun();
    last_direct_ = last_direct();
    shared_number_ = nullptr;
    direct_done_ = nullptr;
  }
  void count_in(std::uint64_t* shared_number, const std::uint64_t* direct_done) {
    __atomic_store_n(shared_number, number, __ATOMIC_RELEASE);
    shared_number_ = shared_number;
    direct_done_ = direct_done;
  }

  /// Records that `rank` takes part in `collective`, so it has finished all earlier ones.
  void note_entered(std::uint32_t rank, std::uint64_t collective) {
    if (collective > finished_[rank] + 1) finished_[rank] = collective - 1;
  }
  /// Whether all consumers have finished the collective. `missing`: those that have not. No device
  /// access if this is known already.
  bool is_free(const Use& use, Missing& missing);
  /// Ends this rank's part in collective `number`. `read_by_all`: every other rank has read data of
  /// it there. Publishes the number if the others could not know it otherwise.
  void finish(bool eager, bool read_by_all);
  /// Like finish(), after a switch has done the call. Always publishes, because others may have to
  /// continue without the switch.
  void finish_in_switch();

  void leave();
  /// Whether all others have left. `missing`: those that have not.
  bool all_left(Missing& missing);

  /// Records what the words of `rank`, which were just observed, show. Returns its failure word.
  std::uint64_t learn_from(std::uint32_t rank);
  /// Decodes the failure word of `rank`: the index of a dead rank + 1, or that `rank` has given up.
  Error failure_of(const char* what, std::uint32_t rank, std::uint64_t failure);
  /// Checks all other ranks for failures, except those that had no call in progress. Any thread; a
  /// device access.
  Result<void> check_others(const char* what) const;
  /// The failure words of a rank that gave up: in a call, or with all its calls done. The second
  /// concerns only ranks that wait for it.
  std::uint64_t gave_up() const { return group.ranks() + std::uint64_t{1}; }
  std::uint64_t gave_up_idle() const { return gave_up() + 1; }
  /// Checks whether one of `missing`, whose words were just observed, has failed. Stores the first
  /// that has in `failed`.
  Result<void> check_failures(const char* what, const Missing& missing,
                              std::optional<std::uint32_t>& failed);
  /// Records the error, and publishes which rank is dead. `idle`: no call was in progress.
  void fail_with(const Error& error, bool idle = false);
  const std::optional<Error>& failure() const { return failure_; }

  /// Orders everything published before later publishes. On return it is on its way to the device.
  void send_off() {
    if (!published_) return;
    group.memory.store_fence();
    published_ = false;
  }
  void published() { published_ = true; }
  /// Restores words of this rank that were overwritten. They are published before everything that
  /// it publishes later.
  void restore_own_words() {
    if (own.restore()) published();
    send_off();
  }

 private:
  void drop_copies();
  void clear_releases();
  Error error_of(const char* what, std::uint32_t rank, std::uint64_t failure) const;
  std::uint32_t dead_rank() const;

  std::string noun_;
  std::byte* area_;
  coherence::Memory near_;
  bool any_apart_;
  bool published_ = false;  ///< something was published since the last store_fence
  std::uint64_t opening_ = 0;
  std::vector<std::uint64_t> finished_;  ///< by rank: the last collective known to be finished
  std::uint64_t announced_ = 0;  ///< the others know that this rank has finished this collective
  std::uint64_t last_with_slots_ = 0, with_slots_before_ = 0;
  std::optional<Error> failure_;
  std::uint64_t* shared_number_ = nullptr;
  const std::uint64_t* direct_done_ = nullptr;
  std::uint64_t last_direct_ = 0;
  Use end_;                              ///< used to find whether all others have left
  std::optional<std::uint32_t> blamed_;  ///< named by another rank
};

}  // namespace penstock::coll

// What the forms of a collective share: the communicator's words in the pool, and what this rank
// has learned of the others from them.
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

/// Who read what this rank published in a collective; it is written over when they have finished.
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
  /// To look at what `rank` publishes.
  const coherence::Memory& memory_of(std::uint32_t rank) const {
    return group.apart(rank) ? group.memory : near_;
  }
  /// To look at lines that several ranks write.
  const coherence::Memory& memory_of_all() const { return any_apart_ ? group.memory : near_; }
  std::uint32_t self() const { return group.self(); }

  /// Number of the collective that this rank is in or has finished; the first is 1.
  std::uint64_t number = 0;

  /// The next collective. Where a GPU numbers some by itself, behind its last one.
  std::uint64_t begin_next() {
    number = begun() + 1;
    if (shared_number_ != nullptr) __atomic_store_n(shared_number_, number, __ATOMIC_RELEASE);
    return number;
  }
  /// The same for a call whose data the host moves.
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
  /// Whether a doorbell shows that its producer has rung for `chunk` in a call like this rank's. A
  /// producer does not ring there again before this rank has released the chunk: if it has, it is
  /// in another call.
  bool has_rung(std::uint64_t doorbell, std::uint64_t chunk) const {
    return (doorbell & ~zero_copy_bit) == doorbell_word(chunk);
  }
  std::uint64_t begun() const {
    return shared_number_ == nullptr ? number : __atomic_load_n(shared_number_, __ATOMIC_ACQUIRE);
  }
  /// The last collective that this rank's GPU has done by itself (direct.hpp); 0: none.
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

  /// `rank` takes part in `collective`, so it has finished those before.
  void hear(std::uint32_t rank, std::uint64_t collective) {
    if (collective > finished_[rank] + 1) finished_[rank] = collective - 1;
  }
  /// Have all consumers finished the collective? `missing`: those that have not. No device access
  /// where it is known.
  bool is_free(const Use& use, Missing& missing);
  /// This rank has finished its part in collective `number`. `all_heard`: every other rank has read
  /// something of it there. Tells the others, where they could not know otherwise.
  void finish(bool eager, bool all_heard);
  /// The same where a switch has done it: tells the others in any case, who may have to go on
  /// without the switch.
  void finish_in_switch();

  void leave();
  /// Have all others left? `missing`: those that have not.
  bool all_left(Missing& missing);

  /// The words of `rank` were just observed: notes what they tell. Returns its failure.
  std::uint64_t learn_from(std::uint32_t rank);
  /// What `rank` tells of its failure: a rank that is dead + 1, or that it has given up.
  Error failure_of(const char* what, std::uint32_t rank, std::uint64_t failure);
  /// Looks at what all others tell, but for those that had nothing under way. Any thread; a device
  /// access.
  Result<void> check_others(const char* what) const;
  /// Told by a rank that gave up: in a call, or when it had done all that it began. The latter
  /// concerns only who waits for it.
  std::uint64_t gave_up() const { return group.ranks() + std::uint64_t{1}; }
  std::uint64_t gave_up_idle() const { return gave_up() + 1; }
  /// Whether one of `missing`, whose words were just observed, has failed.
  Result<void> check_failures(const char* what, const Missing& missing);
  /// Remembers, and lets the others know which rank is dead. `idle`: nothing was under way.
  void fail_with(const Error& error, bool idle = false);
  const std::optional<Error>& failure() const { return failure_; }

  /// What was published is on its way to the device when this returns.
  void send_off() {
    if (!published_) return;
    group.memory.store_fence();
    published_ = false;
  }
  void published() { published_ = true; }
  /// Looks for words of this rank that were overwritten. What it publishes again comes before all
  /// that it publishes later.
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
  bool published_ = false;  ///< something since the last store_fence
  std::uint64_t opening_ = 0;
  std::vector<std::uint64_t> finished_;  ///< by rank: the last collective known to be finished
  std::uint64_t told_ = 0;               ///< the others know that this rank has finished it
  std::uint64_t last_with_slots_ = 0, with_slots_before_ = 0;
  std::optional<Error> failure_;
  std::uint64_t* shared_number_ = nullptr;
  const std::uint64_t* direct_done_ = nullptr;
  std::uint64_t last_direct_ = 0;
  Use end_;                              ///< all others, when they have left
  std::optional<std::uint32_t> blamed_;  ///< by another rank
};

}  // namespace penstock::coll

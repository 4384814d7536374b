// Synchronization by loads and stores only: no atomic instruction ever touches the pool.
// Each structure is an array of lines with one writer each. Source: cMPI, section 3.4;
// Lamport's bakery (1974); Moir and Anderson's splitters (1995).
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "base/status.hpp"
#include "coherence/coherence.hpp"

namespace penstock::sync {

/// Is the process that wrote `token` (never 0) into a line still alive? Called from waits. A
/// process asks it for its own token before it stores anything that others act upon: do they still
/// consider it alive?
using AliveCheck = std::function<bool(std::uint64_t token)>;
/// Describes that process in words, for errors.
using Describe = std::function<std::string(std::uint64_t token)>;

// ---- Doorbell -------------------------------------------------------------------------------
// One line, one ringer, any number of listeners. Carries a sequence number that only grows.
// Ordering: what the ringer published before ring(n) is visible to a listener that observed n and
// then observes (invalidates and loads) that data.

class Doorbell {
 public:
  Doorbell(const coherence::Memory& memory, void* line) : memory_(memory), line_(line) {}
  void ring(std::uint64_t sequence);  ///< ringer only
  std::uint64_t read() const;         ///< one device access
  /// Waits until read() >= sequence. Errors: deadline; peer_dead if `alive` reports `token` dead.
  Result<void> wait(std::uint64_t sequence, std::uint64_t timeout_ns, const AliveCheck& alive = {},
                    std::uint64_t token = 0) const;

 private:
  coherence::Memory memory_;
  void* line_;
};

// ---- Barrier --------------------------------------------------------------------------------
// The paper's sequence barrier: participant i alone writes line i: the number of the barrier that
// it has reached, and its token. A wait ends when all lines are >= the waiter's own number.

class Barrier {
 public:
  static std::uint64_t bytes(std::uint32_t participants) { return 64ull * participants; }
  /// `lines`: zeroed (published) before the first use. `token`: this participant's process, for the
  /// others' alive checks.
  Barrier(const coherence::Memory& memory, void* lines, std::uint32_t participants,
          std::uint32_t self, std::uint64_t token, AliveCheck alive);
  void describe_by(Describe describe) { describe_ = std::move(describe); }
  /// Errors: deadline (names the missing participants), peer_dead (names the participant).
  Result<void> wait(std::uint64_t timeout_ns = 0);

 private:
  void arrive();
  /// Removes the participants that have arrived from `missing`. One device access.
  void drop_arrived(std::vector<std::uint32_t>& missing) const;
  Result<void> find_dead(const std::vector<std::uint32_t>& missing) const;

  coherence::Memory memory_;
  std::byte* lines_;
  std::uint32_t participants_, self_;
  std::uint64_t token_, sequence_ = 0;  ///< of the last barrier that was passed
  AliveCheck alive_;
  Describe describe_;
};

// ---- Lock -----------------------------------------------------------------------------------
// Lamport's bakery with one line for each participant (a node, or in tests a thread). Participants
// that the alive check reports dead are passed over, so that a death never blocks the lock. One
// exclusive holder, or any number of sharers.

enum class Hold : std::uint8_t { exclusive, shared };

/// A lock of adjacent lines, and which of them belongs to this participant.
struct LockPlace {
  std::byte* lines = nullptr;
  std::uint32_t participants = 0, self = 0;
  bool past_caches = false;  ///< see Lock::leave_nothing_dirty
};

class Lock {
 public:
  static std::uint64_t bytes(std::uint32_t participants) { return 64ull * participants; }
  /// `lines`: zeroed before the first use. `token` identifies the process that acts for participant
  /// `self`; at most one process acts for a participant at a time (the pool ensures that by a lock
  /// file between the processes of one host).
  Lock(const coherence::Memory& memory, void* lines, std::uint32_t participants, std::uint32_t self,
       std::uint64_t token, AliveCheck alive);
  /// Acquires the lock; what earlier holders published is visible to later observes. Sharers hold
  /// it together. Participants get it in the order of arrival, so that neither kind starves the
  /// other. Not recursive. `meanwhile` is called between two looks of the wait. Errors: deadline.
  Result<void> acquire(std::uint64_t timeout_ns = 0, Hold hold = Hold::exclusive,
                       const std::function<void()>& meanwhile = {});
  void release();
  /// `excluded`: does something else keep a token's process from acting now, as a lock file does
  /// between the processes of one host? If so, its line is passed over when it was overwritten.
  void exclude_by(AliveCheck excluded) { excluded_ = std::move(excluded); }
  /// Publishes past the caches, which takes longer. Otherwise a line that a killed process left
  /// dirty in its node's cache could overwrite the line of the participant's next owner on another
  /// node. Not needed where something else makes the next owner wait for that cache.
  void leave_nothing_dirty() { place_.past_caches = true; }
  /// Clears this participant's line: removes a dead predecessor's state before the first acquire,
  /// or foreign data if the line was overwritten while no process acquires for it.
  void repair();
  /// False: the participant's line was overwritten. For a participant that does not wait itself
  /// while others do.
  bool intact() const;

 private:
  coherence::Memory memory_;
  LockPlace place_;
  std::uint64_t token_;
  std::uint64_t last_number_ = 0;  ///< the last number drawn: none is drawn twice
  AliveCheck alive_, excluded_;
};

/// The lines of a lock whose participants join over time: a list in the pool, which only grows,
/// says where they are. A participant is in the list before it first acquires the lock, so one that
/// is missing from a list read after the reader's own publish was idle then.
class LockLines {
 public:
  virtual std::uint32_t count() const = 0;                       ///< participants that are known
  virtual std::byte* line(std::uint32_t participant) const = 0;  ///< zeroed before it joined
  /// The two halves of a look at the list: call the first before a load_fence, the second after it.
  virtual void invalidate_news() = 0;
  virtual void load_news() = 0;

 protected:
  ~LockLines() = default;
};

/// A Lock whose participants join over time; `self` is one that has joined.
class OpenLock {
 public:
  OpenLock(const coherence::Memory& memory, LockLines& lines, std::uint32_t self,
           std::uint64_t token, AliveCheck alive)
      : memory_(memory), lines_(lines), self_(self), token_(token), alive_(std::move(alive)) {}
  /// As Lock::acquire().
  Result<void> acquire(std::uint64_t timeout_ns, Hold hold, const std::function<void()>& meanwhile);
  void release();

 private:
  coherence::Memory memory_;
  LockLines& lines_;
  std::uint32_t self_;
  std::uint64_t token_;
  std::uint64_t last_number_ = 0;
  AliveCheck alive_;
};

// ---- Renaming ---------------------------------------------------------------------------------
// A row of splitters gives each contender with a unique id a small number that no other holds,
// whatever the timing, by loads and stores only. open() makes a number available again. A contender
// that is alone gets a number at once while any door is open; contenders that meet now and then
// shut a door in vain.

class Renaming {
 public:
  static constexpr std::uint64_t bytes(std::uint32_t doors) { return 128ull * doors; }
  Renaming(const coherence::Memory& memory, void* lines, std::uint32_t doors)
      : memory_(memory), lines_(static_cast<std::byte*>(lines)), doors_(doors) {}
  /// Claims a number below `doors`. Errors: no_slots if no door is open.
  Result<std::uint32_t> claim(std::uint64_t id) const;
  /// For each door, the id that shut it last; 0 if it is open. One serialized device access.
  std::vector<std::uint64_t> shut_by() const;
  /// The holder no longer needs the number. It then publishes that it has left; others that see
  /// this may open the door, if `id` still stands there.
  void leave(std::uint32_t number, std::uint64_t id) const;
  /// Makes the number available again. Requires that no contender holds it or is on the way through
  /// its door, and that one process at a time opens.
  void open(std::uint32_t number) const;

 private:
  bool enter(std::uint32_t number, std::uint64_t id) const;
  std::byte* x_of(std::uint32_t number) const { return lines_ + 128ull * number; }
  std::byte* y_of(std::uint32_t number) const { return x_of(number) + coherence::line_bytes; }

  coherence::Memory memory_;
  std::byte* lines_;
  std::uint32_t doors_;
};

}  // namespace penstock::sync

// Transactions over objects: all changes of a transaction or none, whenever the process dies. An
// undo log holds what the objects contained before. Source: design of libpmemobj's undo log; steps,
// deaths and costs: docs/protocols/persistence.md.
#pragma once

#include <memory>
#include <optional>
#include <vector>

#include "arena/arena.hpp"
#include "persist/lane.hpp"
#include "persist/object_version.hpp"
#include "persist/recovery.hpp"
#include "persist/writers.hpp"

namespace penstock::persist {

/// One undo log, used by one thread at a time. A process may have several. Must be destroyed before
/// its arena.
class UndoLog {
 public:
  static constexpr std::uint64_t default_bytes = 1 << 20;
  static constexpr std::uint64_t min_bytes = 16 << 10;

  /// `bytes`: of the log in the pool, which a transaction's old bytes must fit into. Errors:
  /// no_slots (as many logs as processes the pool has room for), no_space, invalid_argument,
  /// unavailable.
  static Result<std::unique_ptr<UndoLog>> open(arena::Arena& arena,
                                               std::uint64_t bytes = default_bytes);
  /// Undoes what is under way, gives back the objects and the log's space.
  ~UndoLog();
  UndoLog(const UndoLog&) = delete;
  UndoLog& operator=(const UndoLog&) = delete;

  /// No device access. Errors: invalid_argument where one is under way.
  Result<void> begin();
  /// Before the bytes are stored to: keeps what they hold, at the device, so that it can be
  /// restored. Whole lines are kept. From the first add() on this log is the object's one writer
  /// until release(). Errors: invalid_argument (no transaction, not in the object, an object that
  /// dies with its process), not_found, no_space (bytes that the log needs), unavailable (another
  /// writes it, named; a host must flush its caches first; or this log was destroyed).
  Result<void> add(const arena::Object& object, std::uint64_t offset, std::uint64_t bytes);
  /// What was stored to the added bytes is at the device, all of it, and is what others see. On
  /// return it stays. Errors: unavailable, where a file cannot be written: then nothing is
  /// committed yet.
  Result<void> commit();
  /// The added bytes are as before.
  Result<void> abort();
  /// Others may write the object. Errors: invalid_argument within a transaction.
  Result<void> release(const arena::Object& object);
  Result<void> release_all();

  bool active() const { return active_; }
  std::uint64_t bytes_used() const { return next_ - lane_.first(); }
  arena::Arena& arena() const { return arena_; }

 private:
  struct Range {
    std::uint64_t offset, bytes;
  };
  /// An object that this log may write.
  struct Writing {
    arena::Object object;
    ObjectVersion version;
    ObjectVersion::State state;
    std::vector<Range> ranges;  ///< added by the transaction under way
  };

  UndoLog(arena::Arena& arena, const Device& device, const Writers& writers, std::uint32_t number,
          arena::Object log);

  Result<void> check_process() const;
  Result<void> check_log() const;
  Result<Writing*> writing(const arena::Object& object);
  Result<ObjectVersion::State> become_writer(const arena::Object& object,
                                             const ObjectVersion& version);
  Result<void> keep(Writing& writing, const Range& range);
  Result<void> sync_changed() const;
  void set(Lane::State state);
  void tell_changed();
  void give_back(const Writing& writing) const;
  void end();

  arena::Arena& arena_;
  Device device_;
  Writers writers_;
  std::uint32_t number_;  ///< in the table of writers
  arena::Object log_;
  Lane lane_;
  std::uint64_t transaction_ = 0, next_ = 0;
  std::uint64_t synced_ = 0;    ///< entries before it are in the file
  std::vector<Entry> entries_;  ///< of the transaction under way
  std::vector<std::unique_ptr<Writing>> writings_;
  bool active_ = false;
};

}  // namespace penstock::persist

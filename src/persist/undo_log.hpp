// Transactions over objects: all changes of a transaction or none, whenever the process dies. An
// undo log holds the old contents of the objects. Source: design of libpmemobj's undo log; steps,
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

/// One undo log, used by one thread at a time. A process may have several. Destroy it before its
/// arena.
class UndoLog {
 public:
  static constexpr std::uint64_t default_bytes = 1 << 20;
  static constexpr std::uint64_t min_bytes = 16 << 10;

  /// Makes a log. `bytes`: its size in the pool; the old bytes of a transaction must fit. Errors:
  /// no_slots (the pool has as many logs as it has room for processes), no_space, invalid_argument,
  /// unavailable.
  static Result<std::unique_ptr<UndoLog>> open(arena::Arena& arena,
                                               std::uint64_t bytes = default_bytes);
  /// Undoes an unfinished transaction; gives back the objects and the log's space.
  ~UndoLog();
  UndoLog(const UndoLog&) = delete;
  UndoLog& operator=(const UndoLog&) = delete;

  /// Begins a transaction. No device access. Errors: invalid_argument if one is under way.
  Result<void> begin();
  /// Call it before you store to the bytes: keeps their contents, at the device and in whole lines,
  /// so that they can be restored. From the first add() on, this log is the object's only writer
  /// until release(). Errors: invalid_argument (no transaction, not in the object, an object that
  /// dies with its process), not_found, no_space (names the bytes that the log needs), unavailable
  /// (another process writes the object, named; a host must flush its caches first; or this log was
  /// destroyed).
  Result<void> add(const arena::Object& object, std::uint64_t offset, std::uint64_t bytes);
  /// Commits: on return all added bytes are at the device and stay, and others see them. Errors:
  /// unavailable if a file cannot be written: nothing is committed then.
  Result<void> commit();
  /// Restores the old contents of the added bytes.
  Result<void> abort();
  /// Lets others write the object. Errors: invalid_argument within a transaction.
  Result<void> release(const arena::Object& object);
  Result<void> release_all();

  bool active() const { return active_; }
  std::uint64_t bytes_used() const { return next_ - lane_.first(); }
  arena::Arena& arena() const { return arena_; }

 private:
  struct Range {
    std::uint64_t offset, bytes;
  };
  /// An object whose writer this log is.
  struct Writing {
    arena::Object object;
    ObjectVersion version;
    ObjectVersion::State state;
    std::vector<Range> ranges;  ///< ranges that the present transaction has added
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
  void publish_versions();
  void give_back(const Writing& writing) const;
  void end();

  arena::Arena& arena_;
  Device device_;
  Writers writers_;
  std::uint32_t number_;  ///< its line in the table of writers
  arena::Object log_;
  Lane lane_;
  std::uint64_t transaction_ = 0, next_ = 0;
  std::uint64_t synced_ = 0;    ///< entries before this offset are in the file
  std::vector<Entry> entries_;  ///< entries of the present transaction
  std::vector<std::unique_ptr<Writing>> writings_;
  bool active_ = false;
};

}  // namespace penstock::persist

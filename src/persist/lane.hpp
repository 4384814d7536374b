// The bytes of one undo log: a pair of lines that says whether a transaction is under way, and the
// entries, which hold the old contents of the objects.
#pragma once

#include <optional>
#include <vector>

#include "persist/line_pair.hpp"

namespace penstock::persist {

struct Entry {
  EntryHeader header;
  std::uint64_t place = 0;  ///< offset of its header in the pool
};

class Lane {
 public:
  enum class State : std::uint64_t { idle = 0, active = 1 };

  Lane(const Device& device, const arena::Object& log, std::uint64_t pool_id);

  /// Returns the number of the transaction that is under way; nullopt if there is none.
  std::optional<std::uint64_t> active() const;
  /// Begins or ends a transaction: publishes one line, whole or not at all. The caller orders it.
  void set(State state, std::uint64_t transaction);
  /// Writes that line into the file.
  Result<void> sync_state() const { return state_.sync(step_); }

  /// Returns the size of an entry for `bytes` of an object.
  static std::uint64_t needed(std::uint64_t bytes) { return line_bytes + bytes; }
  std::uint64_t capacity() const { return end_ - first_; }
  std::uint64_t first() const { return first_; }

  /// Appends an entry with the object's present contents, as this node sees them; whole lines. The
  /// caller orders it.
  Entry append(std::uint64_t place, const arena::Object& object, EntryHeader header) const;
  /// Returns the whole entries of a transaction, in order. Errors: wrong_format if a later entry
  /// proves that an earlier one was damaged.
  Result<std::vector<Entry>> entries(std::uint64_t transaction) const;
  /// Publishes the old bytes where they were. The caller has checked that they fit, and orders the
  /// publishes.
  void restore(const Entry& entry, const arena::Object& object) const;

 private:
  std::optional<Entry> read(std::uint64_t place, std::uint64_t transaction) const;
  std::uint64_t checksum(const EntryHeader& header, std::uint64_t bytes_hash) const;
  template <class Visit>
  void for_chunks(std::uint64_t from, std::uint64_t bytes, Visit visit) const;

  Device device_;
  LinePair state_;
  std::uint64_t first_, end_;  ///< bounds of the entries
  std::uint64_t key_;
  std::uint64_t step_ = 0;
};

}  // namespace penstock::persist

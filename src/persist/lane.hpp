// The bytes of one undo log: a pair of lines that says whether a transaction is under way, and the
// entries that hold what the objects contained before.
#pragma once

#include <optional>
#include <vector>

#include "persist/line_pair.hpp"

namespace penstock::persist {

struct Entry {
  EntryHeader header;
  std::uint64_t place = 0;  ///< of its header, in the pool
};

class Lane {
 public:
  enum class State : std::uint64_t { idle = 0, active = 1 };

  Lane(const Device& device, const arena::Object& log, std::uint64_t pool_id);

  /// Nullopt: no transaction is under way, or none has ever been. Else its number.
  std::optional<std::uint64_t> active() const;
  /// One line, whole or not at all: begins or ends a transaction. The caller orders it.
  void set(State state, std::uint64_t transaction);
  /// That line, in the file.
  Result<void> sync_state() const { return state_.sync(step_); }

  /// Bytes that an entry for so many takes.
  static std::uint64_t needed(std::uint64_t bytes) { return line_bytes + bytes; }
  std::uint64_t capacity() const { return end_ - first_; }
  std::uint64_t first() const { return first_; }

  /// Copies what the object holds now, by this node's view; whole lines. The caller orders it.
  Entry append(std::uint64_t place, const arena::Object& object, EntryHeader header) const;
  /// The whole entries of a transaction, in order. Errors: wrong_format where a later one proves
  /// that an earlier one was damaged.
  Result<std::vector<Entry>> entries(std::uint64_t transaction) const;
  /// Publishes the old bytes where they were. The caller has checked that they fit, and orders it.
  void restore(const Entry& entry, const arena::Object& object) const;

 private:
  std::optional<Entry> read(std::uint64_t place, std::uint64_t transaction) const;
  std::uint64_t checksum(const EntryHeader& header, std::uint64_t bytes_hash) const;
  template <class Visit>
  void for_chunks(std::uint64_t from, std::uint64_t bytes, Visit visit) const;

  Device device_;
  LinePair state_;
  std::uint64_t first_, end_;  ///< of entries
  std::uint64_t key_;
  std::uint64_t step_ = 0;
};

}  // namespace penstock::persist

// Large arrays that are saved as a whole: two copies, and a line that says which one is valid.
// Writes the data once, where an undo log writes it twice. Drawing and costs:
// docs/protocols/persistence.md.
#pragma once

#include <optional>
#include <string_view>

#include "arena/arena.hpp"
#include "persist/line_pair.hpp"

namespace penstock::persist {

/// An object with two copies of `bytes`. Several processes may write parts of the next version; one
/// of them commits it when all have flushed. One handle is used by one thread at a time.
class Checkpoint {
 public:
  struct Valid {
    std::uint64_t version = 0;  ///< 0: nothing was committed yet
    std::uint64_t tag = 0;      ///< as given to commit()
  };

  /// Makes it, or opens one of the same size. Errors: those of Arena::create; wrong_format, where
  /// an object of that name and size is none.
  static Result<Checkpoint> create(arena::Arena& arena, std::string_view name, std::uint64_t bytes,
                                   arena::Lifetime lifetime = arena::Lifetime::persistent);
  /// Errors: not_found, also of one that is just being made; wrong_format, where the object is
  /// none.
  static Result<Checkpoint> open(arena::Arena& arena, std::string_view name);

  /// Bytes of one copy, whole pages.
  std::uint64_t bytes() const { return copy_bytes_; }
  const arena::Object& object() const { return object_; }

  /// What is valid now. One serialized device access. Errors: wrong_format.
  Result<Valid> valid() const;
  /// Begins the version after the valid one; returns its number. What this handle wrote of an
  /// earlier one that was not committed is forgotten.
  Result<std::uint64_t> begin();
  /// Into the copy that is not valid, past the caches. Processes that write at once write different
  /// words of 8 bytes. One serialized device access, and the data once. Errors: invalid_argument;
  /// mismatch, when another version was committed since begin().
  Result<void> write(std::uint64_t offset, const void* from, std::uint64_t bytes);
  /// What this handle wrote is at the device, or in the file. Before whoever commits is told.
  Result<void> flush();
  /// The version that was begun is valid from now on, and stays. Called by one process, when all
  /// that have written have flushed. Takes the pool's lock. Errors: mismatch, as write().
  Result<void> commit(std::uint64_t tag);
  /// Copies out of a version. Errors: invalid_argument; unavailable, when `version` is not the
  /// valid one any more, so that what was copied may be of a later one: look again.
  Result<void> read(std::uint64_t version, void* to, std::uint64_t offset,
                    std::uint64_t bytes) const;

 private:
  Checkpoint(arena::Arena& arena, const Device& device, arena::Object object);
  bool is_fresh() const;
  Result<PairLine> line() const;
  Result<PairLine> line_before_begun() const;
  Result<void> check_range(std::uint64_t offset, std::uint64_t bytes) const;
  std::uint64_t copy(std::uint64_t version) const {
    return object_.offset + pair_bytes + (version & 1) * copy_bytes_;
  }
  void write_words(std::uint64_t to, const std::byte* from, std::uint64_t bytes) const;

  arena::Arena* arena_;
  Device device_;
  arena::Object object_;
  LinePair lines_;
  std::uint64_t copy_bytes_;
  std::uint64_t begun_ = 0;                   ///< 0: none
  std::uint64_t written_first_ = UINT64_MAX;  ///< of what was not flushed, in the pool
  std::uint64_t written_end_ = 0;
};

}  // namespace penstock::persist
